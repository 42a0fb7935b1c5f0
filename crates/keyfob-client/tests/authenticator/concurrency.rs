//! Many callers at once.

use std::time::Duration;

use tokio::{runtime::Builder, task::JoinSet};

use crate::support::{Does, Stage, settle, token};

#[tokio::test]
async fn a_thousand_callers_wait_for_one_run() {
    let stage = Stage::new();
    stage.plugin.prints(token("one"));
    let gate = stage.plugin.hold();
    let authenticator = stage.authenticator();
    let mut callers = JoinSet::new();
    for _ in 0..1_000 {
        let authenticator = authenticator.clone();
        callers.spawn(async move { authenticator.credential().await.unwrap().generation() });
    }
    settle().await;
    assert_eq!(stage.plugin.runs(), 1);
    assert!(authenticator.status().is_running);

    gate.add_permits(1);

    assert!(callers.join_all().await.into_iter().all(|generation| generation == 1));
    assert_eq!(stage.plugin.runs(), 1);
}

#[tokio::test]
async fn callers_share_a_failure_too() {
    let stage = Stage::new();
    stage.plugin.does([Does::Exit(9)]);
    let gate = stage.plugin.hold();
    let authenticator = stage.authenticator();
    let mut callers = JoinSet::new();
    for _ in 0..100 {
        let authenticator = authenticator.clone();
        callers.spawn(async move { authenticator.credential().await.unwrap_err().to_string() });
    }
    settle().await;
    gate.add_permits(1);

    for error in callers.join_all().await {
        assert_eq!(error, "exec: executable /opt/plugin failed with exit code 9");
    }
    assert_eq!(stage.plugin.runs(), 1);
}

#[tokio::test]
async fn a_caller_who_leaves_stops_nothing() {
    let stage = Stage::new();
    stage.plugin.prints(token("one"));
    let gate = stage.plugin.hold();
    let authenticator = stage.authenticator();
    let leaving = tokio::time::timeout(Duration::ZERO, authenticator.credential()).await;
    assert!(leaving.is_err());
    settle().await;

    gate.add_permits(1);
    settle().await;

    assert_eq!(authenticator.ready().unwrap().generation(), 1);
    assert_eq!(stage.plugin.runs(), 1);
}

#[tokio::test]
async fn many_refusals_of_one_generation_are_one_run() {
    let stage = Stage::new();
    stage.plugin.does(["one", "two", "three"].map(|each| Does::Print(token(each))));
    let authenticator = stage.authenticator();
    authenticator.credential().await.unwrap();
    let gate = stage.plugin.hold();
    let mut callers = JoinSet::new();
    for _ in 0..200 {
        let authenticator = authenticator.clone();
        callers.spawn(async move { authenticator.refused(1).await.unwrap().generation() });
    }
    settle().await;
    gate.add_permits(1);

    assert!(callers.join_all().await.into_iter().all(|generation| generation == 2));
    assert_eq!(stage.plugin.runs(), 2);
}

#[test]
fn when_a_runtime_goes_away_with_the_run_whoever_waits_elsewhere_starts_another() {
    let stage = Stage::new();
    stage.plugin.prints(token("one"));
    let gate = stage.plugin.hold();
    let authenticator = stage.authenticator();
    let first = Builder::new_current_thread().enable_all().build().unwrap();
    let second = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    first.block_on(async {
        drop(tokio::time::timeout(Duration::ZERO, authenticator.credential()).await);
        settle().await;
    });
    assert_eq!(stage.plugin.runs(), 1);
    let waiting = {
        let authenticator = authenticator.clone();
        second.spawn(async move { authenticator.credential().await.unwrap().generation() })
    };
    second.block_on(settle());

    drop(first);
    gate.add_permits(1);

    assert_eq!(second.block_on(waiting).unwrap(), 1);
    assert_eq!(stage.plugin.runs(), 2);
}
