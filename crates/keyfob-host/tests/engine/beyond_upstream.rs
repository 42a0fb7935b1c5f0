//! What a kubelet cannot do, each off unless asked for.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::CacheKeyType::{Global, Image, Registry};
use keyfob_host::{Backoff, CallError, PluginAttempt, PluginObserver};

use super::*;

#[tokio::test]
async fn a_failed_question_is_left_alone_for_longer_and_longer() {
    let mut stage = Stage::new(Says::Failure);
    let backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(30));
    let host = stage.host_with(|options| options.backoff = Some(backoff));
    ask(&host, "r.io/app").await;

    for (wait, runs) in [(10, 2), (20, 3), (30, 4), (30, 5)] {
        stage.clock.advance(Duration::from_nanos(wait * 1_000_000_000 - 1));
        let held = ask(&host, "r.io/app").await;
        let (_, error) = held.errors().next().unwrap();
        assert!(matches!(error, CallError::BackingOff { .. }), "{error}");
        assert!(error.to_string().contains("exit code 1"), "{error}");
        assert_eq!(stage.runner.runs(), runs - 1);

        stage.clock.advance(Duration::from_nanos(1));
        ask(&host, "r.io/app").await;
        assert_eq!(stage.runner.runs(), runs, "after {wait} s");
    }
    ask(&host, "r.io/another").await;
    assert_eq!(stage.runner.runs(), 6, "another image is another question");
}

#[tokio::test]
async fn a_good_answer_ends_a_back_off() {
    let mut stage = Stage::new(Says::Failure);
    let host = stage.host_with(|options| options.backoff = Some(Backoff::default()));
    ask(&host, "r.io/app").await;
    stage.clock.advance(Duration::from_secs(10));
    stage.says(Says::Answer(answer(Image, Some("1s"), [("r.io", "ada")])));
    assert_eq!(users(&host, "r.io/app").await, ["ada"]);

    stage.says(Says::Failure);
    stage.clock.advance(Duration::from_secs(2));
    ask(&host, "r.io/app").await;
    stage.clock.advance(Duration::from_secs(10));
    ask(&host, "r.io/app").await;

    assert_eq!(stage.runner.runs(), 4, "ten seconds again, not twenty");
}

#[tokio::test]
async fn without_a_back_off_every_call_asks_again() {
    let mut stage = Stage::new(Says::Failure);
    let host = stage.host_with(|_| ());
    ask(&host, "r.io/app").await;
    ask(&host, "r.io/app").await;
    assert_eq!(stage.runner.runs(), 2);
}

#[tokio::test]
async fn an_answer_is_renewed_before_it_expires_and_nobody_waits_for_that() {
    let mut stage = Stage::new(Says::Answer(answer(Registry, Some("10m"), [("r.io", "old")])));
    let host = stage.host_with(|options| options.refresh_ahead = Some(Duration::from_mins(2)));
    ask(&host, "r.io/app").await;
    stage.says(Says::Answer(answer(Registry, Some("10m"), [("r.io", "new")])));

    stage.clock.advance(Duration::from_mins(8) - Duration::from_nanos(1));
    assert_eq!(users(&host, "r.io/app").await, ["old"]);
    settle().await;
    assert_eq!(stage.runner.runs(), 1);

    stage.clock.advance(Duration::from_nanos(1));
    assert_eq!(users(&host, "r.io/app").await, ["old"]);
    assert_eq!(users(&host, "r.io/other").await, ["old"]);
    settle().await;
    assert_eq!(stage.runner.runs(), 2, "one renews for all");

    assert_eq!(users(&host, "r.io/app").await, ["new"]);
    stage.clock.advance(Duration::from_mins(5));
    assert_eq!(users(&host, "r.io/app").await, ["new"]);
}

#[tokio::test]
async fn a_renewal_that_fails_keeps_the_old_answer_and_is_tried_again_later() {
    let mut stage = Stage::new(Says::Answer(answer(Registry, Some("10m"), [("r.io", "old")])));
    let host = stage.host_with(|options| options.refresh_ahead = Some(Duration::from_mins(2)));
    ask(&host, "r.io/app").await;
    stage.says(Says::Failure);
    stage.clock.advance(Duration::from_mins(9));

    for (wait, runs) in [(0, 2), (59, 2), (1, 3)] {
        stage.clock.advance(Duration::from_secs(wait));
        assert_eq!(users(&host, "r.io/app").await, ["old"]);
        settle().await;
        assert_eq!(stage.runner.runs(), runs);
    }
}

#[tokio::test]
async fn a_short_lived_answer_is_not_renewed_all_the_time() {
    let mut stage = Stage::new(Says::Answer(answer(Image, Some("1m"), [("r.io", "ada")])));
    let host = stage.host_with(|options| options.refresh_ahead = Some(Duration::from_hours(1)));
    for (passed, runs) in [(0, 1), (29, 1), (1, 2), (29, 2), (1, 3)] {
        stage.clock.advance(Duration::from_secs(passed));
        assert_eq!(users(&host, "r.io/app").await, ["ada"]);
        settle().await;
        assert_eq!(stage.runner.runs(), runs, "{passed} s later");
    }
}

#[tokio::test]
async fn a_bounded_cache_drops_what_expires_first() {
    let mut stage = Stage::saying(|_, image| {
        let duration = if image.ends_with("short") { "1m" } else { "1h" };
        answer(Image, Some(duration), [("r.io", "ada")])
    });
    let host = stage.host_with(|options| options.max_cache_entries = NonZeroUsize::new(3));
    for image in ["r.io/a", "r.io/short", "r.io/b", "r.io/c"] {
        ask(&host, image).await;
    }

    let mut kept: Vec<String> =
        host.cached().iter().map(|cached| cached.key.base().to_owned()).collect();
    kept.sort();

    assert_eq!(kept, ["r.io/a", "r.io/b", "r.io/c"]);
    for n in 0..100 {
        ask(&host, &format!("r.io/n{n}")).await;
        assert!(host.cached().len() <= 3);
    }
}

#[tokio::test]
async fn a_refused_credential_is_asked_for_again() {
    let mut stage = Stage::new(Says::Answer(answer(Global, None, [("r.io", "old")])));
    let host = stage.host([provider("one", ["r.io"])]);
    let refused = ask(&host, "r.io/app").await.credentials.remove(0);
    stage.says(Says::Answer(answer(Global, None, [("r.io", "new")])));

    assert!(host.reject(&refused));
    assert_eq!(users(&host, "r.io/app").await, ["new"]);

    assert!(!host.reject(&refused), "the newer answer is not the refused one");
    assert_eq!(users(&host, "r.io/app").await, ["new"]);
    assert_eq!(stage.runner.runs(), 2);
}

#[tokio::test]
async fn a_pull_without_credentials_is_tried_last_only_if_asked_for() {
    let says = Says::Answer(answer(Global, None, [("r.io", "ada")]));
    let tries = async |host: &Host, image| -> Vec<Option<String>> {
        let answer = ask(host, image).await;
        answer.tries().map(|login| login.map(|login| login.username().to_owned())).collect()
    };
    let mut stage = Stage::new(says);
    let host = stage.host_with(|_| ());
    assert_eq!(tries(&host, "r.io/app").await, [Some("ada".into())]);
    assert_eq!(tries(&host, "elsewhere.io/app").await, [None]);

    let host = stage.host_with(|options| options.anonymous_last = true);
    assert_eq!(tries(&host, "r.io/app").await, [Some("ada".into()), None]);
}

#[tokio::test]
async fn each_provider_may_have_a_deadline_of_its_own() {
    let stage = Stage::new(Says::Failure);
    let mut options = HostOptions::default();
    options.timeouts.insert("quick".into(), Duration::from_secs(5));
    let providers = [provider("quick", ["r.io"]), provider("slow", ["r.io"])];
    let host = stage.builder(providers).options(options).build().unwrap();
    let pull = Pull::parse("r.io/app").unwrap();

    let deadline = |name| host.invocation(name, &pull).unwrap().unwrap().killed_after().unwrap();

    assert_eq!(deadline("quick"), Duration::from_secs(5));
    assert_eq!(deadline("slow"), Duration::from_mins(1));
    assert!(host.invocation("nobody", &pull).is_none());
}

/// What an observer was told: provider, image, whether it succeeded.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<(String, String, bool)>>);

impl PluginObserver for Told {
    fn ended(&self, attempt: &PluginAttempt<'_>) {
        assert!(attempt.took.is_some(), "the plugin ran");
        let (provider, image) = (attempt.provider.to_owned(), attempt.image.to_owned());
        self.0.lock().unwrap().push((provider, image, attempt.result.is_ok()));
    }
}

#[tokio::test]
async fn an_observer_is_told_of_each_run_once_however_many_wait_for_it() {
    let stage = Stage::new(Says::Failure);
    let told = Arc::new(Told::default());
    let host = stage.builder([provider("one", ["r.io"])]).observer(told.clone()).build().unwrap();
    ask(&host, "r.io/app").await;
    stage.says(Says::Answer(answer(Registry, Some("1h"), [("r.io", "ada")])));
    tokio::join!(ask(&host, "r.io/app"), ask(&host, "r.io/app"));
    ask(&host, "r.io/cached").await;

    let run = |succeeded| ("one".to_owned(), "r.io/app".to_owned(), succeeded);
    assert_eq!(*told.0.lock().unwrap(), [run(false), run(true)]);
}
