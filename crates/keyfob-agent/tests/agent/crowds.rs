//! Many callers at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keyfob_testkit::raise_file_limit;

use crate::{
    plugins::logins,
    rig::{APP, AgentFile, Rig, eventually, provider, provider_config, rename_over},
};

#[tokio::test]
async fn five_hundred_images_at_once_run_few_plugins_at_a_time() {
    let files = raise_file_limit();
    let rig = Rig::new();
    let limits = "{pluginRunsPerProvider: 4, requestsPerSecond: 100000, connections: 4096}".into();
    rig.write(&AgentFile { limits, ..AgentFile::default() });
    rig.plugins
        .respond("one", |request| Some(logins("Image", "1h", [(request.image.clone(), "ada")])));
    rig.plugins.take(Duration::from_millis(2));
    let agent = rig.start();
    // Both ends of a connection are in this process.
    let images = 500.min(files / 4);
    let asking: Vec<_> = (0..images)
        .map(|number| {
            let socket = agent.socket.clone();
            let image = format!("registry.example/team/app-{number}");
            tokio::spawn(async move { socket.credentials(&image).await })
        })
        .collect();
    for (number, asked) in asking.into_iter().enumerate() {
        let reply = asked.await.unwrap();
        assert_eq!((reply.status, reply.users()), (200, vec!["ada".to_owned()]), "{number}");
    }
    assert_eq!(rig.plugins.runs(), images);
    assert_eq!(rig.plugins.most_running(), 4);
    rig.finish(agent).await;
}

#[tokio::test]
async fn callers_of_one_registry_share_one_run() {
    raise_file_limit();
    let rig = Rig::new();
    rig.plugins.take(Duration::from_millis(300));
    let agent = rig.start();
    let asking: Vec<_> = (0..200)
        .map(|_| {
            let socket = agent.socket.clone();
            tokio::spawn(async move { socket.credentials(APP).await.users() })
        })
        .collect();
    for asked in asking {
        assert_eq!(asked.await.unwrap(), ["ada"]);
    }
    assert_eq!(rig.plugins.runs(), 1);
    rig.finish(agent).await;
}

#[tokio::test]
async fn no_request_is_lost_while_the_configuration_is_replaced_again_and_again() {
    const RELOADS: usize = 600;
    let rig = Rig::new();
    rig.install("two");
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (socket, is_over) = (agent.socket.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut answers = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let reply = socket.credentials(APP).await;
                    assert_eq!((reply.status, reply.users()), (200, vec!["ada".to_owned()]));
                    answers += 1;
                }
                answers
            })
        })
        .collect();
    let one = provider("one", "registry.example");
    let texts = [provider_config(&one), provider_config(&(one + &provider("two", "two.example")))];
    for number in 0..RELOADS {
        rename_over(&rig.path("providers.yaml"), &texts[number % 2]);
        agent.agent.reload().unwrap();
        tokio::task::yield_now().await;
        if number % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let mut answers = 0;
    for caller in callers {
        answers += caller.await.unwrap();
    }
    assert!(answers > 50, "{answers} answers under load");
    assert_eq!(rig.plugins.runs(), 1, "a provider that does not change keeps its answers");
    let status = agent.status().await;
    assert_eq!(status["reloads"]["succeeded"], RELOADS);
    assert_eq!(status["reloads"]["failed"], 0);
    rig.finish(agent).await;
}

/// The relay takes an agent that does not say so for one that hangs.
#[tokio::test]
async fn a_busy_agent_says_that_it_is_alive() {
    let rig = Rig::new();
    rig.write(&AgentFile { limits: "{requestsPerSecond: 1}".into(), ..AgentFile::default() });
    let go_on = rig.plugins.hold();
    let agent = rig.start();
    let socket = agent.socket.clone();
    let asking = tokio::spawn(async move { socket.credentials(APP).await.users() });
    eventually("the plugin runs", async || rig.plugins.running() == 1).await;
    for _ in 0..10 {
        let alive = agent.socket.call("GET", "/v1/alive", "").await;
        assert_eq!((alive.status, &*alive.body), (200, r#"{"alive":true}"#));
    }
    assert_eq!(agent.socket.call("POST", "/v1/alive", "").await.status, 404);
    assert_eq!(agent.socket.call("GET", "/v1/docker/list", "").await.status, 429);
    assert!(rig.audit().iter().all(|event| event["request"] != "/v1/alive"));
    drop(go_on);
    assert_eq!(asking.await.unwrap(), ["ada"]);
    rig.finish(agent).await;
}
