//! What an agent exports, beside the page that lists it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use keyfob_agent::AgentClient;

use crate::rig::{APP, AgentFile, Rig, eventually, own_uid, provider, rule};

/// A metric: its type, and the labels of its series but for the buckets of a histogram.
pub(crate) type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

/// A file of the repository.
pub(crate) fn repository(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of `docs/metrics.md`: name, type and labels.
pub(crate) fn documented() -> Metrics {
    let page = repository("docs/metrics.md");
    let mut metrics = Metrics::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [name, sort, labels, _] = &*cells else { panic!("four cells: {line}") };
        let code = |text: &str| text.trim_matches(['|', ' ', '`']).to_owned();
        let labels = labels.split(", ").map(code).filter(|label| !label.is_empty()).collect();
        let before = metrics.insert(code(name), (sort.trim().to_owned(), labels));
        assert_eq!(before, None, "{name} stands there twice");
    }
    metrics
}

/// What an exposition has.
fn exported(exposition: &str) -> Metrics {
    let mut metrics = Metrics::new();
    let types = exposition.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for (name, sort) in types.map(|line| line.split_once(' ').unwrap()) {
        let total = if sort == "counter" { "_total" } else { "" };
        let name = format!("{name}{total}");
        let is_of = |series: &str| {
            series == name
                || (sort == "histogram"
                    && ["_bucket", "_sum", "_count"]
                        .iter()
                        .any(|part| series.strip_suffix(part) == Some(&name)))
        };
        let mut labels = BTreeSet::new();
        for line in exposition.lines().filter(|line| !line.starts_with('#')) {
            let end = line.find(['{', ' ']).unwrap();
            if is_of(&line[..end]) {
                labels.extend(label_names(&line[end..]).filter(|label| label != "le"));
            }
        }
        assert_eq!(metrics.insert(name, (sort.to_owned(), labels)), None, "twice: {exposition}");
    }
    metrics
}

/// The names of the labels of a series; no value here has a comma or a quote.
fn label_names(rest: &str) -> impl Iterator<Item = String> {
    let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |it| it.0);
    let names = labels.split(',').filter_map(|label| label.split_once('='));
    names.map(|(name, _)| name.to_owned())
}

#[tokio::test]
async fn the_page_lists_every_metric_with_its_type_and_labels() {
    let rig = Rig::new();
    rig.write_providers(&(provider("one", "registry.example") + &provider("two", "two.example")));
    rig.plugins.fail("two");
    let agent = rig.start();
    agent.users(APP).await;
    agent.users("two.example/app").await;
    agent.agent.reload().unwrap();

    let exported = exported(&agent.metrics().await);

    assert_eq!(exported, documented(), "an agent's metrics, and docs/metrics.md");
    rig.finish(agent).await;
}

#[tokio::test]
async fn both_sockets_serve_the_same_metrics() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    let of_admin = AgentClient::new(&agent.admin.path).metrics().await.unwrap();
    assert_eq!(exported(&of_admin), exported(&agent.http_get("/metrics").await.body));
    assert!(of_admin.ends_with("# EOF\n"), "{of_admin}");
    rig.finish(agent).await;
}

#[tokio::test]
async fn requests_are_counted_by_path_rule_provider_and_outcome() {
    let own = format!("{{uids: [{}]}}", own_uid());
    let rules = rule("none", &own, "Deny, images: [\"registry.example/no\"]")
        + &rule("own", &own, "Allow, images: [\"registry.example/team\"]");
    let rig = Rig::with_rules(rules);
    let agent = rig.start();
    assert_eq!(
        agent.metric(r#"keyfob_agent_decisions_total{rule="none",outcome="denied"}"#).await,
        "0"
    );
    for image in [APP, APP, "registry.example/no", "registry.example/else"] {
        agent.users(image).await;
    }
    agent.socket.docker_get("registry.example").await;
    rig.plugins.fail("one");
    agent.users("registry.example/team/other").await;
    rig.clock.advance(Duration::from_hours(2));
    agent.users("registry.example/team/other").await;

    let metrics = agent.metrics().await;
    for series in [
        r#"keyfob_agent_decisions_total{rule="own",outcome="allowed"} 3"#,
        r#"keyfob_agent_decisions_total{rule="own",outcome="failed"} 1"#,
        r#"keyfob_agent_decisions_total{rule="none",outcome="denied"} 1"#,
        r#"keyfob_agent_decisions_total{rule="",outcome="denied"} 2"#,
        r#"keyfob_agent_response_duration_seconds_count{request="/v1/credentials",outcome="allowed"} 3"#,
        r#"keyfob_agent_response_duration_seconds_count{request="/v1/credentials",outcome="denied"} 2"#,
        r#"keyfob_agent_response_duration_seconds_count{request="/v1/docker/get",outcome="denied"} 1"#,
        r#"keyfob_agent_provider_answers_total{plugin_name="one",outcome="ran"} 1"#,
        r#"keyfob_agent_provider_answers_total{plugin_name="one",outcome="cached"} 2"#,
        r#"keyfob_agent_provider_answers_total{plugin_name="one",outcome="failed"} 1"#,
        r#"kubelet_credential_provider_plugin_duration_count{plugin_name="one"} 2"#,
        r#"kubelet_credential_provider_plugin_errors_total{plugin_name="one"} 1"#,
    ] {
        assert!(metrics.lines().any(|line| line == series), "no {series} in\n{metrics}");
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_series_of_what_a_reload_removes_are_gone() {
    let own = format!("{{uids: [{}]}}", own_uid());
    let rig = Rig::with_rules(rule("first", &own, "Allow"));
    rig.write_providers(&(provider("one", "registry.example") + &provider("two", "two.example")));
    rig.plugins.login("two", "bob");
    let agent = rig.start();
    agent.users(APP).await;
    agent.users("two.example/app").await;
    let metrics = agent.metrics().await;
    assert!(metrics.contains("rule=\"first\"") && metrics.contains("plugin_name=\"two\""));

    let rules = rule("second", &own, "Allow");
    rig.write(&AgentFile { rules, ..AgentFile::default() });
    rig.write_providers(&provider("one", "registry.example"));
    agent.agent.reload().unwrap();
    agent.users(APP).await;

    let metrics = agent.metrics().await;
    assert!(!metrics.contains("\"first\"") && !metrics.contains("\"two\""), "{metrics}");
    let allowed = r#"keyfob_agent_decisions_total{rule="second",outcome="allowed"} 1"#;
    let answered = r#"keyfob_agent_provider_answers_total{plugin_name="one",outcome="ran"} 1"#;
    assert!(metrics.contains(allowed) && metrics.contains(answered), "{metrics}");
    rig.finish(agent).await;
}

#[tokio::test]
async fn callers_cannot_make_series() {
    let rig = Rig::new();
    let agent = rig.start();
    let ask_in_vain = async |number: u32| {
        agent.users(&format!("registry{number}.example/app")).await;
        agent.socket.call("POST", &format!("/v1/{number}"), "").await;
        agent.http_get(&format!("/{number}")).await;
    };
    ask_in_vain(0).await;
    let before = agent.metrics().await.lines().count();
    for number in 1..50 {
        ask_in_vain(number).await;
    }
    let metrics = agent.metrics().await;
    assert_eq!(metrics.lines().count(), before, "{metrics}");
    assert!(!metrics.contains("registry1"), "{metrics}");
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_age_of_the_configuration_and_a_rejected_one_are_exported() {
    const LOADED: &str = "keyfob_agent_config_last_reload_success_timestamp_seconds";
    const SUCCESSFUL: &str = "keyfob_agent_config_last_reload_successful";
    let rig = Rig::new();
    let agent = rig.start();
    let started: f64 = agent.metric(LOADED).await.parse().unwrap();
    assert_eq!(agent.metric(SUCCESSFUL).await, "1");

    rig.clock.advance(Duration::from_mins(1));
    fs::write(rig.file(), "nonsense").unwrap();
    agent.agent.reload().unwrap_err();
    assert_eq!(agent.metric(SUCCESSFUL).await, "0");
    assert_eq!(agent.metric(LOADED).await.parse(), Ok(started), "the old one is in use");

    rig.write(&AgentFile::default());
    agent.agent.reload().unwrap();
    assert_eq!(agent.metric(SUCCESSFUL).await, "1");
    assert_eq!(agent.metric(LOADED).await.parse(), Ok(started + 60.0));
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_stays_due() {
    const DUE: &str = "keyfob_agent_next_renewal_timestamp_seconds";
    let rig = Rig::new();
    let agent = rig.start();
    assert_eq!(agent.metric(DUE).await, "0", "nothing is to be renewed");
    agent.users(APP).await;
    let due: f64 = agent.metric(DUE).await.parse().unwrap();

    rig.plugins.fail("one");
    rig.clock.advance(Duration::from_mins(58));
    eventually("a renewal fails", || async {
        agent.metric(r#"keyfob_agent_renewals_total{result="failure"}"#).await != "0"
    })
    .await;
    assert_eq!(agent.users(APP).await, ["ada"]);
    assert_eq!(agent.metric(DUE).await.parse(), Ok(due));

    rig.plugins.login("one", "bob");
    rig.clock.advance(Duration::from_mins(1));
    eventually("a renewal succeeds", || async {
        agent.metric(r#"keyfob_agent_renewals_total{result="success"}"#).await != "0"
    })
    .await;
    let renewed: f64 = agent.metric(DUE).await.parse().unwrap();
    assert!(renewed > due + 3000.0, "{renewed} after {due}");
    rig.finish(agent).await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_may_have_any_more_is_not_due() {
    const DUE: &str = "keyfob_agent_next_renewal_timestamp_seconds";
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    assert_ne!(agent.metric(DUE).await, "0");

    rig.write_providers(&provider("one", "other.example"));
    agent.agent.reload().unwrap();
    rig.clock.advance(Duration::from_mins(58));

    eventually("nothing is due", || async { agent.metric(DUE).await == "0" }).await;
    rig.finish(agent).await;
}

#[tokio::test]
async fn open_connections_are_counted_by_listener() {
    let rig = Rig::new();
    let agent = rig.start();
    let _open = [agent.socket.connect().await, agent.socket.connect().await];
    eventually("both are counted", || async {
        agent.metric(r#"keyfob_agent_connections{listener="agent"}"#).await == "2"
    })
    .await;
    assert_ne!(agent.metric(r#"keyfob_agent_connections{listener="admin"}"#).await, "0");
    assert_eq!(agent.metric(r#"keyfob_agent_connections{listener="http"}"#).await, "0");
    rig.finish(agent).await;
}
