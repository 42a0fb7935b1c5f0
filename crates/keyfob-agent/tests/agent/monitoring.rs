//! The alerts, the dashboard and the pages beside the metrics that an agent has. `metrics` compares those with a running agent.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::metrics::{documented, repository};

/// Metrics that Prometheus itself makes.
const OF_PROMETHEUS: [&str; 1] = ["up"];

/// The names of metrics in an expression or a page.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| {
        ["keyfob_agent_", "keyfob_credential_", "kubelet_"].iter().any(|it| word.starts_with(it))
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

/// Those that no agent exports. A histogram has three names.
fn unknown(text: &str) -> Vec<String> {
    let known = documented();
    let is_known = |name: &String| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|part| {
            let metric = name.strip_suffix(part).and_then(|name| known.get(name));
            metric.is_some_and(|(sort, _)| sort == "histogram")
        });
        of_histogram || known.get(name).is_some_and(|(sort, _)| sort != "histogram")
    };
    metrics_in(text).into_iter().filter(|name| !is_known(name)).collect()
}

/// The names and the expressions of the alerts.
fn alerts() -> (Vec<String>, Vec<String>) {
    let text = repository("deploy/prometheus/alerts.yaml");
    let all = |field: &str| {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(field));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (names, expressions) = (all("- alert: "), all("expr: "));
    assert_eq!(names.len(), expressions.len(), "an expression on one line for each");
    (names, expressions)
}

#[test]
fn the_alerts_ask_for_metrics_that_an_agent_has() {
    let (names, expressions) = alerts();
    assert!(names.len() >= 5, "{names:?}");
    for (name, expression) in names.iter().zip(&expressions) {
        assert_eq!(unknown(expression), [""; 0], "{name}");
        let of_prometheus = OF_PROMETHEUS.iter().any(|it| expression.starts_with(it));
        assert!(of_prometheus || !metrics_in(expression).is_empty(), "{name}: {expression}");
    }
}

#[test]
fn the_page_for_operators_has_a_section_for_each_alert() {
    let page = repository("docs/operations.md");
    let text = repository("deploy/prometheus/alerts.yaml");
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let (names, _) = alerts();
    assert_eq!(sections, names, "sections of docs/operations.md, in the order of the alerts");
    for name in names {
        let link = format!(
            "runbook_url: https://github.com/keyfob/keyfob/blob/main/docs/operations.md#{}\n",
            name.to_lowercase()
        );
        assert!(text.contains(&link), "{link}");
        let tests = repository("deploy/prometheus/alerts_test.yaml");
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} is not tested");
    }
}

#[test]
fn the_pages_name_no_metric_that_does_not_exist() {
    for page in ["docs/operations.md", "docs/agent.md", "docs/agent-api.md", "docs/metrics.md"] {
        // A page may also name a histogram as a whole.
        let mut unknown = unknown(&repository(page));
        unknown.retain(|name| !documented().contains_key(name));
        assert_eq!(unknown, [""; 0], "{page}");
    }
}

#[test]
fn the_dashboard_has_what_grafana_needs_and_asks_for_metrics_that_an_agent_has() {
    let dashboard: Value =
        serde_json::from_str(&repository("deploy/grafana/keyfob-agent.json")).unwrap();
    assert!(dashboard["id"].is_null() && dashboard["uid"].is_string());
    assert!(dashboard["title"].is_string() && dashboard["schemaVersion"].is_u64());
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|each| each["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
    let mut asked = BTreeSet::new();
    for variable in &variables[1..] {
        let query = variable["query"]["query"].as_str().unwrap();
        assert_eq!(unknown(query), [""; 0], "{query}");
    }
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for (x, y) in (0..side("w")).flat_map(|x| (0..side("h")).map(move |y| (x, y))) {
            let place = (side("x") + x, side("y") + y);
            assert!(place.0 < 24 && places.insert(place), "{title} covers another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(["stat", "timeseries"].contains(&panel["type"].as_str().unwrap()), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(panel["description"].as_str().is_some_and(|it| it.ends_with('.')), "{title}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert_eq!(unknown(expression), [""; 0], "{title}: {expression}");
            assert!(expression.contains(r#"job=~"$job", instance=~"$instance""#), "{expression}");
            assert!(target["refId"].is_string(), "{title}");
            asked.extend(metrics_in(expression));
        }
    }
    // Responses, plugin runs, failures, expiry, denials and reloads.
    for metric in [
        "keyfob_agent_response_duration_seconds_bucket",
        "kubelet_credential_provider_plugin_duration_count",
        "kubelet_credential_provider_plugin_errors_total",
        "keyfob_agent_provider_answers_total",
        "keyfob_credential_provider_next_expiry_timestamp_seconds",
        "keyfob_agent_decisions_total",
        "keyfob_agent_reloads_total",
    ] {
        assert!(asked.contains(metric), "no panel shows {metric}");
    }
}
