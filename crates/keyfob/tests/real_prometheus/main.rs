//! A real Prometheus scrapes real agents, and the alerts of `deploy/prometheus` fire when their causes are made and end when they are gone.
//!
//! It needs Debian's `prometheus`, with `promtool`: `.ci/run e2e` provides it and sets `KEYFOB_E2E`, without which nothing is run.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

mod agent;
#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod node;
mod prometheus;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{agent::RunningAgent, prometheus::Prometheus};

/// A file of `deploy/prometheus`.
fn deployed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus").join(name)
}

fn is_wanted() -> bool {
    let wanted = std::env::var_os("KEYFOB_E2E").is_some();
    if !wanted {
        println!("KEYFOB_E2E is not set: NO real Prometheus was started");
    }
    wanted
}

#[test]
fn prometheus_own_tool_accepts_the_files_and_tests_the_alerts() {
    if !is_wanted() {
        return;
    }
    for (words, file) in [
        (["check", "rules"], "alerts.yaml"),
        (["check", "config"], "prometheus.yaml"),
        (["test", "rules"], "alerts_test.yaml"),
    ] {
        let checked = Command::new("promtool").args(words).arg(deployed(file)).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&checked.stdout) + &text(&checked.stderr);
        assert!(checked.status.success() && said.contains("SUCCESS"), "{file}: {said}");
    }
}

#[test]
fn grafana_has_every_field_of_the_dashboard() {
    if !is_wanted() {
        return;
    }
    let Some(python) = std::env::var_os("KEYFOB_GRAFANA_PYTHON") else {
        panic!(".ci/run e2e sets KEYFOB_GRAFANA_PYTHON");
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_prometheus/dashboard.py");
    let dashboard = deployed("../grafana/keyfob-agent.json");
    let checked = Command::new(python).arg(script).arg(dashboard).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn prometheus_understands_every_expression_of_the_dashboard() {
    if !is_wanted() {
        return;
    }
    let dashboard = fs::read_to_string(deployed("../grafana/keyfob-agent.json")).unwrap();
    let mut expressions = Vec::new();
    find_expressions(&serde_json::from_str(&dashboard).unwrap(), &mut expressions);
    assert!(expressions.len() > 20, "{expressions:?}");
    // Nothing is there to be scraped.
    let prometheus = Prometheus::start(&["127.0.0.1:1".to_owned()], &quick_alerts());
    for expression in expressions {
        // As Grafana does.
        let mut query = expression.clone();
        for (variable, value) in
            [("$job", ".*"), ("$instance", ".*"), ("$__rate_interval", "2m"), ("$__range", "1h")]
        {
            query = query.replace(variable, value);
        }
        assert!(!query.contains('$'), "a variable that is not known here: {expression}");
        assert!(prometheus.understands(&query), "{expression}");
    }
    assert!(!prometheus.understands("sum(rate(up[2m])"), "a bracket is missing");
}

/// All fields `expr`, wherever they are.
fn find_expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| find_expressions(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_expressions(item, found)),
        _ => {}
    }
}

/// The alerts with minutes as seconds. A renewal is late after eight seconds, because the agent looks for renewals every five.
fn quick_alerts() -> String {
    let mut alerts = fs::read_to_string(deployed("alerts.yaml")).unwrap();
    for (slow, quick) in [
        ("for: 5m", "for: 5s"),
        ("for: 10m", "for: 10s"),
        ("[8m]", "[8s]"),
        ("[10m]", "[10s]"),
        ("timestamp_seconds > 90", "timestamp_seconds > 8"),
    ] {
        assert!(alerts.contains(slow), "no {slow:?} in alerts.yaml");
        alerts = alerts.replace(slow, quick);
    }
    let is_slow = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("for:") && line.ends_with('m')
            || line.starts_with("expr:") && line.contains("m]")
    };
    assert_eq!(alerts.lines().find(is_slow), None, "a duration that is still slow");
    alerts
}

/// The names of the alerts.
fn names(alerts: &str) -> BTreeSet<String> {
    let names = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    assert_eq!(names.len(), 6);
    names
}

#[test]
fn every_alert_fires_when_its_cause_is_made_and_resolves_when_it_is_gone() {
    if !is_wanted() {
        return;
    }
    let mut agent = RunningAgent::start("file");
    // Its disk is full.
    let full = RunningAgent::start("/dev/full");
    let mut stopped = RunningAgent::start("file");
    let targets = [agent.http(), full.http(), stopped.http()];
    let alerts = quick_alerts();
    let prometheus = Prometheus::start(&targets, &alerts);
    assert_eq!((agent.ask("failing.example/app"), agent.ask("short.example/app")), (200, 200));
    prometheus.wait_until("all agents are scraped", || prometheus.healthy_targets() == 3);
    prometheus.wait_until("the agents' metrics are there", || {
        // The plugin may have been run again by a renewal.
        let runs = prometheus.value("sum(keyfob_agent_provider_answers_total{outcome=\"ran\"})");
        runs.is_some_and(|runs| runs >= 2.0)
    });
    assert_eq!(prometheus.firing(), BTreeSet::new(), "all is well");

    agent.break_plugin("failing");
    agent.break_plugin("short");
    let config = agent.replace_config("nonsense");
    for _ in 0..30 {
        assert_eq!(agent.ask("denied.example/app"), 403);
    }
    assert_eq!(full.ask("failing.example/app"), 200);
    stopped.stop();

    let mut fired = BTreeSet::new();
    let names = names(&alerts);
    prometheus.wait_until("every alert fires", || {
        agent.ask("failing.example/other");
        fired.extend(prometheus.firing());
        fired.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>() == names
    });
    let is_of = |agent: &RunningAgent, names: &[&str]| {
        let (http, firing) = (agent.http(), fired.iter());
        let of_agent = firing.filter(|(_, instance)| *instance == http).map(|(name, _)| &**name);
        assert_eq!(of_agent.collect::<Vec<_>>(), names, "{fired:?}");
    };
    is_of(
        &agent,
        &[
            "KeyfobConfigurationRejected",
            "KeyfobCredentialNotRenewed",
            "KeyfobProviderFailing",
            "KeyfobRepeatedDenials",
        ],
    );
    is_of(&full, &["KeyfobAuditEventsLost"]);
    is_of(&stopped, &["KeyfobAgentDown"]);

    agent.fix_plugin("failing");
    agent.fix_plugin("short");
    agent.replace_config(&config);
    stopped.start_again();
    prometheus.wait_until("every alert is resolved", || {
        agent.ask("failing.example/other");
        agent.ask("short.example/app");
        prometheus.firing().is_empty()
    });
}
