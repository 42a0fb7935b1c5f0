//! The administrators' socket.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use keyfob_agent::AgentClient;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    time::timeout,
};

use crate::{
    plugins::{logins, registry},
    rig::{APP, AgentFile, Rig, eventually, provider, rule},
};

#[tokio::test]
async fn its_paths_are_not_on_the_socket_for_credentials() {
    let rig = Rig::new();
    let agent = rig.start();
    let mode = std::fs::metadata(&agent.admin.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (method, path) in [
        ("GET", "/v1/status"),
        ("POST", "/v1/reload"),
        ("POST", "/v1/forget"),
        ("GET", "/metrics"),
        ("GET", "/nothing"),
    ] {
        let reply = agent.admin.call(method, path, "").await;
        let expected = match path {
            "/nothing" => 404,
            _ => 200,
        };
        assert_eq!(reply.status, expected, "{path}: {}", reply.body);
        let elsewhere = agent.socket.call(method, path, "").await;
        assert_eq!(elsewhere.refusal().0, 404, "{path} is not on the socket for credentials");
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_status_says_how_the_agent_is_doing() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    agent.users("elsewhere.example/app").await;
    eventually("the events are written", || async {
        agent.status().await["audit"]["written"] == 2
    })
    .await;
    let mut status = agent.status().await;
    let renewal = take_what_varies(&mut status);
    let expected = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "started": "2030-03-17T17:46:40Z",
        "configFile": rig.file(),
        "providerConfig": rig.path("providers.yaml"),
        "providerConfigHash": null,
        "node": null,
        "now": "2030-03-17T17:46:40Z",
        "problems": [],
        "minutes": null,
        "decisions": null,
        "cached": [
            {"provider": "one", "key": "registry.example", "expires": "2030-03-17T18:46:40Z"},
        ],
        "reloads": {"succeeded": 0, "failed": 0, "history": []},
        "providers": [{
            "name": "one",
            "matchImages": ["registry.example"],
            "cachedAnswers": 1,
            "nextExpiry": "2030-03-17T18:46:40Z",
            "nextRenewal": renewal,
            "state": "working",
            "runs": 1,
            "failures": 0,
            "failuresInARow": 0,
            "lastRun": {
                "time": "2030-03-17T17:46:40Z",
                "image": APP,
                "succeeded": true,
                "milliseconds": null,
            },
        }],
        "cachedAnswers": 1,
        "rememberedImages": 1,
        "rules": ["own"],
        "audit": {"written": 2, "lost": 0},
    });
    assert_eq!(status, expected);
    rig.clock.advance(Duration::from_hours(2));
    let later = agent.status().await;
    assert_eq!(later["cachedAnswers"], 0, "what has expired is of no use");
    rig.finish(agent).await;
}

/// Checks what is not the same in each run, and takes it out of the status. Returns when the provider is asked again.
fn take_what_varies(status: &mut Value) -> Value {
    let hash = status["providerConfigHash"].take();
    assert!(hash.as_str().unwrap().len() > 10, "{hash}");
    assert!(!status["node"].take().as_str().unwrap().is_empty());
    assert_eq!(status["minutes"].take().as_array().unwrap().len(), 60);
    let decisions = status["decisions"].take();
    let decided = decisions.as_array().unwrap().iter().map(|event| &event["outcome"]);
    assert_eq!(decided.collect::<Vec<_>>(), ["empty", "allowed"], "the newest first");
    assert!(status["providers"][0]["lastRun"]["milliseconds"].take().is_u64());
    let renewal = status["providers"][0]["nextRenewal"].clone();
    assert!(renewal.is_string(), "it is renewed before it expires");
    renewal
}

#[tokio::test]
async fn reload_says_what_changed_and_what_waits_for_a_restart() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    rig.write_providers(&(provider("one", "registry.example") + &provider("two", "two.example")));
    let original = std::fs::read_to_string(rig.file()).unwrap();
    std::fs::write(rig.file(), original.replace("/plugins", "/elsewhere")).unwrap();
    let client = AgentClient::new(&agent.admin.path);
    let reloaded = client.reload().await;
    let expected = json!({
        "kept": ["one"],
        "started": ["two"],
        "removed": [],
        "restartNeeded": ["pluginDirectory"],
    });
    assert_eq!(reloaded.unwrap(), expected);
    std::fs::write(rig.file(), original).unwrap();
    assert_eq!(client.reload().await.unwrap()["restartNeeded"], json!([]), "as at the start");

    std::fs::write(rig.path("providers.yaml"), "kind: nonsense").unwrap();
    let error = client.reload().await.unwrap_err().to_string();
    assert!(error.starts_with("the old configuration stays: "), "{error}");
    assert_eq!(agent.users(APP).await, ["ada"]);
    rig.finish(agent).await;
}

#[tokio::test]
async fn forget_forgets_what_it_is_told() {
    let rig = Rig::new();
    rig.write_providers(&(provider("one", "registry.example") + &provider("two", "two.example")));
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    let client = AgentClient::new(&agent.admin.path);
    let fill = async || {
        agent.users(APP).await;
        agent.users("two.example/app").await;
        rig.plugins.runs()
    };
    assert_eq!(fill().await, 2);
    for (image, provider, forgotten, runs) in [
        (Some("registry.example/team/app:v1"), None, 1, 3),
        (None, Some("two"), 1, 4),
        (None, None, 2, 6),
    ] {
        let answer = client.forget(image, provider).await.unwrap();
        assert_eq!(answer, json!({"forgotten": forgotten}), "{image:?} {provider:?}");
        assert_eq!(fill().await, runs);
    }
    let unknown = client.forget(None, Some("nobody")).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no provider \"nobody\"");
    assert_eq!(fill().await, 6);
    let bad = agent.admin.call("POST", "/v1/forget", r#"{"images": 1}"#).await;
    assert_eq!(bad.refusal().0, 400);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_password_that_docker_got_is_forgotten_with_the_image_or_its_registry() {
    let rig = Rig::new();
    rig.plugins.respond("one", |request| Some(logins("Image", "1h", [(registry(request), "ada")])));
    let agent = rig.start();
    let client = AgentClient::new(&agent.admin.path);
    for (image, forgotten) in [
        ("registry.example/team/app:v1", 2),
        ("registry.example/", 1),
        ("registry.example/other", 1),
        ("elsewhere.example/", 0),
    ] {
        agent.socket.docker_get("https://registry.example").await;
        agent.users(APP).await;
        let answer = client.forget(Some(image), None).await.unwrap();
        assert_eq!(answer, json!({"forgotten": forgotten}), "{image}");
        client.forget(None, None).await.unwrap();
    }
    assert!(client.forget(Some("//"), None).await.is_err());
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_refusal_of_docker_can_be_explained_as_it_is_written() {
    let rig = Rig::with_rules(rule("pods", "{namespaces: [team]}", "AllowAsPod"));
    let agent = rig.start();
    let (_, _, message) = agent.socket.docker_get("https://registry.example").await.refusal();
    let name = message.split(' ').find(|word| word.ends_with('/')).unwrap();
    let client = AgentClient::new(&agent.socket.path);
    let explained = client.explain(name, None).await.unwrap();
    let providers = json!([{
        "provider": "one",
        "decision": "Deny",
        "notApplied": [{"rule": "pods", "reason": "it is for pods, and the caller is a process on the host"}],
    }]);
    assert_eq!(
        (&explained["image"], &explained["providers"]),
        (&json!("registry.example/"), &providers)
    );
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_rule_that_denies_a_user_in_a_pod_is_explained() {
    let rules = rule("not-mallory", "{uids: [1666]}", "Deny")
        + &rule("team", "{namespaces: [team]}", "AllowAsPod");
    let rig = Rig::with_rules(rules);
    let agent = rig.start();
    let client = AgentClient::new(&agent.socket.path);
    for (caller, rule) in [("pod:team/cart", "team"), ("pod:team/cart,uid:1666", "not-mallory")] {
        let explained = client.explain(APP, Some(caller)).await.unwrap();
        assert_eq!(explained["providers"][0]["rule"], rule, "{caller}");
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_stream_shows_decisions_as_they_are_made_and_ends_with_the_agent() {
    let rig = Rig::new();
    rig.write(&AgentFile { audit: "{to: none}".into(), ..AgentFile::default() });
    let agent = rig.start();
    let mut stream = agent.admin.connect().await;
    stream.write_all(b"GET /v1/audit HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = async |what: fn(&str) -> bool| {
        let found = async {
            loop {
                match lines.next_line().await.unwrap() {
                    Some(line) if what(&line) => return Some(line),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        timeout(Duration::from_secs(10), found).await.expect("a line in time")
    };
    let status = next(|line| line.starts_with("HTTP/1.1")).await.unwrap();
    assert!(status.contains("200"), "{status}");
    next(str::is_empty).await.unwrap();
    for image in [APP, "elsewhere.example/app"] {
        agent.users(image).await;
        let event = next(|line| line.starts_with('{')).await.unwrap();
        let event: Value = serde_json::from_str(&event).unwrap();
        assert_eq!((&event["image"], event["caller"]["pid"].is_u64()), (&json!(image), true));
    }
    agent.begin_to_stop();
    assert_eq!(next(|line| line.starts_with('{')).await, None, "the stream ends");
    // This fails if somebody waits for a reader.
    rig.finish(agent).await;
}
