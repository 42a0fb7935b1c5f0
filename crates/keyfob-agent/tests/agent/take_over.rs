//! One agent takes the sockets over from another one, and no client notices.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use keyfob_agent::{InheritedSockets, Sockets};
use keyfob_agent_config::AgentConfig;
use tokio::{io::AsyncWriteExt as _, sync::watch};

use crate::rig::{APP, Rig, eventually};

/// How often the agent is replaced while clients ask.
const TAKE_OVERS: usize = 20;
const CLIENTS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_lost_while_one_agent_after_the_other_takes_over() {
    let rig = Rig::new();
    let mut agent = rig.start();
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (socket, is_over, answered) =
                (agent.socket.clone(), is_over.clone(), answered.clone());
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    // Panics if nobody listens, or if the connection is closed without an answer.
                    assert_eq!(socket.credentials(APP).await.users(), ["ada"]);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for _ in 0..TAKE_OVERS {
        let before = answered.load(Ordering::Relaxed);
        let next = rig.take_over();
        agent.stop().await;
        agent = next;
        let answered = &answered;
        eventually("the new agent answers", || async {
            answered.load(Ordering::Relaxed) > before + CLIENTS
        })
        .await;
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("every request is answered");
    }
    rig.finish(agent).await;
}

/// The old agent has not even accepted the connection when it is told to stop.
#[tokio::test]
async fn whoever_waits_in_the_queue_of_the_old_socket_is_answered() {
    let rig = Rig::new();
    let config = AgentConfig::read(&rig.file()).unwrap();
    let sockets = Sockets::open(&config, InheritedSockets::default()).unwrap();
    let old = rig.build().unwrap();
    let body = format!(r#"{{"image": "{APP}"}}"#);
    let request = format!(
        "POST /v1/credentials HTTP/1.1\r\nhost: keyfob-agent\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut queued = Vec::new();
    for _ in 0..3 {
        let mut stream = tokio::net::UnixStream::connect(rig.path("agent.sock")).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        queued.push(stream);
    }

    let new = rig.take_over();
    let (stop, stopped) = watch::channel(false);
    stop.send_replace(true);
    let stopping = tokio::spawn(async move { old.serve(sockets, stopped).await });

    for stream in &mut queued {
        let reply = new.socket.read(stream).await.expect("an answer of the old agent");
        assert_eq!(reply.users(), ["ada"]);
    }
    stopping.await.unwrap();
    assert_eq!(new.users(APP).await, ["ada"], "the new agent's socket is still there");
    rig.finish(new).await;
}

#[tokio::test]
async fn the_old_agent_serves_its_connections_and_the_new_one_those_that_come() {
    let rig = Rig::new();
    let old = rig.start();
    let mut connected = old.socket.connect().await;
    let inode = rig.path("agent.sock").metadata().unwrap().ino();
    let new = rig.take_over();
    assert_ne!(rig.path("agent.sock").metadata().unwrap().ino(), inode);
    let names = fs::read_dir(rig.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let sockets = names.filter(|name| name.to_string_lossy().contains(".sock"));
    assert_eq!(sockets.count(), 2, "no temporary name is left");

    let head = "GET /v1/docker/list HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    connected.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(new.socket.read(&mut connected).await.unwrap().status, 200);
    old.stop().await;
    assert_eq!(new.users(APP).await, ["ada"]);
    let path = rig.path("agent.sock");
    new.stop().await;
    assert!(!path.exists(), "the last agent leaves nothing behind");
    rig.check_leaks();
}
