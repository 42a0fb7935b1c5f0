//! Pulls that ask some of the providers, and what a host says about its providers without running any.

use keyfob_api::CacheKeyType::Image;
use keyfob_keyring::{Credential, Login, Logins, SecretCoordinates, Source};

use super::*;

fn three_providers() -> [ProviderConfig; 3] {
    [provider("a", ["r.io"]), provider("b", ["*.io"]), provider("c", ["q.example", "r.io/team"])]
}

/// A stage on which each plugin answers with its own name as the user.
fn stage() -> Stage {
    Stage::saying(|name, _| answer(Image, None, [("r.io", name)]))
}

async fn reports(host: &Host, pull: &Pull) -> Vec<(String, &'static str)> {
    let answer = host.credentials(pull).await;
    did(&answer).into_iter().map(|(provider, what)| (provider.to_owned(), what)).collect()
}

#[tokio::test]
async fn only_the_named_providers_are_asked_and_reported() {
    let mut stage = stage();
    let host = stage.host(three_providers());
    let all = Pull::parse("r.io/team/app").unwrap();

    let some = all.clone().only(["c", "a", "unknown"]);
    assert_eq!(reports(&host, &some).await, [("a".into(), "ran"), ("c".into(), "ran")]);
    let answer = host.credentials(&some).await;
    let users: Vec<_> = answer.credentials.iter().map(Credential::username).collect();
    assert_eq!(users, ["a", "c"], "in the order of the configuration");
    assert_eq!(stage.runner.runs(), 2);

    assert_eq!(reports(&host, &all.clone().only([""; 0])).await, []);
    assert_eq!(reports(&host, &all.clone().only(["a"]).only(["b"])).await, [("b".into(), "ran")]);
    let expected = ["a", "b", "c"].map(|name| (name.to_owned(), "cached"));
    assert_eq!(reports(&host, &all).await, expected);
}

#[tokio::test]
async fn a_pull_from_a_mirror_keeps_the_list_of_providers() {
    let mut stage = stage();
    let host = stage.host(three_providers());
    let pull = Pull::parse("elsewhere.example/app").unwrap().only(["b"]);

    let mirrored = pull.elsewhere(&keyfob_api::ImageRef::parse("r.io/team/app").unwrap());

    assert_eq!(reports(&host, &mirrored).await, [("b".into(), "ran")]);
}

#[tokio::test]
async fn pull_secrets_are_used_whichever_providers_are_asked() {
    let mut stage = stage();
    let host = stage.host(three_providers());
    let secret = SecretCoordinates { namespace: "team".into(), name: "s".into(), uid: "u".into() };
    let login = Login { username: "secret".into(), ..Login::default() };
    let logins = Logins::new(Source::PullSecret(Arc::new(secret)), [("r.io", login)]);
    let pull = Pull::parse("r.io/team/app").unwrap().with_secrets([Arc::new(logins)]);

    let answer = host.credentials(&pull.only([""; 0])).await;

    assert_eq!((answer.credentials.len(), answer.reports.len()), (1, 0));
    assert_eq!(answer.credentials[0].username(), "secret");
}

#[tokio::test]
async fn the_providers_that_match_are_told_without_a_run() {
    let mut stage = stage();
    let host = stage.host(three_providers());
    for (image, names) in [
        ("r.io/team/app", vec!["a", "b", "c"]),
        ("r.io/app", vec!["a", "b"]),
        ("q.example/app", vec!["c"]),
        ("elsewhere.example/app", vec![]),
    ] {
        let pull = Pull::parse(image).unwrap();
        let matching = host.matching(&pull);
        assert_eq!(matching.iter().map(|name| &**name).collect::<Vec<_>>(), names, "{image}");
        assert_eq!(host.matching(&pull.only(["a"])), matching, "the list does not matter here");
    }
    assert_eq!(host.matching(&Pull::of_repository("no url")), []);
    assert_eq!(stage.runner.runs(), 0);
}

#[tokio::test]
async fn the_providers_of_a_host_are_those_of_its_configuration() {
    let mut stage = stage();
    let host = stage.host(three_providers());
    let expected = |config: ValidConfig| -> Vec<_> {
        config.into_providers().into_iter().map(Arc::new).collect()
    };
    assert_eq!(host.providers(), expected(valid(three_providers())));

    host.reload(valid([provider("b", ["r.io"])])).unwrap();

    assert_eq!(host.providers(), expected(valid([provider("b", ["r.io"])])));
    assert_eq!(Host::without_providers().build().unwrap().providers(), []);
}
