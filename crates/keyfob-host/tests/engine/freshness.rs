//! Pulls whose credentials must be valid for some time: what is renewed, and what is given out if that fails.

use std::time::Duration;

use keyfob_api::CacheKeyType::{Image, Registry};
use keyfob_host::Backoff;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);
const MOMENT: Duration = Duration::from_nanos(1);

fn fresh(min: Duration) -> Pull {
    Pull::parse("r.io/app").unwrap().fresh_for(min)
}

fn says(duration: &str, user: &str) -> Says {
    Says::Answer(answer(Registry, Some(duration), [("r.io", user)]))
}

async fn outcome(host: &Host, pull: &Pull) -> (String, &'static str) {
    let answer = host.credentials(pull).await;
    let what = did(&answer).first().map_or("nothing", |(_, what)| what);
    let user = answer.credentials.first().map(|credential| credential.username().to_owned());
    (user.unwrap_or_default(), what)
}

#[tokio::test]
async fn an_answer_that_expires_too_soon_is_renewed_before_it_is_given_out() {
    let mut stage = Stage::new(says("10m", "old"));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;
    stage.says(says("10m", "new"));

    stage.clock.advance(8 * MINUTE);
    assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, ("old".into(), "cached"));
    stage.clock.advance(MOMENT);
    assert_eq!(users(&host, "r.io/app").await, ["old"], "a pull that wants nothing special");
    assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, ("new".into(), "ran"));
    assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, ("new".into(), "cached"));
    assert_eq!(users(&host, "r.io/app").await, ["new"]);
    assert_eq!((stage.runner.runs(), host.cached().len()), (2, 1));
}

#[tokio::test]
async fn short_lived_answers_are_renewed_only_in_the_second_half_of_their_lives() {
    let mut stage = Stage::new(says("1m", "ada"));
    let host = stage.host([provider("one", ["r.io"])]);
    for (passed, runs) in [(0, 1), (0, 1), (29, 1), (1, 2), (0, 2), (29, 2), (1, 3)] {
        stage.clock.advance(Duration::from_secs(passed));
        assert_eq!(outcome(&host, &fresh(Duration::from_hours(1))).await.0, "ada");
        assert_eq!(stage.runner.runs(), runs, "{passed} s later");
    }
}

#[tokio::test]
async fn a_renewal_that_fails_leaves_the_valid_answer_in_use() {
    let mut stage = Stage::new(says("10m", "old"));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;
    stage.says(Says::Failure);

    stage.clock.advance(10 * MINUTE);
    assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, ("old".into(), "cached"));
    assert_eq!(stage.runner.runs(), 2);

    stage.clock.advance(MOMENT);
    assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, (String::new(), "failed"));
}

#[tokio::test]
async fn a_back_off_holds_renewals_too() {
    let mut stage = Stage::new(says("10m", "old"));
    let host = stage.host_with(|options| {
        options.backoff = Some(Backoff::new(Duration::from_secs(10), MINUTE));
    });
    ask(&host, "r.io/app").await;
    stage.says(Says::Failure);
    stage.clock.advance(9 * MINUTE);

    for (passed, runs) in [(0, 2), (0, 2), (9, 2), (1, 3)] {
        stage.clock.advance(Duration::from_secs(passed));
        assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, ("old".into(), "cached"));
        assert_eq!(stage.runner.runs(), runs, "{passed} s later");
    }
}

#[tokio::test]
async fn pulls_at_once_share_one_renewal() {
    let mut stage = Stage::new(says("10m", "old"));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;
    stage.says(says("10m", "new"));
    stage.clock.advance(9 * MINUTE);

    let pull = fresh(2 * MINUTE);
    let both = tokio::join!(outcome(&host, &pull), outcome(&host, &pull));

    assert_eq!(both, (("new".into(), "ran"), ("new".into(), "ran")));
    assert_eq!(stage.runner.runs(), 2);
}

#[tokio::test]
async fn a_renewed_answer_of_another_scope_replaces_the_old_one() {
    let mut stage = Stage::new(Says::Answer(answer(Image, Some("10m"), [("r.io", "old")])));
    let host = stage.host([provider("one", ["r.io"])]);
    ask(&host, "r.io/app").await;
    stage.says(says("10m", "new"));
    stage.clock.advance(9 * MINUTE);

    assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, ("new".into(), "ran"));
    assert_eq!(outcome(&host, &fresh(2 * MINUTE)).await, ("new".into(), "cached"));

    let keys: Vec<_> = host.cached().iter().map(|cached| cached.key.base().to_owned()).collect();
    assert_eq!(keys, ["r.io"]);
}
