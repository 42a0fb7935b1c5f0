//! `POST /v1/credentials`: what is handed out, and what is said when nothing is.

use std::time::Duration;

use keyfob_agent::AgentClient;
use keyfob_testkit::LeakCheck;
use serde_json::json;

use crate::{
    plugins::{SECRET, logins, password},
    rig::{APP, AgentFile, Rig, eventually, own_uid, provider, rule},
};

#[tokio::test]
async fn an_answer_names_the_rule_the_provider_and_the_expiry() {
    let rig = Rig::new();
    let agent = rig.start();

    let reply = agent.socket.credentials("registry.example/team/app:v1").await;

    let expected = json!({
        "image": "registry.example/team/app:v1",
        "rule": "own",
        "credentials": [{
            "username": "ada",
            "password": password("ada"),
            "provider": "one",
            "expires": "2030-03-17T18:46:40Z",
        }],
    });
    assert_eq!((reply.status, reply.json()), (200, expected));
    assert!(reply.head.contains("cache-control: no-store"), "{}", reply.head);
    assert_eq!(rig.plugins.asked(), [("one".to_owned(), APP.to_owned())]);
    agent.users("registry.example/other").await;
    assert_eq!(rig.plugins.runs(), 1, "the answer is for the registry, and cached");
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_audit_log_has_a_line_for_each_decision_and_no_secret() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    agent.users(APP).await;
    agent.users("elsewhere.example/app").await;
    agent.stop().await;

    let events = rig.audit();
    assert_eq!(events.len(), 3);
    let caller = &events[0]["caller"];
    assert_eq!((&caller["uid"], &caller["pid"]), (&json!(own_uid()), &json!(std::process::id())));
    assert!(caller["executable"].as_str().unwrap().contains("agent-"), "{caller}");
    let attested_by = caller["attestedBy"].as_str().unwrap();
    assert!(["pidfd", "proc-directory"].contains(&attested_by), "{caller}");
    let credential = &events[0]["credentials"][0];
    assert_eq!(credential["provider"], "one");
    assert_eq!(credential["hash"], events[1]["credentials"][0]["hash"]);
    assert_eq!(credential["hash"].as_str().unwrap().len(), 16);
    assert_eq!(credential["expires"], "2030-03-17T18:46:40Z");
    let summary = |at: usize| {
        let event = &events[at];
        (event["request"].clone(), event["image"].clone(), event["outcome"].clone())
    };
    assert_eq!(summary(1), (json!("/v1/credentials"), json!(APP), json!("allowed")));
    let elsewhere = json!("elsewhere.example/app");
    assert_eq!(summary(2), (json!("/v1/credentials"), elsewhere, json!("empty")));
    rig.check_leaks();
}

#[tokio::test]
async fn credentials_come_in_the_order_of_the_providers() {
    let rig = Rig::new();
    let both = [provider("one", "registry.example"), provider("two", "*.example")].concat();
    rig.write_providers(&both);
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["ada", "bob"]);
    rig.plugins.fail("one");
    rig.clock.advance(Duration::from_hours(2));
    assert_eq!(agent.users(APP).await, ["bob"], "one failure does not keep back the rest");
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_rule_is_that_of_the_provider_whose_credential_comes_first() {
    let own = format!("{{uids: [{}]}}", own_uid());
    let rules = |of_two: &str| {
        rule("for-one", &own, "Allow, providers: [one]")
            + &rule(of_two, &own, "Allow, providers: [two]")
    };
    let rig = Rig::with_rules(rules("for-two"));
    rig.write_providers(&[provider("one", "*.example"), provider("two", "*.example")].concat());
    rig.plugins.respond("one", |_| Some(logins("Image", "1h", [("other.example", "ada")])));
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    let reply = agent.socket.credentials(APP).await;
    assert_eq!((reply.users(), &reply.json()["rule"]), (vec!["bob".to_owned()], &json!("for-two")));

    // The rules change while a plugin runs.
    let release = rig.plugins.hold();
    let socket = agent.socket.clone();
    let asking = tokio::spawn(async move { socket.credentials("new.example/app").await });
    eventually("a plugin runs", || async { rig.plugins.running() > 0 }).await;
    rig.write(&AgentFile { rules: rules("renamed"), ..AgentFile::default() });
    agent.agent.reload().unwrap();
    drop(release);
    assert_eq!(asking.await.unwrap().json()["rule"], "renamed");
    agent.stop().await;
    let logged: Vec<_> = rig.audit().iter().map(|event| event["rule"].clone()).collect();
    assert_eq!(logged, ["for-two", "renamed"]);
    rig.check_leaks();
}

#[tokio::test]
async fn a_refusal_says_what_is_wrong_and_what_to_do() {
    let rig = Rig::new();
    rig.write_providers(&(provider("one", "registry.example") + &provider("two", "two.example")));
    rig.plugins.fail("two");
    let agent = rig.start();
    for (image, status, code, message) in [
        ("elsewhere.example/app", 404, "not_found", "no provider matches elsewhere.example/app"),
        ("two.example/app", 502, "failed", "provider two gave no credentials for two.example/app"),
        ("UPPER/case!!", 400, "bad_request", "the image is not valid"),
        ("", 400, "bad_request", "the image is not valid"),
    ] {
        let reply = agent.socket.credentials(image).await;
        let (replied, replied_code, text) = reply.refusal();
        assert_eq!((replied, &*replied_code), (status, code), "{image}: {text}");
        assert!(text.starts_with(message), "{image}: {text}");
    }
    let help =
        agent.socket.credentials("elsewhere.example/app").await.json()["error"]["help"].clone();
    assert!(help.as_str().unwrap().contains("matchImages"), "{help}");
    rig.finish(agent).await;
}

#[tokio::test]
async fn bodies_that_are_no_request_are_refused() {
    let rig = Rig::new();
    let agent = rig.start();
    let bodies: [&[u8]; 6] = [
        b"",
        b"{",
        b"[]",
        br#"{"image": 1}"#,
        br#"{"image": "registry.example/app", "other": 1}"#,
        b"{\"image\": \"registry.example/\xff\xfe\"}",
    ];
    for body in bodies {
        let (status, code, _) = agent.socket.call("POST", "/v1/credentials", body).await.refusal();
        assert_eq!((status, &*code), (400, "bad_request"), "{}", body.escape_ascii());
    }
    assert_eq!(rig.plugins.runs(), 0);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_provider_without_a_login_for_the_image_is_no_failure() {
    let rig = Rig::new();
    rig.plugins.respond("one", |_| Some(logins("Image", "1h", [("other.example", "ada")])));
    let agent = rig.start();
    let (status, code, message) = agent.socket.credentials(APP).await.refusal();
    assert_eq!((status, &*code), (404, "not_found"));
    assert_eq!(message, format!("no provider has credentials for {APP}"));
    agent.stop().await;
    assert_eq!(rig.audit()[0]["outcome"], "empty");
    assert_eq!(rig.audit()[0]["providers"], json!(["one"]));
    rig.check_leaks();
}

#[tokio::test(start_paused = true)]
async fn a_caller_in_a_loop_is_refused_after_a_while() {
    let rig = Rig::new();
    rig.write(&AgentFile { limits: "{requestsPerSecond: 1}".into(), ..AgentFile::default() });
    let agent = rig.start();
    for _ in 0..2 {
        assert_eq!(agent.users(APP).await, ["ada"]);
    }
    let (status, code, message) = agent.socket.credentials(APP).await.refusal();
    assert_eq!((status, &*code, &*message), (429, "rate_limited", "more than 1 requests a second"));
    for (method, path) in [("GET", "/v1/docker/list"), ("GET", "/v1/explain?image=a.example/b")] {
        assert_eq!(agent.socket.call(method, path, "").await.refusal().0, 429, "{path}");
    }
    agent.stop().await;
    assert_eq!(rig.audit()[2]["outcome"], "rateLimited");
    rig.check_leaks();
}

#[tokio::test]
async fn the_rust_client_gets_the_same() {
    let rig = Rig::with_rules(
        rule("secret-team", "{anyone: true}", "Deny, images: [registry.example/secret]")
            + &AgentFile::default().rules,
    );
    let agent = rig.start();
    let client = AgentClient::new(&agent.socket.path);
    let answer = client.credentials(APP).await.unwrap();
    let first = &answer.credentials[0];
    assert_eq!((&*answer.rule, &*first.username, &*first.provider), ("own", "ada", "one"));
    assert_eq!(first.password.expose(), &password("ada"));
    LeakCheck::new([SECRET]).debug("the client's answer", &answer);

    let refused = client.credentials("registry.example/secret/app").await.unwrap_err();
    let expected =
        format!("rule \"secret-team\" denies registry.example/secret/app to user id {}", own_uid());
    assert_eq!(refused.to_string(), expected);
    let nobody = AgentClient::new(rig.path("nobody.sock"));
    let down = nobody.credentials(APP).await.unwrap_err();
    assert!(down.to_string().starts_with("the agent is not running: "), "{down}");
    rig.finish(agent).await;
}
