//! Callers that mean no good, or know no better.

use std::time::Duration;

use keyfob_testkit::raise_file_limit;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::rig::{APP, AgentFile, Rig, RunningAgent, eventually, provider, rule};

async fn still_works(agent: &RunningAgent) {
    let asked = timeout(Duration::from_secs(30), agent.users(APP)).await;
    assert_eq!(asked.expect("others are not kept waiting"), ["ada"]);
}

#[tokio::test]
async fn a_thousand_idle_connections_keep_nobody_out() {
    // Both ends are in this process.
    let files = raise_file_limit();
    assert!(files >= 2500, "this needs 2500 open files, and {files} are allowed: ulimit -Hn");
    let rig = Rig::new();
    let limits = "{connections: 64, requestsPerSecond: 100000}".into();
    rig.write(&AgentFile { limits, ..AgentFile::default() });
    let agent = rig.start();
    let mut idle = Vec::new();
    for number in 0..1000 {
        idle.push(agent.socket.connect().await);
        if number % 100 == 0 {
            still_works(&agent).await;
        }
    }
    still_works(&agent).await;
    drop(idle);
    rig.finish(agent).await;
}

#[tokio::test]
async fn unfinished_requests_keep_nobody_out() {
    raise_file_limit();
    let rig = Rig::new();
    let limits = "{connections: 16, requestsPerSecond: 100000}".into();
    rig.write(&AgentFile { limits, ..AgentFile::default() });
    let agent = rig.start();
    let mut held = Vec::new();
    for beginning in [
        "POST /v1/cre",
        "POST /v1/credentials HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n{\"image\"",
        "POST /v1/credentials HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"ima",
    ] {
        for _ in 0..40 {
            let mut stream = agent.socket.connect().await;
            drop(stream.write_all(beginning.as_bytes()).await);
            held.push(stream);
        }
        still_works(&agent).await;
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_body_that_is_too_long_or_endless_is_refused() {
    let rig = Rig::new();
    let limits = "{bodyBytes: 1024, requestsPerSecond: 100000}".into();
    rig.write(&AgentFile { limits, ..AgentFile::default() });
    let agent = rig.start();
    let long = format!("{{\"image\": \"{}\"}}", "a".repeat(2000));
    for path in ["/v1/credentials", "/v1/provider", "/v1/docker/get"] {
        let (status, code, message) = agent.socket.call("POST", path, &long).await.refusal();
        assert_eq!((status, &*code), (400, "bad_request"));
        assert!(message.contains("more than 1024 bytes"), "{message}");
    }
    // One that announces more than there is memory for, and one that has no end.
    let head = "POST /v1/credentials HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let announced = format!("{head}content-length: 99999999999999\r\n\r\nx");
    let mut stream = agent.socket.connect().await;
    stream.write_all(announced.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    drop(agent.socket.read(&mut stream).await);
    let mut stream = agent.socket.connect().await;
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let mut sent = 0;
    while stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += chunk.len();
        assert!(sent < 16 << 20, "the agent reads without end");
    }
    still_works(&agent).await;
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_given_up() {
    let rig = Rig::new();
    let agent = rig.start();
    let mut stream = agent.socket.connect().await;
    let head = "POST /v1/credentials HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 50\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (status, _, message) = agent.socket.read(&mut stream).await.unwrap().refusal();
    assert_eq!(status, 400);
    assert!(message.contains("too slowly"), "{message}");
    rig.finish(agent).await;
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_json() {
    let rig = Rig::new();
    let agent = rig.start();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v1/credentials"),
        ("PUT", "/v1/credentials"),
        ("DELETE", "/v1/docker/list"),
        ("POST", "/v1/credentials/"),
        ("POST", "//v1/credentials"),
        ("POST", "/v1/../v1/credentials"),
        ("OPTIONS", "*"),
        ("BREW", "/v1/credentials"),
    ] {
        let (status, code, _) = agent.socket.call(method, path, "").await.refusal();
        assert_eq!((status, &*code), (404, "not_found"), "{method} {path}");
    }
    let head = agent.socket.call("HEAD", "/v1/docker/list", "").await;
    assert_eq!((head.status, &*head.body), (404, ""), "a HEAD has no body");
    let long = format!("/{}", "x".repeat(5000));
    let (_, _, message) = agent.socket.call("GET", &long, "").await.refusal();
    assert!(message.len() < 200, "{message}");
    rig.finish(agent).await;
}

#[tokio::test]
async fn odd_requests_do_no_harm() {
    let rig = Rig::new();
    let agent = rig.start();
    let body = format!("{{\"image\": \"{APP}\"}}");
    let length = body.len();
    for (head, status) in [
        // Not every client says a host, and whom it names is of no importance.
        (format!("POST /v1/credentials HTTP/1.0\r\ncontent-length: {length}"), Some(200)),
        (
            format!(
                "POST /v1/credentials HTTP/1.1\r\nhost: evil.example:99\r\nconnection: close\r\ncontent-length: {length}"
            ),
            Some(200),
        ),
        (
            format!(
                "POST http://a/v1/credentials HTTP/1.1\r\nhost: b\r\nconnection: close\r\ncontent-length: {length}"
            ),
            Some(200),
        ),
        (
            format!(
                "POST /v1/credentials HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\ncontent-length: 3"
            ),
            Some(400),
        ),
        ("POST /v1/credentials HTTP/1.1\r\nhost: x\r\ncontent-length: -1".into(), Some(400)),
        ("\u{1}\u{2}\u{3}".into(), Some(400)),
        (format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(100_000)), Some(431)),
    ] {
        let reply = agent.socket.send(format!("{head}\r\n\r\n{body}")).await;
        let replied = reply.map(|reply| reply.status);
        assert_eq!(replied, status, "{}", head.chars().take(60).collect::<String>());
    }
    still_works(&agent).await;
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_asks_for_in_vain_cannot_push_other_events_out_of_the_audit_log() {
    let others = rule("others", "{uids: [4242]}", "Allow");
    let own = AgentFile::default().rules;
    for (rules, image, path, status, outcome) in [
        (&others, APP, "/v1/credentials", 403, "denied"),
        (&others, "unmatched.example/app", "/v1/credentials", 403, "denied"),
        (&own, "unmatched.example/app", "/v1/credentials", 404, "empty"),
        (&own, "fails.example/app", "/v1/credentials", 502, "failed"),
        (&own, "no name", "/v1/credentials", 400, "badRequest"),
        (&own, "no URL", "/v1/docker/get", 400, "badRequest"),
    ] {
        let rig = Rig::without_rights();
        rig.write(&AgentFile { rules: rules.clone(), ..AgentFile::default() });
        rig.write_providers(
            &provider("one", "registry.example")
                .replace("\"registry.example\"", "\"registry.example\", \"fails.example\""),
        );
        rig.plugins.fail("one");
        let agent = rig.start();
        for _ in 0..100 {
            let body = json!({"image": image}).to_string();
            assert_eq!(agent.socket.call("POST", path, body).await.status, status, "{image}");
        }
        agent.stop().await;

        let audit = rig.audit();
        assert!(audit.len() <= 30, "{} lines of {outcome}", audit.len());
        let (last, events) = audit.split_last().unwrap();
        assert!(events.iter().all(|event| event["outcome"] == outcome), "{events:?}");
        let suppressed = |event: &Value| event["suppressedRefusals"].as_u64().unwrap_or_default();
        assert_eq!((&last["request"], &last["time"].is_string()), (&Value::Null, &true), "{last}");
        let all = events.len() as u64 + events.iter().map(suppressed).sum::<u64>();
        assert_eq!(all + suppressed(last), 100, "those after the last event are counted too");
        rig.check_leaks();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_gets_again_and_again_cannot_push_other_events_out_of_the_audit_log() {
    let rig = Rig::without_rights();
    rig.write_providers(&(provider("one", "registry.example") + &provider("two", "two.example")));
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    for number in 0..100 {
        assert_eq!(agent.users(APP).await, ["ada"]);
        // It gets the same for whatever name.
        assert_eq!(agent.users(&format!("registry.example/made-up-{number}")).await, ["ada"]);
    }
    assert_eq!(agent.users("two.example/app").await, ["bob"]);
    agent.stop().await;

    let audit = rig.audit();
    assert!(audit.len() <= 60, "{} lines", audit.len());
    let news = audit.last().unwrap();
    assert_eq!((&news["image"], &news["outcome"]), (&json!("two.example/app"), &json!("allowed")));
    let repeats = |event: &Value| event["suppressedRepeats"].as_u64().unwrap_or_default();
    let all = audit.len() as u64 + audit.iter().map(repeats).sum::<u64>();
    assert_eq!(all, 201, "what is new for the caller is logged, and has the number of the others");
    rig.check_leaks();
}

#[tokio::test(start_paused = true)]
async fn what_root_gets_is_logged() {
    let rig = Rig::new();
    let agent = rig.start();
    for _ in 0..100 {
        assert_eq!(agent.users(APP).await, ["ada"]);
    }
    agent.stop().await;
    assert_eq!(rig.audit().len(), 100);
    rig.check_leaks();
}

#[tokio::test]
async fn what_root_asks_for_in_vain_is_logged() {
    let rig = Rig::new();
    let agent = rig.start();
    for number in 0..50 {
        agent.users(&format!("unmatched.example/app-{number}")).await;
    }
    agent.stop().await;
    assert_eq!(rig.audit().len(), 50, "a kubelet may start many pods at once");
    rig.check_leaks();
}

#[tokio::test(start_paused = true)]
async fn requests_that_make_no_sense_are_limited_as_others_are() {
    let rig = Rig::new();
    rig.write(&AgentFile { limits: "{requestsPerSecond: 1}".into(), ..AgentFile::default() });
    let agent = rig.start();
    for (method, path) in [("GET", "/nothing"), ("POST", "/v1/credentials")] {
        agent.socket.call(method, path, "").await.refusal();
    }
    for (method, path) in [
        ("GET", "/nothing"),
        ("POST", "/v1/credentials"),
        ("POST", "/v1/provider"),
        ("POST", "/v1/docker/get"),
        ("GET", "/v1/docker/list"),
        ("GET", "/v1/explain"),
    ] {
        let (status, code, _) = agent.socket.call(method, path, "").await.refusal();
        assert_eq!((status, &*code), (429, "rate_limited"), "{path}");
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_caller_has_a_share_of_the_requests_under_way() {
    let rig = Rig::without_rights();
    let limits = "{connections: 16, requestsPerSecond: 100000}".into();
    rig.write(&AgentFile { limits, ..AgentFile::default() });
    let release = rig.plugins.hold();
    let agent = rig.start();
    let ask = || {
        let socket = agent.socket.clone();
        tokio::spawn(async move { socket.credentials(APP).await })
    };
    let mut asking: Vec<_> = (0..6).map(|_| ask()).collect();
    let mut refused = Vec::new();
    while refused.len() < 2 {
        let (reply, _, others) = futures_util::future::select_all(asking).await;
        refused.push(reply.unwrap().refusal());
        asking = others;
    }
    let message = "more than 4 requests at the same time".to_owned();
    assert_eq!(refused, vec![(429, "rate_limited".to_owned(), message); 2]);
    drop(release);
    for allowed in asking {
        assert_eq!(allowed.await.unwrap().users(), ["ada"]);
    }
    assert_eq!(agent.users(APP).await, ["ada"], "those that were answered no longer count");
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_while_a_plugin_runs_for_it_is_logged() {
    let rig = Rig::new();
    let _held = rig.plugins.hold();
    let agent = rig.start();
    let mut stream = agent.socket.connect().await;
    let body = format!("{{\"image\": \"{APP}\"}}");
    let head = format!(
        "POST /v1/credentials HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    eventually("the plugin runs", || async { rig.plugins.running() == 1 }).await;
    drop(stream);
    eventually("it is logged", || async { !rig.audit().is_empty() }).await;
    let event = &rig.audit()[0];
    let fields = ["outcome", "image", "rule", "reason"].map(|field| event[field].as_str().unwrap());
    let reason = "the connection was closed before the answer";
    assert_eq!(fields, ["abandoned", APP, "own", reason]);
    assert_eq!((&event["providers"], &event["credentials"]), (&json!(["one"]), &Value::Null));
    rig.finish(agent).await;
}

#[tokio::test]
async fn only_root_may_use_the_socket_of_administrators() {
    let rig = Rig::without_rights();
    let agent = rig.start();
    for (method, path) in [
        ("GET", "/v1/status"),
        ("POST", "/v1/reload"),
        ("POST", "/v1/forget"),
        ("GET", "/metrics"),
        ("GET", "/v1/audit"),
        ("GET", "/nothing"),
    ] {
        let (status, code, message) = agent.admin.call(method, path, "").await.refusal();
        assert_eq!((status, &*code), (403, "denied"), "{path}");
        assert!(message.starts_with("only root may do this"), "{message}");
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_name_with_another_spelling_is_refused() {
    let rig = Rig::new();
    let agent = rig.start();
    for name in
        ["registry.example/team/../other", "registry.example/%74eam/app", "x@registry.example/app"]
    {
        assert_eq!(agent.socket.credentials(name).await.status, 400, "{name}");
        assert_eq!(agent.socket.docker_get(name).await.status, 400, "{name}");
    }
    assert_eq!(rig.plugins.runs(), 0);
    rig.finish(agent).await;
}
