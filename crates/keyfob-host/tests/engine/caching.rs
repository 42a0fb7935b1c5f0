//! What is kept, under which key, and for how long.

use std::time::{Duration, SystemTime};

use keyfob_api::CacheKeyType::{Global, Image, Registry};
use keyfob_exec::Clock as _;
use keyfob_host::CacheKey;
use keyfob_testkit::LeakCheck;

use super::*;

fn keys(host: &Host) -> Vec<String> {
    let mut keys: Vec<String> =
        host.cached().iter().map(|cached| cached.key.base().to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn an_answer_serves_the_images_its_key_type_says() {
    for (scope, key, images_served) in [
        (Image, "r.io/team/app", vec!["r.io/team/app:v2"]),
        (Registry, "r.io", vec!["r.io/team/app", "r.io/other"]),
        (Global, "<global>", vec!["r.io/other", "q.io/app"]),
    ] {
        let logins = [("r.io", "ada"), ("q.io", "ada")];
        let mut stage = Stage::new(Says::Answer(answer(scope, None, logins)));
        let host = stage.host([provider("one", ["r.io", "q.io"])]);

        assert_eq!(did(&ask(&host, "r.io/team/app:v1").await), [("one", "ran")]);
        assert_eq!(keys(&host), [key]);
        for image in images_served {
            assert_eq!(did(&ask(&host, image).await), [("one", "cached")], "{scope:?} {image}");
            assert_eq!(users(&host, image).await, ["ada"]);
        }
        assert_eq!(stage.runner.runs(), 1);
        let expected = if scope == Global { "cached" } else { "ran" };
        assert_eq!(did(&ask(&host, "q.io/another").await), [("one", expected)]);
    }
}

#[tokio::test]
async fn a_key_has_two_parts_and_the_second_is_empty_without_an_identity() {
    let mut stage = Stage::new(Says::Answer(answer(Registry, None, [])));
    let host = stage.host([provider("one", ["r.io"])]);

    ask(&host, "r.io/app").await;

    assert_eq!(host.cached()[0].key, CacheKey::new("r.io", b"").unwrap());
    assert_eq!(host.cached()[0].key.as_bytes(), b"\0\x04r.io\0\0");
}

#[tokio::test]
async fn an_answer_is_good_up_to_and_at_its_expiry_and_not_after() {
    let mut stage = Stage::new(Says::Answer(answer(Image, Some("1m"), [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;

    stage.clock.advance(Duration::from_mins(1));
    assert_eq!(did(&ask(&host, "r.io/app").await), [("one", "cached")]);

    stage.clock.advance(Duration::from_nanos(1));
    assert_eq!(did(&ask(&host, "r.io/app").await), [("one", "ran")]);
    assert_eq!(host.cached().len(), 1, "the expired one went when it was read");
}

#[tokio::test]
async fn an_absent_duration_is_the_configured_one_and_zero_is_not_kept() {
    for (duration, default, kept_for) in [
        (None, "10m", Some(600)),
        (Some("5m"), "10m", Some(300)),
        (Some("0s"), "10m", None),
        (None, "0s", None),
        (Some("5m"), "0s", Some(300)),
    ] {
        let mut stage = Stage::new(Says::Answer(answer(Global, duration, [("r.io", "ada")])));
        let mut one = provider("one", ["r.io"]);
        one.default_cache_duration = GoDuration::parse(default).ok();
        let host = stage.host([one]);
        let now = keyfob_exec::Clock::now(&stage.clock);

        assert_eq!(users(&host, "r.io/app").await, ["ada"]);

        let kept = host
            .cached()
            .first()
            .map(|cached| cached.expires.duration_since(now).unwrap().as_secs());
        assert_eq!(kept, kept_for, "{duration:?} {default}");
    }
}

#[tokio::test]
async fn a_negative_duration_is_used_once_and_never_served_again() {
    let mut stage = Stage::new(Says::Answer(answer(Image, Some("-1m"), [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);

    assert_eq!(users(&host, "r.io/app").await, ["ada"]);
    assert_eq!(users(&host, "r.io/app").await, ["ada"]);

    assert_eq!(stage.runner.runs(), 2);
}

#[tokio::test]
async fn an_empty_answer_is_kept_and_an_error_is_not() {
    let mut stage = Stage::new(Says::Answer(answer(Registry, None, [])));
    let host = stage.host([provider("one", ["r.io"])]);
    assert_eq!(did(&ask(&host, "r.io/app").await), [("one", "ran")]);
    assert_eq!(did(&ask(&host, "r.io/app").await), [("one", "cached")]);

    stage.says(Says::Failure);
    stage.clock.advance(Duration::from_hours(1));
    for _ in 0..2 {
        let answer = ask(&host, "r.io/app").await;
        assert_eq!(did(&answer), [("one", "failed")]);
        assert_eq!(answer.errors().count(), 1);
    }
    assert_eq!((stage.runner.runs(), host.cached().len()), (3, 0));
}

#[tokio::test]
async fn all_expired_answers_go_in_a_sweep_every_fifteen_minutes() {
    let mut stage = Stage::new(Says::Answer(answer(Image, Some("1m"), [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/a").await;
    ask(&host, "r.io/b").await;

    stage.clock.advance(Duration::from_mins(15));
    ask(&host, "r.io/c").await;
    assert_eq!(keys(&host), ["r.io/a", "r.io/b", "r.io/c"], "not yet");

    stage.clock.advance(Duration::from_nanos(1));
    ask(&host, "r.io/c").await;
    assert_eq!(keys(&host), ["r.io/c"]);
    assert_eq!(
        stage.metric(r#"keyfob_credential_provider_cache_entries{plugin_name="one"}"#),
        Some("1".into())
    );
}

#[tokio::test]
async fn the_next_expiry_is_that_of_an_answer_that_is_still_valid() {
    let next = r#"keyfob_credential_provider_next_expiry_timestamp_seconds{plugin_name="one"}"#;
    let mut stage = Stage::new(Says::Answer(answer(Image, Some("1m"), [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);
    assert_eq!(stage.metric(next), None, "nothing is cached");
    let now = stage.clock.now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    ask(&host, "r.io/a").await;
    stage.says(Says::Answer(answer(Image, Some("3m"), [("r.io", "ada")])));
    ask(&host, "r.io/b").await;
    assert_eq!(stage.metric(next), Some(format!("{}.0", now + 60)));

    stage.clock.advance(Duration::from_mins(2));
    assert_eq!(stage.metric(next), Some(format!("{}.0", now + 180)), "the first has expired");

    stage.clock.advance(Duration::from_mins(2));
    assert_eq!(stage.metric(next), None);
}

#[tokio::test]
async fn hits_and_misses_are_counted_and_only_failed_runs_are_errors() {
    let series = |name: &str| format!(r#"{name}{{plugin_name="one"}}"#);
    let mut stage = Stage::new(Says::Answer(answer(Image, None, [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;
    ask(&host, "r.io/app").await;
    stage.says(Says::Answer(b"not an answer".into()));
    ask(&host, "r.io/second").await;
    assert_eq!(stage.metric(&series("kubelet_credential_provider_plugin_errors_total")), None);
    stage.says(Says::Failure);
    ask(&host, "r.io/third").await;

    let metric = |name: &str| stage.metric(&series(name)).unwrap();

    assert_eq!(metric("keyfob_credential_provider_cache_hits_total"), "1");
    assert_eq!(metric("keyfob_credential_provider_cache_misses_total"), "3");
    assert_eq!(metric("keyfob_credential_provider_waiters"), "0");
    assert_eq!(metric("kubelet_credential_provider_plugin_errors_total"), "1");
    assert_eq!(metric("kubelet_credential_provider_plugin_duration_count"), "3");
}

#[tokio::test]
async fn two_hosts_share_nothing() {
    let mut stage = Stage::new(Says::Answer(answer(Global, None, [("r.io", "ada")])));
    let first = stage.host([provider("one", ["r.io"])]);
    let second = stage.host([provider("one", ["r.io"])]);

    ask(&first, "r.io/app").await;

    assert_eq!((first.cached().len(), second.cached().len()), (1, 0));
    assert_eq!(did(&ask(&second, "r.io/app").await), [("one", "ran")]);
}

#[tokio::test]
async fn what_is_cached_can_be_listed_without_its_passwords() {
    let mut stage = Stage::new(Says::Answer(answer(Registry, None, [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;

    let cached = host.cached();

    let logins = cached[0].logins.iter();
    let logins: Vec<_> = logins.map(|(key, login)| (key.to_string(), &*login.username)).collect();
    assert_eq!(logins, [("r.io".to_owned(), "ada")]);
    assert_eq!(cached, host.cached());
    LeakCheck::new(["ada's"]).debug("a cached answer", &cached);
    stage.clock.advance(Duration::from_hours(1));
    ask(&host, "r.io/app").await;
    assert_ne!(cached, host.cached(), "a new answer is another answer");
}

#[tokio::test]
async fn answers_are_forgotten_by_image_and_provider() {
    // Of the provider `one`, the cache has answers for two registries; of `two`, one for every image.
    let all = ["<global>", "q.io", "r.io"];
    for (image, name, left) in [
        (None, None, vec![]),
        (None, Some("one"), vec!["<global>"]),
        (None, Some("two"), vec!["q.io", "r.io"]),
        (None, Some("unknown"), all.to_vec()),
        (Some("r.io/app:v1"), None, vec!["q.io"]),
        (Some("r.io/never-pulled"), Some("one"), vec!["<global>", "q.io"]),
        (Some("q.io/app"), None, vec!["<global>", "r.io"]),
        (Some("q.io/app"), Some("two"), all.to_vec()),
        (Some("elsewhere.example/app"), None, all.to_vec()),
        (Some("NOT AN IMAGE"), None, all.to_vec()),
    ] {
        let mut stage = Stage::saying(|name, _| {
            answer(if name == "one" { Registry } else { Global }, None, [("r.io", "ada")])
        });
        let host = stage.host([provider("one", ["r.io", "q.io"]), provider("two", ["r.io"])]);
        let ask_all = async || {
            ask(&host, "r.io/app").await;
            ask(&host, "q.io/app").await;
            keys(&host)
        };
        assert_eq!(ask_all().await, all);

        let forgotten = host.forget(image, name);

        assert_eq!(keys(&host), left, "{image:?} {name:?}");
        assert_eq!(forgotten, all.len() - left.len());
        assert_eq!(ask_all().await, all, "what was forgotten is asked again");
    }
}

#[tokio::test]
async fn an_answer_for_one_image_is_forgotten_with_that_image_alone() {
    let mut stage = Stage::new(Says::Answer(answer(Image, None, [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/a").await;
    ask(&host, "r.io/b").await;

    assert_eq!(host.forget(Some("r.io/b:v1"), None), 1);

    assert_eq!(keys(&host), ["r.io/a"]);
}

#[tokio::test]
async fn to_forget_ends_a_back_off() {
    let mut stage = Stage::new(Says::Failure);
    let host = stage.host_with(|options| options.backoff = Some(keyfob_host::Backoff::default()));
    ask(&host, "r.io/app").await;

    assert_eq!(host.forget(Some("r.io/app"), None), 0);

    ask(&host, "r.io/app").await;
    assert_eq!(stage.runner.runs(), 2);
}
