//! One run for many.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use super::{Ask, MINUTE, Stage};

/// Many clients at once, and what each got. The plugin is let go when all of them have asked.
async fn at_once(stage: &Arc<Stage>, clients: usize, runs: usize) -> Vec<Result<String, String>> {
    let asked: Vec<_> = (0..clients)
        .map(|_| {
            let (stage, question) = (Arc::clone(stage), stage.question());
            tokio::spawn(
                async move { stage.token(&question).await.map_err(|error| error.to_string()) },
            )
        })
        .collect();
    while stage.runs() == 0 {
        tokio::task::yield_now().await;
    }
    stage.plugin.release(runs);
    let mut got = Vec::new();
    for each in asked {
        got.push(each.await.unwrap());
    }
    got
}

/// Goes as far as the plugin's run, and no further.
async fn start(asking: &mut (impl Future + Unpin)) {
    poll_fn(|context| {
        assert!(Pin::new(&mut *asking).poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn fifty_at_once_are_one_run() {
    let stage = Arc::new(Stage::new());
    stage.plugin.hold();
    let got = at_once(&stage, 50, 1).await;
    assert_eq!(got, vec![Ok("hunter2-1".to_owned()); 50]);
    assert_eq!((stage.runs(), stage.told()), (1, vec![]));
}

#[tokio::test]
async fn fifty_at_once_share_a_failure_and_the_next_who_comes_tries_again() {
    let stage = Arc::new(Stage::new());
    stage.plugin.hold();
    stage.fails();
    let mut got = at_once(&stage, 50, 1).await;
    let program = stage.path("bin/plugin").display().to_string();
    let failed = format!("{program} failed: exit code 3");
    let shared = format!(
        "the keyfob that was waited for (pid {}) could not log in with plugin: {failed}",
        std::process::id()
    );
    got.sort();
    assert_eq!(got.iter().filter(|got| **got == Err(failed.clone())).count(), 1, "{got:?}");
    assert_eq!(got.iter().filter(|got| **got == Err(shared.clone())).count(), 49, "{got:?}");
    assert_eq!(stage.runs(), 1);

    stage.says(Some(MINUTE));
    stage.plugin.release(1);
    assert_eq!(stage.next().await, "hunter2-2");
}

#[tokio::test]
async fn those_whose_answer_will_not_be_kept_do_not_wait_in_line() {
    let stage = Arc::new(Stage::new());
    stage.says(None);
    stage.next().await;
    stage.plugin.hold();
    let asked: Vec<_> = (0..10)
        .map(|_| {
            let (stage, question) = (Arc::clone(&stage), stage.question());
            tokio::spawn(async move { stage.token(&question).await.unwrap() })
        })
        .collect();
    // All of them run, though none has ended.
    while stage.runs() < 11 {
        tokio::task::yield_now().await;
    }
    stage.plugin.release(10);
    for each in asked {
        each.await.unwrap();
    }
    stage.says(Some(MINUTE));
    stage.plugin.release(2);
    assert_eq!(stage.next().await, "hunter2-12");
    assert_eq!(stage.next().await, "hunter2-12", "as soon as it has an expiry it is kept");
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_for_whom_and_not_for_ever() {
    let stage = Stage::new().with(|options| options.lock_timeout = Duration::from_secs(90));
    stage.plugin.hold();
    let cache = stage.cache();
    let [first, second] = [stage.question(), stage.question()];
    let mut running = Box::pin(cache.fetch(&first));
    start(&mut running).await;

    let error = stage.token(&second).await.unwrap_err();

    let pid = std::process::id();
    assert_eq!(
        stage.told(),
        [format!("keyfob: waiting for another keyfob (pid {pid}) to log in with plugin")]
    );
    assert_eq!(
        error.to_string(),
        format!(
            "another keyfob (pid {pid}) has been logging in with plugin for more than 1m30s; end it, or wait longer with \
             --lock-timeout"
        )
    );
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn a_run_that_is_given_up_leaves_the_next_to_run() {
    let stage = Stage::new();
    stage.plugin.hold();
    let cache = stage.cache();
    let question = stage.question();
    let mut running = Box::pin(cache.fetch(&question));
    start(&mut running).await;
    drop(running);
    stage.plugin.release(1);
    assert_eq!(stage.next().await, "hunter2-2");
}

#[tokio::test]
async fn another_question_waits_for_nobody() {
    let stage = Stage::new();
    stage.plugin.hold();
    let cache = stage.cache();
    let question = stage.question();
    let mut running = Box::pin(cache.fetch(&question));
    start(&mut running).await;
    let other = Ask { args: vec!["another"], ..Ask::default() }.on(&stage);
    let mut other = Box::pin(stage.token(&other));
    start(&mut other).await;
    assert_eq!(stage.runs(), 2);
}
