//! The credential helper's requests.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    plugins::{logins, password, registry},
    rig::{APP, AgentFile, Rig, own_uid, provider, rule},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

fn own() -> String {
    format!("{{uids: [{}]}}", own_uid())
}

#[tokio::test]
async fn a_server_url_gets_the_login_of_its_registry() {
    let rig = Rig::new();
    rig.write_providers(&(provider("one", "registry.example") + &provider("hub", "docker.io")));
    rig.plugins.login("hub", "moby");
    let agent = rig.start();
    for (url, user) in [
        ("https://registry.example", "ada"),
        ("https://registry.example/v2/", "ada"),
        ("registry.example\n", "ada"),
        ("https://registry.example/team/app", "ada"),
        ("https://index.docker.io/v1/", "moby"),
    ] {
        let reply = agent.socket.docker_get(url).await;
        let expected = json!({"ServerURL": url.trim(), "Username": user, "Secret": password(user)});
        assert_eq!((reply.status, reply.json()), (200, expected));
    }
    for none in ["https://nobody.example", "registry.example?ns=docker.io"] {
        let (status, code, _) = agent.socket.docker_get(none).await.refusal();
        assert_eq!((status, &*code), (404, "not_found"), "{none}");
    }
    for bad in ["", "https://", "https://user:pw@registry.example", &"x".repeat(3000)] {
        assert_eq!(agent.socket.docker_get(bad).await.refusal().0, 400, "{bad}");
    }
    let not_utf8 = agent.socket.call("POST", "/v1/docker/get", b"registry.example/\xff").await;
    assert_eq!(not_utf8.refusal().0, 400);
    rig.finish(agent).await;
}

#[tokio::test]
async fn rules_for_repositories_apply_where_the_client_sends_a_path() {
    let rig = Rig::with_rules(rule("team", &own(), "Allow, images: [registry.example/team]"));
    rig.plugins.respond("one", |request| Some(logins("Image", "1h", [(registry(request), "ada")])));
    let agent = rig.start();
    assert_eq!(agent.socket.docker_get("https://registry.example/team/app").await.status, 200);
    assert_eq!(agent.socket.docker_get("https://registry.example/other/app").await.status, 403);
    let whole = agent.socket.docker_get("https://registry.example").await;
    assert_eq!(whole.refusal().0, 403, "a rule for a part does not allow the whole registry");
    rig.finish(agent).await;
}

#[tokio::test]
async fn docker_gets_a_login_that_lasts_and_the_old_one_if_there_is_no_newer() {
    let rig = Rig::new();
    let agent = rig.start();
    let user = async || {
        let reply = agent.socket.docker_get("https://registry.example").await;
        (reply.json()["Username"].as_str().unwrap_or_default().to_owned(), rig.plugins.runs())
    };
    assert_eq!(user().await, ("ada".into(), 1));
    rig.plugins.login("one", "bob");
    rig.clock.advance(44 * MINUTE);
    assert_eq!(user().await, ("ada".into(), 1), "sixteen minutes are left");
    rig.clock.advance(2 * MINUTE);
    assert_eq!(agent.users(APP).await, ["ada"], "a client that caches nothing");
    assert_eq!(user().await, ("bob".into(), 2), "fourteen minutes are too few");

    rig.plugins.fail("one");
    rig.clock.advance(50 * MINUTE);
    assert_eq!(user().await, ("bob".into(), 3), "the metadata service is down");
    rig.clock.advance(11 * MINUTE);
    let (status, code, _) = agent.socket.docker_get("https://registry.example").await.refusal();
    assert_eq!((status, &*code), (502, "failed"), "it has expired");
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_list_has_what_is_cached_and_allowed_and_runs_nothing() {
    let rig = Rig::new();
    let providers =
        [provider("one", "registry.example"), provider("two", "*.two.example\", \"docker.io")];
    rig.write_providers(&providers.concat());
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    let list = async || {
        rig.clock.advance(SECOND);
        agent.socket.call("GET", "/v1/docker/list", "").await.json()
    };
    assert_eq!(list().await, json!({}));
    assert_eq!(rig.plugins.runs(), 0);

    agent.users(APP).await;
    agent.users("a.two.example/app").await;
    assert_eq!(agent.socket.docker_get("https://index.docker.io/v1/").await.status, 200);
    let all = json!({
        "https://registry.example": "ada",
        "https://a.two.example": "bob",
        "https://index.docker.io/v1/": "bob",
    });
    assert_eq!((list().await, rig.plugins.runs()), (all, 3));

    rig.write(&AgentFile {
        rules: rule("one", &own(), "Allow, providers: [one]"),
        ..AgentFile::default()
    });
    agent.agent.reload().unwrap();
    assert_eq!(list().await, json!({"https://registry.example": "ada"}), "the rest is not allowed");
    rig.clock.advance(61 * MINUTE);
    assert_eq!((list().await, rig.plugins.runs()), (json!({}), 3), "it has expired");
    agent.stop().await;

    let audit = rig.audit();
    let lists = audit.iter().filter(|event| event["request"] == "/v1/docker/list");
    let lists: Vec<_> = lists.map(|event| (&event["outcome"], &event["providers"])).collect();
    let (allowed, empty, none) = (json!("allowed"), json!("empty"), Value::Null);
    let (both, one) = (json!(["one", "two"]), json!(["one"]));
    assert_eq!(lists, [(&empty, &none), (&allowed, &both), (&allowed, &one), (&empty, &none)]);
    rig.check_leaks();
}

#[tokio::test]
async fn the_list_is_read_at_most_once_a_second_whoever_asks() {
    let rig = Rig::new();
    let agent = rig.start();
    let list = async || agent.socket.call("GET", "/v1/docker/list", "").await.json();
    assert_eq!(list().await, json!({}));
    agent.users(APP).await;
    rig.clock.advance(Duration::from_millis(999));
    assert_eq!(list().await, json!({}), "what was read is still used");
    rig.clock.advance(Duration::from_millis(1));
    assert_eq!(list().await, json!({"https://registry.example": "ada"}));
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_gets_ten_lists_a_second() {
    let rig = Rig::new();
    let agent = rig.start();
    let status = async || agent.socket.call("GET", "/v1/docker/list", "").await.status;
    for _ in 0..20 {
        assert_eq!(status().await, 200, "a burst of two seconds");
    }
    assert_eq!(status().await, 429);
    tokio::time::advance(SECOND).await;
    assert_eq!(status().await, 200);
    rig.finish(agent).await;
}

#[tokio::test]
async fn whoever_may_have_nothing_gets_an_empty_list_that_is_logged_as_a_denial() {
    for rules in [
        rule("others", "{uids: [4242]}", "Allow"),
        rule("pods", "{namespaces: [team]}", "AllowAsPod"),
        rule("nobody", "{anyone: true}", "Deny") + &rule("own", &own(), "Allow"),
    ] {
        let rig = Rig::with_rules(rules);
        let agent = rig.start();
        let reply = agent.socket.call("GET", "/v1/docker/list", "").await;
        assert_eq!((reply.status, reply.json()), (200, json!({})));
        agent.stop().await;
        let event = &rig.audit()[0];
        assert_eq!(
            (&event["request"], &event["outcome"]),
            (&json!("/v1/docker/list"), &json!("denied"))
        );
        rig.check_leaks();
    }
}
