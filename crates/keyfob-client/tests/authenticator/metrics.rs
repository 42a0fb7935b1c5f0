//! What is counted.

use std::time::Duration;

use keyfob_client::{Authenticators, ExecConfig, PluginPolicy, PolicyType};
use prometheus_client::{encoding::text::encode, registry::Registry};

use crate::support::{Does, Stage, config, pair, settle, token};

fn lines(authenticators: &Authenticators) -> Vec<String> {
    let mut registry = Registry::default();
    authenticators.register_metrics(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn counts(authenticators: &Authenticators, wanted: &[&str]) {
    let lines = lines(authenticators);
    for line in wanted {
        assert!(lines.iter().any(|each| each == line), "no {line} in {lines:#?}");
    }
}

#[tokio::test]
async fn runs_are_counted_by_what_came_of_them() {
    let stage = Stage::new();
    let authenticators = stage.authenticators();
    stage.plugin.does([
        Does::Exit(3),
        Does::Print(b"nothing".to_vec()),
        Does::Print(token("one")),
        Does::Print(token("two")),
    ]);
    let authenticator = authenticators.get(&config(), None).unwrap();
    for _ in 0..3 {
        drop(authenticator.credential().await);
        drop(authenticator.credential().await);
        stage.clock.advance(Duration::from_mins(1));
    }
    authenticator.refused(1).await.unwrap();
    let policy = PluginPolicy { policy_type: PolicyType::DenyAll, allowlist: None };
    let denied = authenticators.get(&ExecConfig { policy, ..config() }, None).unwrap();
    denied.credential().await.unwrap_err();

    counts(
        &authenticators,
        &[
            r#"rest_client_exec_plugin_call_total{code="0",call_status="no_error"} 3"#,
            r#"rest_client_exec_plugin_call_total{code="3",call_status="plugin_execution_error"} 1"#,
            r#"rest_client_exec_plugin_policy_call_total{status="allowed"} 4"#,
            r#"rest_client_exec_plugin_policy_call_total{status="denied"} 1"#,
            r#"keyfob_client_plugin_runs_total{outcome="success"} 2"#,
            r#"keyfob_client_plugin_runs_total{outcome="failed"} 1"#,
            r#"keyfob_client_plugin_runs_total{outcome="unusable_answer"} 1"#,
            r#"keyfob_client_plugin_runs_total{outcome="denied"} 1"#,
            r#"keyfob_client_withheld_runs_total{reason="back_off"} 2"#,
            "keyfob_client_refused_credentials_total 1",
            "rest_client_exec_plugin_ttl_seconds inf",
        ],
    );
}

#[tokio::test]
async fn the_certificate_that_ends_first_is_shown_until_it_is_replaced() {
    let stage = Stage::new();
    let authenticators = stage.authenticators();
    let long = authenticators.get(&config(), None).unwrap();
    let short = ExecConfig { args: vec!["short".into()], ..config() };
    let short = authenticators.get(&short, None).unwrap();
    stage.plugin.prints(pair(&stage.clock, -3_000, 7_200));
    long.credential().await.unwrap();
    stage.plugin.prints(pair(&stage.clock, -700, 3_600));
    short.credential().await.unwrap();
    counts(&authenticators, &["rest_client_exec_plugin_ttl_seconds 3600.0"]);
    stage.clock.advance(Duration::from_secs(3_700));
    counts(&authenticators, &["rest_client_exec_plugin_ttl_seconds -100.0"]);

    stage.plugin.prints(token("none"));
    short.refused(1).await.unwrap();

    counts(
        &authenticators,
        &[
            "rest_client_exec_plugin_ttl_seconds 3500.0",
            "rest_client_exec_plugin_certificate_rotation_age_sum 4400.0",
            r#"rest_client_exec_plugin_certificate_rotation_age_bucket{le="3600.0"} 0"#,
            r#"rest_client_exec_plugin_certificate_rotation_age_bucket{le="14400.0"} 1"#,
        ],
    );
}

#[tokio::test]
async fn the_same_certificate_again_is_no_rotation() {
    let stage = Stage::new();
    let authenticators = stage.authenticators();
    let authenticator = authenticators.get(&config(), None).unwrap();
    stage.plugin.prints(pair(&stage.clock, 0, 100));
    let first = authenticator.credential().await.unwrap();

    let again = authenticator.refused(1).await.unwrap();

    assert!(std::sync::Arc::ptr_eq(first.identity().unwrap(), again.identity().unwrap()));
    assert_eq!(again.generation(), 2);
    counts(&authenticators, &["rest_client_exec_plugin_certificate_rotation_age_count 0"]);
}

#[tokio::test]
async fn runs_in_the_background_are_counted() {
    let stage = Stage::new();
    let authenticators = stage.authenticators();
    let authenticator = authenticators.get(&config(), None).unwrap();
    stage.plugin.does([
        Does::Print(stage.token("one", 100)),
        Does::Exit(1),
        Does::Print(stage.token("two", 200)),
    ]);
    authenticator.credential().await.unwrap();
    stage.clock.advance(Duration::from_secs(90));
    for _ in 0..2 {
        authenticator.ready().unwrap();
        settle().await;
        stage.clock.advance(Duration::from_secs(1));
    }

    counts(
        &authenticators,
        &[
            r#"keyfob_client_background_refreshes_total{result="failure"} 1"#,
            r#"keyfob_client_background_refreshes_total{result="success"} 1"#,
        ],
    );
}
