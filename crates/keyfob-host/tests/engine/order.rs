//! Who is asked, and in which order the credentials come.

use keyfob_api::CacheKeyType::{Image, Registry};
use keyfob_config::TokenAttributes;
use keyfob_host::Skipped;

use super::*;

#[tokio::test]
async fn only_providers_whose_patterns_match_are_asked() {
    let mut stage = Stage::saying(|name, _| answer(Registry, None, [("*.test", name)]));
    let host = stage.host([
        provider("ports", ["reg.test:5000"]),
        provider("hosts", ["other.test", "reg.*"]),
        provider("paths", ["reg.test/team"]),
    ]);

    assert_eq!(did(&ask(&host, "reg.test/app").await), [("hosts", "ran")]);
    assert_eq!(
        did(&ask(&host, "reg.test/team/app").await),
        [("hosts", "cached"), ("paths", "ran")]
    );
    assert_eq!(did(&ask(&host, "elsewhere.example/app").await), []);
}

#[tokio::test]
async fn a_plugin_is_asked_about_the_repository_and_nothing_more() {
    let mut stage = Stage::saying(|_, question| answer(Image, None, [("docker.io", question)]));
    let host = stage.host([provider("one", ["docker.io"])]);

    assert_eq!(users(&host, "nginx:1.27").await, ["docker.io/library/nginx"]);
}

#[tokio::test]
async fn the_longer_key_comes_first_and_equal_keys_in_the_order_of_the_providers() {
    let mut stage = Stage::saying(|name, _| match name {
        "first" => answer(Image, None, [("r.io", "first"), ("r.io/other", "not for this image")]),
        "second" => answer(Image, None, [("r.io/team", "second, longer"), ("r.io", "second")]),
        _ => answer(Image, None, [("*.io", "star")]),
    });
    let all = ["star", "first", "second"].map(|name| provider(name, ["r.io"]));
    let host = stage.host(all);

    let expected = ["second, longer", "first", "second", "star"];
    assert_eq!(users(&host, "r.io/team/app").await, expected);
    assert_eq!(users(&host, "r.io/team/app").await, expected, "from the cache");
}

#[tokio::test]
async fn one_providers_failure_hides_nothing_and_does_not_disappear() {
    let mut stage = Stage::saying(|name, _| match name {
        "bad" => b"{".into(),
        _ => answer(Registry, None, [("r.io", "ada")]),
    });
    let host = stage.host([provider("bad", ["r.io"]), provider("good", ["r.io"])]);

    let answer = ask(&host, "r.io/app").await;

    assert_eq!(did(&answer), [("bad", "failed"), ("good", "ran")]);
    assert_eq!(answer.credentials[0].username(), "ada");
    let errors: Vec<String> = answer
        .errors()
        .map(|(provider, error)| format!("{provider}: {}", keyfob_api::Chain(error)))
        .collect();
    assert_eq!(
        errors,
        ["bad: the plugin's answer is not valid: invalid JSON at line 1, column 2: unexpected end"]
    );
}

#[tokio::test]
async fn docker_hub_images_find_the_old_name_of_their_registry_if_nothing_else() {
    let hub = ("https://index.docker.io/v1/", "hub");
    let mut stage = Stage::saying(move |name, _| match name {
        "direct" => answer(Image, None, [("docker.io", "direct")]),
        _ => answer(Image, None, [hub]),
    });
    let host = stage.host([provider("hub", ["docker.io"]), provider("direct", ["docker.io/team"])]);

    assert_eq!(users(&host, "nginx").await, ["hub"]);
    assert_eq!(users(&host, "team/app").await, ["direct"]);
}

#[tokio::test]
async fn a_provider_for_service_accounts_is_left_alone_if_it_requires_one() {
    let mut stage = Stage::saying(|name, _| answer(Registry, None, [("r.io", name)]));
    let with = |name, required| {
        let attributes = TokenAttributes {
            service_account_token_audience: "registry".into(),
            cache_type: "Token".into(),
            require_service_account: Some(required),
            ..TokenAttributes::default()
        };
        ProviderConfig { token_attributes: Some(attributes), ..provider(name, ["r.io"]) }
    };
    let host = stage.host([with("requires", true), with("takes", false)]);

    let answer = ask(&host, "r.io/app").await;

    assert_eq!(did(&answer), [("requires", "skipped"), ("takes", "ran")]);
    assert!(matches!(
        answer.reports[0].outcome,
        ProviderOutcome::Skipped(Skipped::NoServiceAccount)
    ));
}

#[tokio::test]
async fn a_repository_that_is_no_url_matches_nothing() {
    let mut stage = Stage::saying(|_, _| answer(Registry, None, [("*", "x")]));
    let host = stage.host([provider("one", ["*"])]);

    let answer = host.credentials(&Pull::of_repository("a b")).await;

    assert_eq!((answer.credentials.len(), answer.reports.len()), (0, 0));
}
