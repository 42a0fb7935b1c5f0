//! Rows about a host's metrics.

use std::time::Duration;

use keyfob_api::FeatureGates;
use keyfob_config::Config;
use keyfob_exec::{RunError, Status, StderrTail};
use keyfob_host::Host;
use keyfob_testkit::FakeRunner;
use serde_json::Value;

use crate::{
    Check,
    stage::{Stage, ask, provider},
    text,
};

pub(crate) const CHECKS: &[(&str, &str, Check)] =
    &[("kubelet/metrics.json", "plugin metrics", metrics)];

fn metrics(_file: &Value, row: &Value) -> Result<(), String> {
    let shown = shown(row);
    for line in expected_series(row) {
        if !shown.lines().any(|each| each == line) {
            return Err(format!("no {line} in\n{shown}"));
        }
    }
    let metric = text(row, "metric");
    let family = metric.strip_suffix("_total").unwrap_or(metric);
    let help = row["help"].as_str().map(|help| format!("# HELP {family} {help}"));
    match help {
        Some(help) if !shown.contains(&help) => Err(format!("no {help} in\n{shown}")),
        _ => Ok(()),
    }
}

/// The metrics of a host that had the row's configurations, after plugins failed.
fn shown(row: &Value) -> String {
    let hashes = match row["labels"]["hash"].as_str() {
        Some(hash) => vec![hash],
        None => vec!["sha256:config1", "sha256:config2"],
    };
    let mut stage = Stage::new();
    let providers = ["test-plugin", "plugin-a", "plugin-b"].map(|name| provider(name, &[name]));
    for provider in &providers {
        stage.script(&provider.name, "");
    }
    let config = |hash: &str| {
        let mut config = Config::new(providers.clone());
        config.hash = Some(hash.to_owned());
        config.validate(FeatureGates::default()).unwrap()
    };
    let host =
        Host::builder(config(hashes[0]), stage.plugins.path()).runner(failing()).build().unwrap();
    host.register_metrics(&mut stage.registry);
    for hash in &hashes[1..] {
        host.reload(config(hash)).unwrap();
    }
    for name in ["test-plugin", "plugin-a", "plugin-a", "plugin-b"] {
        ask(&host, name);
    }
    stage.metrics()
}

fn failing() -> FakeRunner {
    FakeRunner::new(|invocation| {
        Err(RunError::Failed {
            program: invocation.program().into(),
            status: Status::Exited(1),
            stderr: StderrTail::default(),
            elapsed: Duration::from_millis(300),
        })
    })
}

fn expected_series(row: &Value) -> Vec<String> {
    let metric = text(row, "metric");
    let labelled =
        |name: &str, label: &str, value: &Value| format!("{metric}{{{name}=\"{label}\"}} {value}");
    if let Some(buckets) = row["buckets"].as_array() {
        let label = r#"plugin_name="test-plugin""#;
        let counts = row["expected_cumulative"].as_array().unwrap();
        let bucket = |(le, count): (&Value, &Value)| {
            let le = le.as_f64().map_or_else(|| "+Inf".to_owned(), |le| format!("{le:?}"));
            format!("{metric}_bucket{{le=\"{le}\",{label}}} {count}")
        };
        let mut lines: Vec<String> = buckets.iter().zip(counts).map(bucket).collect();
        lines.push(format!("{metric}_sum{{{label}}} {}", row["expected_sum"]));
        lines.push(format!("{metric}_count{{{label}}} {}", row["expected_count"]));
        return lines;
    }
    let name = if metric.contains("config_info") { "hash" } else { "plugin_name" };
    match &row["expected"] {
        Value::Object(each) => {
            each.iter().map(|(label, value)| labelled(name, label, value)).collect()
        }
        value => vec![labelled(name, text(&row["labels"], name), value)],
    }
}
