//! Who gets what: rules, and what `/v1/explain` says about them.

use keyfob_agent::AgentClient;
use serde_json::{Value, json};

use crate::rig::{APP, AgentFile, Rig, own_uid, provider, rule};

/// A user that the tests do not run as.
fn other_uid() -> u32 {
    own_uid() + 1
}

fn own() -> String {
    format!("{{uids: [{}]}}", own_uid())
}

#[tokio::test]
async fn whoever_no_rule_names_gets_nothing() {
    let other = format!("{{uids: [{}]}}", other_uid());
    for callers in [&*other, "{namespaces: [team]}", "{serviceAccounts: [team/cart]}"] {
        let rig = Rig::with_rules(rule("others", callers, "Allow"));
        let agent = rig.start();

        let (status, code, message) = agent.socket.credentials(APP).await.refusal();

        let expected = format!("no rule allows {APP} to user id {}", own_uid());
        assert_eq!((status, &*code, message), (403, "denied", expected), "{callers}");
        assert_eq!(agent.socket.docker_get("https://registry.example").await.status, 403);
        assert_eq!(rig.plugins.runs(), 0, "nobody is asked on behalf of a stranger");
        agent.stop().await;
        assert_eq!(rig.audit()[0]["outcome"], "denied");
        assert_eq!(rig.audit()[0]["rule"], Value::Null);
        rig.check_leaks();
    }
}

#[tokio::test]
async fn the_first_rule_that_applies_decides() {
    let (deny, allow) = (rule("deny", &own(), "Deny"), rule("allow", &own(), "Allow"));
    for (rules, status, decided) in [
        (deny.clone() + &allow, 403, "deny"),
        (allow.clone() + &deny, 200, "allow"),
        (rule("others", "{uids: [4242]}", "Deny") + &allow, 200, "allow"),
        (rule("elsewhere", &own(), "Deny, images: [elsewhere.example]") + &allow, 200, "allow"),
        (rule("as-pod", "{namespaces: [team]}", "AllowAsPod") + &allow, 200, "allow"),
    ] {
        let rig = Rig::with_rules(rules.clone());
        let agent = rig.start();
        assert_eq!(agent.socket.credentials(APP).await.status, status, "{rules}");
        agent.stop().await;
        assert_eq!(rig.audit()[0]["rule"], decided);
        rig.check_leaks();
    }
}

#[tokio::test]
async fn only_the_allowed_providers_are_asked() {
    let rig = Rig::with_rules(rule("only-two", &own(), "Allow, providers: [two]"));
    rig.write_providers(&(provider("one", "*.example") + &provider("two", "registry.example")));
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    assert_eq!(agent.users(APP).await, ["bob"]);
    assert_eq!(rig.plugins.asked(), [("two".to_owned(), APP.to_owned())]);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_rule_may_name_the_program_of_the_caller() {
    let program = std::env::current_exe().unwrap();
    let this = format!("{{uids: [{}], executables: [{}]}}", own_uid(), program.display());
    let another = format!("{{uids: [{}], executables: [/usr/bin/true]}}", own_uid());
    for (callers, status) in [(this, 200), (another, 403)] {
        let rig = Rig::with_rules(rule("program", &callers, "Allow"));
        let agent = rig.start();
        assert_eq!(agent.socket.credentials(APP).await.status, status, "{callers}");
        rig.finish(agent).await;
    }
}

#[tokio::test]
async fn without_rules_only_root_gets_anything() {
    let rig = Rig::new();
    let text = rig.text(&AgentFile { rules: String::new(), ..AgentFile::default() });
    std::fs::write(rig.file(), text.strip_suffix("rules:\n").unwrap()).unwrap();
    let agent = rig.start();
    let status = agent.socket.credentials(APP).await.status;
    assert_eq!(status, if own_uid() == 0 { 200 } else { 403 });
    rig.finish(agent).await;
}

#[tokio::test]
async fn explain_shows_the_rule_and_why_others_do_not_apply() {
    let rig = Rig::with_rules(
        rule("pods", "{namespaces: [team]}", "AllowAsPod")
            + &rule("elsewhere", &own(), "Allow, images: [elsewhere.example]")
            + &rule("other-provider", &own(), "Allow, providers: [two]")
            + &rule("own", &own(), "Allow")
            + &rule("never-reached", &own(), "Deny"),
    );
    let agent = rig.start();

    let explained = AgentClient::new(&agent.socket.path).explain(APP, None).await.unwrap();

    assert_eq!(explained["caller"], format!("user id {}", own_uid()));
    let [provider] = explained["providers"].as_array().unwrap().as_slice() else { panic!() };
    let fields = ["provider", "decision", "rule"].map(|field| provider[field].as_str().unwrap());
    assert_eq!(fields, ["one", "Allow", "own"]);
    let others = provider["notApplied"].as_array().unwrap();
    let names: Vec<_> = others.iter().map(|each| each["rule"].as_str().unwrap()).collect();
    assert_eq!(names, ["pods", "elsewhere", "other-provider"]);
    assert!(others.iter().all(|each| !each["reason"].as_str().unwrap().is_empty()), "{others:?}");
    assert_eq!(rig.plugins.runs(), 0, "nothing is run");

    let none = agent.socket.call("GET", "/v1/explain?image=nobody.example/app", "").await;
    assert_eq!(none.json()["providers"], json!([]));
    assert_eq!(agent.socket.call("GET", "/v1/explain", "").await.refusal().0, 400);
    let bad = agent.socket.call("GET", "/v1/explain?image=%FF%FE", "").await;
    assert_eq!(bad.refusal().0, 400);
    rig.finish(agent).await;
}

#[tokio::test]
async fn whoever_may_have_nothing_is_not_told_which_rules_and_providers_there_are() {
    let others = rule("others", "{uids: [4242]}", "Allow");
    let nobody = rule("nobody", "{anyone: true}", "Deny");
    for (rules, is_told) in [
        (others.clone(), false),
        (nobody.clone() + &rule("own", &own(), "Allow"), false),
        (others + &rule("elsewhere", &own(), "Allow, images: [elsewhere.example]"), true),
    ] {
        let rig = Rig::without_rights();
        rig.write(&AgentFile { rules: rules.clone(), ..AgentFile::default() });
        let agent = rig.start();
        for image in [APP, "nobody.example/app"] {
            let path = format!("/v1/explain?image={image}");
            let reply = agent.socket.call("GET", &path, "").await;
            if is_told {
                assert_eq!(reply.status, 200, "{rules}");
                continue;
            }
            let message = format!("no rule allows anything to user id {}", own_uid());
            assert_eq!(reply.refusal(), (403, "denied".to_owned(), message), "{rules}");
        }
        agent.stop().await;
        let denied = rig.audit().iter().filter(|event| event["outcome"] == "denied").count();
        assert_eq!(denied, if is_told { 0 } else { 2 }, "{rules}");
        rig.check_leaks();
    }
}

#[tokio::test]
async fn a_rule_that_denies_a_container_as_a_precaution_is_explained() {
    let rules = rule("no-builders", "{groups: [\"50\"]}", "Deny")
        + &rule("others", "{anyone: true}", "Allow");
    let rig = Rig::with_rules(rules);
    let agent = rig.start();
    let client = AgentClient::new(&agent.socket.path);
    let why = "it denies processes on the host, any of which may have started the container that the caller is in";
    for (caller, expected) in [
        ("container", ("no-builders", json!(why))),
        ("pod:team/cart", ("others", Value::Null)),
        ("uid:1000,gid:50", ("no-builders", Value::Null)),
        ("uid:1000,gid:51", ("others", Value::Null)),
    ] {
        let explained = client.explain(APP, Some(caller)).await.unwrap();
        let provider = &explained["providers"][0];
        assert_eq!(
            (provider["rule"].as_str().unwrap(), &provider["reason"]),
            (expected.0, &expected.1),
            "{caller}"
        );
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_rule_that_denies_an_unknown_pod_as_a_precaution_is_explained() {
    let rules = rule("not-this-team", "{namespaces: [team]}", "Deny")
        + &rule("others", "{anyone: true}", "Allow");
    let rig = Rig::with_rules(rules);
    let agent = rig.start();
    let client = AgentClient::new(&agent.socket.path);
    let why = "it denies pods, and the caller may be in a pod that the agent does not know";
    for (caller, expected) in [
        ("unknown-pod", ("not-this-team", json!(why))),
        ("pod:team/cart", ("not-this-team", Value::Null)),
        ("container", ("others", Value::Null)),
        ("uid:1000", ("others", Value::Null)),
    ] {
        let explained = client.explain(APP, Some(caller)).await.unwrap();
        let provider = &explained["providers"][0];
        assert_eq!(
            (provider["rule"].as_str().unwrap(), &provider["reason"]),
            (expected.0, &expected.1),
            "{caller}"
        );
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn only_root_may_ask_about_others() {
    let path = |caller: &str| format!("/v1/explain?image={APP}&as={caller}");
    let rules = rule("team", "{namespaces: [team]}", "AllowAsPod");
    let rig = Rig::with_rules(rules.clone());
    let agent = rig.start();
    for (caller, decision) in [("pod:team/cart", "AllowAsPod"), ("pod:other/cart", "Deny")] {
        let explained = agent.socket.call("GET", &path(caller), "").await.json();
        assert_eq!(explained["providers"][0]["decision"], decision, "{caller}");
    }
    assert_eq!(agent.socket.call("GET", &path("nonsense"), "").await.refusal().0, 400);
    rig.finish(agent).await;

    let rig = Rig::without_rights();
    rig.write(&AgentFile { rules, ..AgentFile::default() });
    let agent = rig.start();
    assert_eq!(agent.socket.call("GET", &path("pod:team/cart"), "").await.refusal().0, 403);
    rig.finish(agent).await;
}
