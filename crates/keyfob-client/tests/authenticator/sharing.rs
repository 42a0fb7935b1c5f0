//! Who gets which authenticator.

use keyfob_api::ExecCluster;
use keyfob_client::{ExecConfig, PluginPolicy, PolicyType};

use crate::support::{Stage, config, token};

#[tokio::test]
async fn equal_users_share_one_and_others_do_not() {
    let stage = Stage::new();
    stage.plugin.prints(token("one"));
    let authenticators = stage.authenticators();
    let cluster = |server: &str| ExecCluster { server: server.into(), ..<_>::default() };
    let args = ExecConfig { args: vec!["another".into()], ..config() };
    let hint = ExecConfig { install_hint: "another".into(), ..config() };
    let mut runs = 0;
    for (config, cluster) in [
        (config(), None),
        (config(), Some(cluster("https://a"))),
        (config(), Some(cluster("https://b"))),
        (args, None),
        (hint, None),
    ] {
        for _ in 0..2 {
            let each = authenticators.clone().get(&config.clone(), cluster.as_ref()).unwrap();
            each.credential().await.unwrap();
        }
        runs += 1;
        assert_eq!(stage.plugin.runs(), runs);
    }
}

#[tokio::test]
async fn two_programs_share_nothing() {
    let stage = Stage::new();
    stage.plugin.prints(token("one"));
    for authenticators in [stage.authenticators(), stage.authenticators()] {
        authenticators.get(&config(), None).unwrap().credential().await.unwrap();
    }
    assert_eq!(stage.plugin.runs(), 2);
}

#[tokio::test]
async fn those_that_nobody_uses_are_forgotten_but_the_last() {
    let stage = Stage::new();
    stage.plugin.prints(token("one"));
    let authenticators = stage.authenticators();
    let numbered = |number: usize| ExecConfig { args: vec![number.to_string()], ..config() };
    let used = authenticators.get(&numbered(0), None).unwrap();
    used.credential().await.unwrap();
    for number in 1..=1_000 {
        authenticators.get(&numbered(number), None).unwrap().credential().await.unwrap();
    }
    assert_eq!(stage.plugin.runs(), 1_001);

    // In use, or one of the last.
    for number in [0, 1_000, 950] {
        authenticators.get(&numbered(number), None).unwrap().credential().await.unwrap();
    }
    assert_eq!(stage.plugin.runs(), 1_001);
    authenticators.get(&numbered(1), None).unwrap().credential().await.unwrap();
    assert_eq!(stage.plugin.runs(), 1_002);
    let known = format!("{authenticators:?}");
    assert!(known.contains("known: 65") || known.contains("known: 66"), "{known}");
}

#[test]
fn what_can_never_be_run_is_refused_at_once() {
    let authenticators = Stage::new().authenticators();
    let refused = |config: ExecConfig| authenticators.get(&config, None).unwrap_err().to_string();
    for version in ["", "v1", "client.authentication.k8s.io/v1alpha1", "a\"b"] {
        let config = ExecConfig { api_version: version.into(), ..config() };
        assert_eq!(refused(config), format!("exec plugin: invalid apiVersion {version:?}"));
    }
    let policy = PluginPolicy { policy_type: PolicyType::Unknown("Some".into()), allowlist: None };
    assert_eq!(
        refused(ExecConfig { policy, ..config() }),
        "invalid plugin policy: unknown plugin policy: \"Some\""
    );
    // That is for later.
    assert!(
        authenticators.get(&ExecConfig { interactive_mode: "".into(), ..config() }, None).is_ok()
    );
}

#[tokio::test]
async fn a_policy_that_denies_runs_nothing() {
    let stage = Stage::new();
    let policy = PluginPolicy { policy_type: PolicyType::DenyAll, allowlist: None };
    let authenticator =
        stage.authenticators().get(&ExecConfig { policy, ..config() }, None).unwrap();

    let error = authenticator.credential().await.unwrap_err();

    assert_eq!(error.to_string(), "plugin \"/opt/plugin\" not allowed: policy set to \"DenyAll\"");
    assert_eq!(stage.plugin.runs(), 0);
}
