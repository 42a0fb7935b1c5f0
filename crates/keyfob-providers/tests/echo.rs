//! `echo-credential-provider`, asked in this process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use clap::Parser as _;
use keyfob_api::{CacheKeyType, CredentialProviderResponse, GoDuration};
use keyfob_exec::Clock as _;
use keyfob_plugin::testing::{Asking, Refused};
use keyfob_providers::{ProviderArgs as _, World, echo::Args};
use keyfob_testkit::{FakeRunner, LeakCheck, ManualClock, MapEnvironment};

const IMAGE: &str = "harbor.example.com/library/nginx:1.25";

type Answered = Result<CredentialProviderResponse, Refused>;

async fn ask(asking: Asking, flags: &[&str]) -> Answered {
    let world = World::new(MapEnvironment::default(), FakeRunner::printing(""));
    let args = Args::try_parse_from([&["echo"], flags].concat()).unwrap();
    asking.clock(Arc::new(ManualClock::default())).of(args.provider(world).unwrap()).await
}

/// A token that ends this long after the clock's time.
fn token_for(seconds: i64) -> String {
    let now = ManualClock::default().now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let claims =
        format!(r#"{{"sub":"system:serviceaccount:a:b","exp":{}}}"#, now.cast_signed() + seconds);
    format!("eyJhbGciOiJSUzI1NiJ9.{}.c2lnbmF0dXJl", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

fn seconds(answer: &CredentialProviderResponse) -> Option<u64> {
    answer.cache_duration.and_then(GoDuration::to_std).map(|lasting| lasting.as_secs())
}

#[tokio::test]
async fn the_token_is_the_password_of_the_registry_that_was_asked_about() {
    let answer = ask(Asking::about(IMAGE).token("service-account-token"), &[]).await.unwrap();

    assert_eq!(answer.cache_key_type, CacheKeyType::Image);
    assert_eq!(answer.cache_duration, None, "a token that does not say when it ends");
    let [(key, auth)] = &answer.auth[..] else { panic!("one login") };
    assert_eq!((key.as_str(), auth.username.as_str()), ("harbor.example.com", "jwt"));
    assert_eq!(auth.password.expose(), "service-account-token");
}

#[tokio::test]
async fn user_name_and_cache_key_type_are_chosen_by_flags() {
    let asking = Asking::about("r.io:5000/app").token("t");
    let answer =
        ask(asking, &["--username", "robot", "--cache-key-type", "registry"]).await.unwrap();

    assert_eq!(answer.cache_key_type, CacheKeyType::Registry);
    assert_eq!(
        (answer.auth[0].0.as_str(), answer.auth[0].1.username.as_str()),
        ("r.io:5000", "robot")
    );
}

#[tokio::test]
async fn an_answer_is_kept_until_a_minute_before_the_token_ends() {
    let kept = async |lasting| {
        seconds(&ask(Asking::about(IMAGE).token(token_for(lasting)), &[]).await.unwrap())
    };
    assert_eq!(kept(3600).await, Some(3540));
    assert_eq!(kept(60).await, Some(0));
    assert_eq!(kept(5).await, Some(0));
}

#[tokio::test]
async fn a_token_that_has_ended_is_no_answer() {
    for lasting in [0, -1, -4_000_000_000] {
        let refused = ask(Asking::about(IMAGE).token(token_for(lasting)), &[]).await.unwrap_err();
        assert!(refused.to_string().contains("ended at"), "{refused}");
    }
}

#[tokio::test]
async fn without_a_token_the_configuration_is_to_be_changed() {
    let refused = ask(Asking::about(IMAGE), &[]).await.unwrap_err().to_string();

    assert!(refused.contains("service account token"), "{refused}");
    assert!(refused.contains("tokenAttributes"), "{refused}");
}

#[tokio::test]
async fn no_registry_but_the_named_ones_is_given_the_token() {
    let flags = ["--registry", "harbor.example.com", "--registry", "*.corp.example:8443"];
    let logins =
        async |image: &str| ask(Asking::about(image).token("t"), &flags).await.unwrap().auth.len();
    assert_eq!(logins(IMAGE).await, 1);
    assert_eq!(logins("eu.corp.example:8443/app").await, 1);
    for other in
        ["evil.example/app", "harbor.example.com:443/app", "corp.example:8443/app", "nginx"]
    {
        assert_eq!(logins(other).await, 0, "{other}");
    }
}

#[test]
fn a_registry_that_could_never_be_asked_about_is_refused() {
    for bad in ["https://r.io", "r.io/team", ""] {
        assert!(Args::try_parse_from(["echo", "--registry", bad]).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn the_token_stands_in_no_error() {
    let ended = token_for(-1);
    let check = LeakCheck::new([ended.clone()]);

    let asking = Asking::about(IMAGE).token(ended.as_str()).deadline(Duration::from_secs(5));
    let refused = ask(asking, &[]).await.unwrap_err();

    check.error(&refused);
    let answer = ask(Asking::about(IMAGE).token(token_for(600)), &[]).await.unwrap();
    LeakCheck::new([token_for(600)]).debug("an answer", &answer);
}
