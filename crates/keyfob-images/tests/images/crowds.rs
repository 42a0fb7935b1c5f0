//! Many pulls at once.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use keyfob_images::{EnsureReason, ImageOptions, Parallelism, PullPolicy::Always, PullRate};
use tokio::task::JoinSet;

use crate::kit::{Purse, Shelf, Stage, options, settle};

/// Starts so many, and lets them go as far as they can.
async fn start(stage: &Arc<Stage>, pulls: &mut JoinSet<()>, count: usize) -> usize {
    for _ in 0..count {
        let stage = stage.clone();
        pulls.spawn(async move {
            stage.ensure("app", Always, &Purse::empty()).await.unwrap();
        });
    }
    settle().await;
    stage.shelf.began.available_permits()
}

async fn end(stage: &Stage, count: usize) -> usize {
    stage.shelf.hold.as_ref().unwrap().add_permits(count);
    settle().await;
    stage.shelf.began.available_permits()
}

#[tokio::test]
async fn no_more_pulls_run_at_once_than_may() {
    let limit = Parallelism::AtMost(NonZeroUsize::new(3).unwrap());
    let stage = Arc::new(Stage::without_records(Shelf::full().holding(), options(limit)));
    let mut pulls = JoinSet::new();

    assert_eq!(start(&stage, &mut pulls, 3).await, 3);
    assert_eq!(start(&stage, &mut pulls, 4).await, 3, "the others wait");
    assert_eq!(end(&stage, 2).await, 5);
    assert_eq!(end(&stage, 5).await, 7);
    pulls.join_all().await;
}

#[tokio::test]
async fn serial_pulls_run_one_by_one_and_unlimited_ones_all_at_once() {
    for (parallelism, began) in [(Parallelism::Serial, 1), (Parallelism::Unlimited, 5)] {
        let shelf = Shelf::full().holding();
        let stage = Arc::new(Stage::without_records(shelf, options(parallelism)));
        let mut pulls = JoinSet::new();
        assert_eq!(start(&stage, &mut pulls, 5).await, began);
        assert_eq!(end(&stage, 1).await, 2.max(began));
        end(&stage, 4).await;
        pulls.join_all().await;
    }
}

#[tokio::test]
async fn whoever_gives_up_waiting_leaves_the_place_to_others() {
    let stage = Stage::without_records(Shelf::full().holding(), options(Parallelism::Serial));
    let purse = Purse::empty();
    let mut first = Box::pin(stage.ensure("app", Always, &purse));
    let mut second = Box::pin(stage.ensure("app", Always, &purse));
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(futures_util::poll!(&mut second).is_pending());
    assert_eq!(stage.shelf.began.available_permits(), 1);
    drop(second);
    drop(first);
    stage.shelf.hold.as_ref().unwrap().add_permits(1);
    stage.ensure("app", Always, &purse).await.unwrap();
}

#[tokio::test]
async fn a_pull_too_many_fails_and_is_left_alone_for_a_while() {
    let mut options: ImageOptions = options(Parallelism::Unlimited);
    options.rate = Some(PullRate { per_second: 0.1, burst: 1 });
    let stage = Stage::with_options(Shelf::full(), options);
    let purse = Purse::empty();
    stage.ensure("one", Always, &purse).await.unwrap();

    let error = stage.ensure("two", Always, &purse).await.unwrap_err();
    assert_eq!(
        (error.reason, error.message.as_str()),
        (EnsureReason::ErrImagePull, "pull QPS exceeded")
    );
    let held = stage.ensure("two", Always, &purse).await.unwrap_err();
    assert_eq!(held.message, r#"Back-off pulling image "two": ErrImagePull: pull QPS exceeded"#);
    assert_eq!(
        stage.books.diary.take(),
        [
            "intent one",
            "pulled one id-pulled for every pod",
            "intent two",
            "failed two",
            "intent two",
            "failed two"
        ]
    );

    stage.clock.advance(Duration::from_secs(10));
    stage.ensure("two", Always, &purse).await.unwrap();
}

#[tokio::test]
async fn waiting_is_not_counted_as_pulling() {
    let shelf = Shelf::full().holding();
    let stage = Arc::new(Stage::without_records(shelf, options(Parallelism::Serial)));
    let mut pulls = JoinSet::new();
    start(&stage, &mut pulls, 2).await;
    stage.clock.advance(Duration::from_millis(1_500));
    end(&stage, 1).await;
    stage.clock.advance(Duration::from_micros(250_900));
    end(&stage, 1).await;
    pulls.join_all().await;

    let pulled: Vec<String> =
        stage.events.take().into_iter().filter(|event| event.starts_with("Pulled")).collect();
    let told = |times: &str| {
        format!(r#"Pulled: Successfully pulled image "app" in {times}. Image size: 42 bytes."#)
    };
    let expected = [told("1.5s (1.5s including waiting)"), told("250ms (1.75s including waiting)")];
    assert_eq!(pulled, expected);
}
