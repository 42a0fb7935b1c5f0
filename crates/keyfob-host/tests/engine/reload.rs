//! Replacing the configuration.

use keyfob_api::CacheKeyType::Global;

use super::*;

#[tokio::test]
async fn providers_that_did_not_change_keep_what_they_have_answered() {
    let mut stage = Stage::saying(|name, _| answer(Global, None, [("r.io", name)]));
    let [kept, changed, removed] =
        ["kept", "changed", "removed"].map(|name| provider(name, ["r.io"]));
    let host = stage.host([kept.clone(), changed.clone(), removed]);
    assert_eq!(users(&host, "r.io/app").await, ["kept", "changed", "removed"]);

    stage.install("added");
    let changed = ProviderConfig { args: vec!["--new".into()], ..changed };
    let reloaded = host.reload(valid([changed, provider("added", ["r.io"]), kept])).unwrap();

    assert_eq!(reloaded.kept, ["kept"]);
    assert_eq!(reloaded.started, ["changed", "added"]);
    assert_eq!(reloaded.removed, ["removed"]);
    let answer = ask(&host, "r.io/app").await;
    assert_eq!(did(&answer), [("changed", "ran"), ("added", "ran"), ("kept", "cached")]);
    let gauge = |name| {
        stage
            .metric(&format!(r#"keyfob_credential_provider_cache_entries{{plugin_name="{name}"}}"#))
    };
    assert_eq!(
        (gauge("kept"), gauge("changed"), gauge("removed")),
        (Some("1".into()), Some("1".into()), None)
    );
}

#[tokio::test]
async fn on_any_error_the_old_configuration_stays() {
    let mut stage = Stage::saying(|name, _| answer(Global, None, [("r.io", name)]));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;

    for providers in [vec!["nowhere"], vec!["one", "nowhere"]] {
        let config = valid(providers.iter().map(|name| provider(name, ["r.io"])));
        let missing = host.reload(config).unwrap_err();
        assert!(matches!(missing, BuildError::Plugins(_)), "{missing}");
    }

    assert_eq!(did(&ask(&host, "r.io/app").await), [("one", "cached")]);
    let reloads = |result| {
        stage.metric(&format!(
            r#"keyfob_credential_provider_config_reloads_total{{result="{result}"}}"#
        ))
    };
    assert_eq!((reloads("failure"), reloads("success")), (Some("2".into()), None));
}
