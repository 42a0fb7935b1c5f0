//! From start to stop, and what may be missing in between.

use std::{fs, sync::mpsc, thread, time::Duration};

use keyfob_agent::{AgentBuilder, InheritedSockets, SocketError, Sockets};
use keyfob_agent_config::AgentConfig;
use keyfob_exec::{ProcessRunner, SystemEnvironment};
use keyfob_testkit::{Script, Step, scripted_plugin};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, sync::watch, time::sleep};

use crate::rig::{APP, AgentFile, Rig, eventually};

#[tokio::test]
async fn a_request_that_is_under_way_is_answered_before_the_agent_stops() {
    let rig = Rig::new();
    rig.plugins.take(Duration::from_millis(500));
    let agent = rig.start();
    let socket = agent.socket.clone();
    let asking = tokio::spawn(async move { socket.credentials(APP).await.users() });
    eventually("the plugin runs", || async { rig.plugins.running() == 1 }).await;
    let socket = agent.socket.clone();

    agent.stop().await;

    assert_eq!(asking.await.unwrap(), ["ada"]);
    assert_eq!(rig.plugins.running(), 0);
    assert!(tokio::net::UnixStream::connect(&socket.path).await.is_err());
    for name in ["agent.sock", "admin.sock"] {
        assert!(!rig.path(name).exists(), "{name} is left behind");
    }
    assert_eq!(rig.audit().len(), 1);
    rig.check_leaks();
}

#[tokio::test(start_paused = true)]
async fn idle_connections_do_not_hold_up_the_stop() {
    let rig = Rig::new();
    let agent = rig.start();
    let mut idle = Vec::new();
    for bytes in
        ["", "POST /v1", "POST /v1/credentials HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"]
    {
        let mut stream = agent.socket.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    agent.users(APP).await;
    let began = tokio::time::Instant::now();
    rig.finish(agent).await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_refused_and_logged() {
    let rig = Rig::new();
    let limits = "{requestTimeout: 1s, requestsPerSecond: 1000}".into();
    rig.write(&AgentFile { limits, ..AgentFile::default() });
    rig.plugins.take(Duration::from_millis(1500));
    let agent = rig.start();
    let (status, code, message) = agent.socket.credentials(APP).await.refusal();
    assert_eq!((status, &*code, &*message), (503, "unavailable", "no answer within 1 s"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(agent.users(APP).await, ["ada"], "the run went on, and its answer is cached");
    agent.stop().await;
    assert_eq!(rig.audit()[0]["outcome"], "failed");
    rig.check_leaks();
}

#[tokio::test]
async fn a_full_disk_stops_no_credentials_and_is_counted() {
    let rig = Rig::new();
    let audit = "{to: file, path: /dev/full}".into();
    rig.write(&AgentFile { audit, ..AgentFile::default() });
    let agent = rig.start();
    for _ in 0..5 {
        assert_eq!(agent.users(APP).await, ["ada"]);
    }
    eventually("the loss is counted", || async {
        agent.status().await["audit"] == json!({"written": 0, "lost": 5})
    })
    .await;
    eventually("the loss is measured", || async {
        agent.metric("keyfob_agent_audit_events_lost_total").await == "5"
    })
    .await;
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_state_directory_that_is_gone_stops_nothing() {
    let rig = Rig::new();
    fs::remove_dir(rig.path("state")).unwrap();
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["ada"]);
    agent.stop().await;
    assert!(rig.logs().contains("remembered images cannot be written"));
    fs::create_dir(rig.path("state")).unwrap();
    rig.check_leaks();
}

#[tokio::test]
async fn a_state_directory_that_cannot_be_written_keeps_its_old_file() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    agent.stop().await;
    let stored = || fs::read_to_string(rig.path("state/images.json")).unwrap();
    let before = stored();
    assert!(before.contains(APP), "{before}");

    // What is in the way stops root too.
    fs::create_dir(rig.path("state/images.new")).unwrap();
    let agent = rig.start();
    assert_eq!(agent.users("registry.example/other").await, ["ada"]);
    agent.stop().await;
    assert!(rig.logs().contains("remembered images cannot be written"));
    assert_eq!(stored(), before);

    fs::remove_dir(rig.path("state/images.new")).unwrap();
    let agent = rig.start();
    agent.users("registry.example/other").await;
    agent.stop().await;
    assert!(stored().contains("registry.example/other"), "{}", stored());
    let left: Vec<_> = fs::read_dir(rig.path("state")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    rig.check_leaks();
}

/// A disk that does not answer is a FIFO that nobody reads.
#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_holds_up_nobody() {
    let rig = Rig::new();
    let fifo = rig.path("state/images.new");
    let (kind, mode) = (FileType::Fifo, Mode::RUSR | Mode::WUSR);
    mknodat(CWD, &fifo, kind, mode, 0).unwrap();
    let (answered, wait) = mpsc::channel();
    let disk = thread::spawn(move || {
        let was_answered = wait.recv_timeout(Duration::from_secs(20)).is_ok();
        (was_answered, fs::OpenOptions::new().read(true).write(true).open(fifo).unwrap())
    });
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["ada"]);
    // The names are written every half a minute.
    tokio::time::advance(Duration::from_secs(31)).await;
    for _ in 0..10 {
        assert_eq!(agent.users(APP).await, ["ada"]);
    }
    // Once it is too late, nobody listens.
    answered.send(()).unwrap_or_default();
    let (was_answered, _disk) = disk.join().unwrap();
    assert!(was_answered, "callers were answered meanwhile");
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_plugin_directory_may_disappear_and_return() {
    let rig = Rig::new();
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["ada"]);
    fs::rename(rig.path("plugins"), rig.path("gone")).unwrap();
    assert_eq!(agent.users(APP).await, ["ada"], "the answer is cached");
    rig.clock.advance(Duration::from_hours(2));
    let (status, code, message) = agent.socket.credentials(APP).await.refusal();
    assert_eq!((status, &*code), (502, "failed"), "{message}");
    assert!(message.contains("provider one"), "{message}");
    assert!(agent.agent.reload().is_ok(), "the configuration is good");
    fs::rename(rig.path("gone"), rig.path("plugins")).unwrap();
    // A failure is not repeated at once.
    rig.clock.advance(Duration::from_mins(10));
    assert_eq!(agent.users(APP).await, ["ada"]);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_second_agent_does_not_take_the_socket() {
    let rig = Rig::new();
    let agent = rig.start();
    let config = AgentConfig::read(&rig.file()).unwrap();
    let second = Sockets::open(&config, InheritedSockets::default());
    assert!(matches!(second, Err(SocketError::InUse(_))));
    assert_eq!(agent.users(APP).await, ["ada"]);
    rig.finish(agent).await;
}

#[tokio::test]
async fn sockets_may_be_inherited_and_are_left_to_their_owner() {
    let rig = Rig::new();
    let path = rig.path("agent.sock");
    let mut inherited = InheritedSockets::default();
    inherited.agent = Some(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let config = AgentConfig::read(&rig.file()).unwrap();
    let sockets = Sockets::open(&config, inherited).unwrap();
    let agent = rig.build().unwrap();
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(async move { agent.serve(sockets, stopped).await });
    let answer = keyfob_agent::AgentClient::new(&path).credentials(APP).await.unwrap();
    assert_eq!(answer.credentials[0].username, "ada");
    stop.send_replace(true);
    serving.await.unwrap();
    assert!(path.exists(), "the service manager listens on it");
    rig.check_leaks();
}

#[tokio::test]
async fn an_agent_without_valid_files_is_not_built() {
    let rig = Rig::new();
    fs::write(rig.path("providers.yaml"), "kind: nonsense").unwrap();
    assert!(rig.build().is_err());
    fs::remove_file(rig.path("providers.yaml")).unwrap();
    let error = rig.build().unwrap_err();
    assert_eq!(error.to_string(), "the provider configuration cannot be read");
    rig.check_leaks();
}

/// A real process that would go on for a minute is not left behind.
#[test]
fn plugins_do_not_outlive_the_agent() {
    let witness = tempfile::tempdir().unwrap();
    let record = witness.path().join("witness");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let rig = Rig::new();
        let script = Script::new([Step::Record(record.clone()), Step::SleepMs(60_000)]);
        let limits = "{requestTimeout: 1s}".into();
        rig.write(&AgentFile { limits, ..AgentFile::default() });
        let text = fs::read_to_string(rig.path("providers.yaml")).unwrap();
        let arg = serde_json::to_string(&script.to_arg()).unwrap();
        fs::write(rig.path("providers.yaml"), format!("{text}  args: [{arg}]\n")).unwrap();
        fs::remove_file(rig.path("plugins/one")).unwrap();
        std::os::unix::fs::symlink(scripted_plugin(), rig.path("plugins/one")).unwrap();
        let config = AgentConfig::read(&rig.file()).unwrap();
        let sockets = Sockets::open(&config, InheritedSockets::default()).unwrap();
        let agent = AgentBuilder::new(rig.file(), config)
            .host(|host| host.runner(ProcessRunner::new(SystemEnvironment)))
            .build()
            .unwrap();
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(async move { agent.serve(sockets, stopped).await });
        let client = keyfob_agent::AgentClient::new(rig.path("agent.sock"));
        let error = client.credentials(APP).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer within 1 s");
        eventually("the plugin has left its record", || async {
            let text = fs::read_to_string(&record).unwrap_or_default();
            serde_json::from_str::<keyfob_testkit::Witness>(&text).is_ok()
        })
        .await;
        stop.send_replace(true);
        serving.await.unwrap();
        rig.check_leaks();
    });
    let text = fs::read_to_string(&record).unwrap();
    let witness: keyfob_testkit::Witness = serde_json::from_str(&text).unwrap();
    drop(runtime);
    let path = format!("/proc/{}/stat", witness.pid);
    for _ in 0..500 {
        // Dead, and perhaps not yet waited for.
        let is_alive = fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z "));
        if !is_alive {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "there is no runtime any more")]
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the plugin is still running");
}
