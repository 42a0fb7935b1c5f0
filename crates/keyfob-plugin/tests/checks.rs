//! What is looked at before an answer is printed.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::{
    future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_plugin::{
    Answer, CacheKeyType, Failure, ImageCredentials, ImageRequest, Margin, ProviderVersion,
    testing::{Asking, Refused},
};
use keyfob_testkit::{LeakCheck, ManualClock};

/// A provider that gives the answer it was given.
struct Gives(Answer);

impl ImageCredentials for Gives {
    async fn credentials(&self, _request: &ImageRequest) -> Result<Answer, Failure> {
        Ok(self.0.clone())
    }
}

const TOKEN: &str = "token-of-the-pod";

fn robot() -> Answer {
    Answer::login("r.io", "robot", "hunter2")
}

fn asking() -> Asking {
    Asking::about("r.io/app").token(TOKEN)
}

async fn refusal(answer: Answer) -> String {
    let refused = asking().of(Gives(answer)).await.unwrap_err();
    LeakCheck::new([TOKEN, "hunter2"]).error(&refused).debug("a refusal", &refused);
    refused.to_string()
}

#[tokio::test]
async fn a_key_that_no_kubelet_could_read_is_a_failure() {
    let refused = refusal(robot().and("r.io%", "robot", "hunter2")).await;

    assert!(refused.starts_with("plugin: the answer's key \"r.io%\": "), "{refused}");
}

#[tokio::test]
async fn a_login_without_a_password_is_a_failure() {
    let refused = refusal(Answer::login("r.io", "robot", "")).await;

    assert_eq!(refused, "plugin: the password for r.io is empty\n");
}

#[tokio::test]
async fn the_pods_token_is_handed_out_only_when_that_is_meant() {
    let refused = refusal(Answer::login("r.io", "robot", TOKEN)).await;
    assert!(refused.contains("the pod's own token"), "{refused}");

    let meant = Answer::login("r.io", "robot", TOKEN).hands_out_the_token();
    let answer = asking().of(Gives(meant)).await.unwrap();
    assert_eq!(answer.auth[0].1.password.expose(), TOKEN);
}

#[tokio::test]
async fn nothing_is_cached_beyond_the_credentials_life() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(400_000);
    let hour = now + Duration::from_hours(1);
    let rows = [
        (robot().expires_at(hour, Margin::Half), Some("30m0s")),
        (robot().expires_at(hour, Margin::Tenth), Some("54m0s")),
        (robot().expires_at(hour, Margin::Fixed(Duration::from_hours(2))), Some("0s")),
        (
            robot().expires_at(hour, Margin::Half).cached_for(Duration::from_hours(12)),
            Some("1h0m0s"),
        ),
        (robot().cached_for(Duration::from_mins(1)).expires_at(hour, Margin::Half), Some("1m0s")),
        (robot().cached_for(Duration::ZERO), Some("0s")),
        (robot(), None),
    ];
    for (answer, expected) in rows {
        let asking = asking().clock(Arc::new(ManualClock::new(now)));
        let duration = asking.of(Gives(answer)).await.unwrap().cache_duration;
        assert_eq!(duration.map(|duration| duration.to_string()).as_deref(), expected);
    }
}

#[tokio::test]
async fn a_credential_that_has_ended_is_a_failure() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(400_000);
    for end in [now, now - Duration::from_secs(1), SystemTime::UNIX_EPOCH] {
        let answer = robot().expires_at(end, Margin::Half).cached_for(Duration::from_hours(1));
        let asking = asking().clock(Arc::new(ManualClock::new(now)));
        let refused = asking.of(Gives(answer)).await.unwrap_err();
        assert!(refused.to_string().contains("look at the clocks"), "{refused}");
    }
}

#[tokio::test]
async fn an_answer_says_for_which_images_it_is() {
    let answer = asking().of(Gives(robot())).await.unwrap();
    assert_eq!(answer.cache_key_type, CacheKeyType::Registry);

    let answer = asking().of(Gives(robot().cached_by(CacheKeyType::Global))).await.unwrap();
    assert_eq!(answer.cache_key_type, CacheKeyType::Global);

    let answer = asking().of(Gives(Answer::nothing())).await.unwrap();
    assert_eq!((answer.cache_key_type, answer.auth.len()), (CacheKeyType::Image, 0));
}

#[tokio::test]
async fn an_older_version_carries_no_service_account() {
    struct WantsNone;

    impl ImageCredentials for WantsNone {
        async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
            assert_eq!(request.service_account_token(), None);
            assert_eq!(request.annotation("key"), None);
            Ok(Answer::nothing())
        }
    }

    let asking = asking().annotation("key", "value").version(ProviderVersion::V1Beta1);
    asking.of(WantsNone).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_waits_forever_is_given_up_with_its_step() {
    struct Waits;

    impl ImageCredentials for Waits {
        async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
            tokio::time::sleep(Duration::from_secs(10)).await;
            request.call().step("asking the broker");
            assert_eq!(request.call().remaining(), Duration::from_secs(40));
            future::pending().await
        }
    }

    let Err(Refused::Failed { stderr }) = asking().of(Waits).await else { panic!("an answer") };
    assert_eq!(stderr, "plugin: gave up after 50.0 s, the last 40.0 s of them asking the broker\n");
}
