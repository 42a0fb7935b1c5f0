//! Servers that are down, slow or refusing, tokens that end in between, and clocks that jump.

use std::{sync::Arc, time::Duration};

use keyfob_api::{CacheKeyType::Registry, GoDuration};
use keyfob_exec::{RunError, Status, StderrTail};
use keyfob_host::{
    Backoff, HostOptions, IdentityError, ProviderOutcome, Pull, ServiceAccountsError,
};
use keyfob_testkit::{FakeRunner, LeakCheck, LogCapture};
use tokio::time::Instant;

use crate::cluster::{
    HOUR, Mood, Rig, SECRET, check_leaks, errors, login, plain, pull, with_account, with_attributes,
};

fn numbered(numbers: &[usize]) -> Vec<Option<String>> {
    numbers.iter().map(|number| Some(format!("{SECRET}-{number}"))).collect()
}

/// Answers that may not be kept.
fn uncached() -> Rig {
    let rig = Rig::new(|_| {
        let mut answer = login(Registry, "password");
        answer.cache_duration = Some(GoDuration::ZERO);
        answer
    });
    rig.cluster.account("puller", []);
    rig
}

#[tokio::test]
async fn a_server_that_is_down_fails_those_who_need_it_until_it_is_back() {
    let rig = Rig::simple();
    let host = rig.host([plain("plain"), with_account("one")]);
    let down =
        Mood::Failing(IdentityError::Unavailable(ServiceAccountsError::new("connection refused")));
    for (get, token, said) in [
        (down.clone(), Mood::Well, "failed to get service account: connection refused"),
        (Mood::Well, down, "failed to get service account token: connection refused"),
    ] {
        (rig.cluster.state().get, rig.cluster.state().token) = (get, token);
        let answer = host.credentials(&pull("puller")).await;
        assert_eq!(errors(&answer), [said]);
        assert_eq!(answer.credentials.len(), 1, "who needs none goes on");
    }

    (rig.cluster.state().get, rig.cluster.state().token) = (Mood::Well, Mood::Well);
    let answer = host.credentials(&pull("puller")).await;
    assert_eq!(answer.credentials.len(), 2, "at once");
    check_leaks(&host, &answer);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_waited_for_in_bounds_and_by_nobody_else() {
    let rig = Rig::simple();
    let host = rig.host([with_account("one"), plain("plain")]);
    let started = Instant::now();
    let timed = async |pull: &Pull| (host.credentials(pull).await, started.elapsed());
    rig.cluster.state().get = Mood::Silent;

    let (with, without) = (pull("puller"), Pull::parse("r.io/other").unwrap());
    let (held, (free, at_once)) = tokio::join!(timed(&with), timed(&without));

    assert_eq!((free.credentials.len(), at_once), (1, Duration::ZERO));
    let (held, after) = held;
    assert!(after >= Duration::from_secs(30) && after < Duration::from_secs(31), "{after:?}");
    let said = "failed to get service account: no answer within 30 s: is the API server there?";
    assert_eq!(errors(&held), [said]);
    assert_eq!(held.credentials.len(), 1, "the other provider was asked meanwhile");
    assert_eq!(rig.tokens(), [None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_has_its_token_does_not_wait_for_one_that_has_not() {
    let rig = Rig::simple();
    let for_other = with_attributes("quick", |attributes| {
        attributes.service_account_token_audience = "other".into();
    });
    let host = rig.host([with_account("slow"), for_other]);
    rig.cluster.state().token = Mood::SilentAbout("registry");
    let pull = pull("puller");

    let asking = host.credentials(&pull);
    let watching = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.runner.runs()
    };
    let (answer, runs_by_then) = tokio::join!(asking, watching);

    assert_eq!((runs_by_then, answer.credentials.len()), (1, 1));
    assert_eq!(answer.errors().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_leaves_the_old_token_in_use_while_it_is_valid() {
    let rig = uncached();
    let host = rig.host([with_account("one")]);
    host.credentials(&pull("puller")).await;
    rig.cluster.state().token = Mood::Silent;
    rig.clock.advance(Duration::from_mins(50));

    let answer = host.credentials(&pull("puller")).await;

    assert_eq!(answer.credentials.len(), 1);
    assert_eq!((rig.tokens(), rig.cluster.asked()), (numbered(&[1, 1]), (2, 2)));
}

#[tokio::test]
async fn a_caller_who_leaves_breaks_nothing() {
    let rig = Rig::simple();
    let host = Arc::new(rig.host([with_account("one")]));
    rig.cluster.state().get = Mood::Silent;
    let leaving = {
        let host = host.clone();
        tokio::spawn(async move { host.credentials(&pull("puller")).await })
    };
    while rig.cluster.asked().0 == 0 {
        tokio::task::yield_now().await;
    }
    leaving.abort();
    assert!(leaving.await.is_err());
    rig.cluster.state().get = Mood::Well;

    let answer = host.credentials(&pull("puller")).await;

    assert_eq!((answer.credentials.len(), rig.runner.runs()), (1, 1));
}

#[tokio::test]
async fn after_a_run_that_outlived_its_token_the_next_pull_has_a_fresh_one() {
    let rig = uncached();
    let clock = rig.clock.clone();
    let slow = Rig::new(move |_| {
        clock.advance(HOUR * 2);
        let mut answer = login(Registry, "password");
        answer.cache_duration = Some(GoDuration::ZERO);
        answer
    });
    let host = rig.builder([with_account("one")]).runner(slow.runner.clone()).build().unwrap();

    for _ in 0..2 {
        assert_eq!(host.credentials(&pull("puller")).await.credentials.len(), 1);
    }

    assert_eq!(slow.tokens(), numbered(&[1, 2]));
}

#[tokio::test]
async fn a_clock_that_jumps_either_way_brings_a_fresh_token() {
    let rig = uncached();
    let host = rig.host([with_account("one")]);
    host.credentials(&pull("puller")).await;
    rig.clock.advance(HOUR * 24 * 365);
    host.credentials(&pull("puller")).await;
    rig.clock.set_back(HOUR * 24 * 365);
    host.credentials(&pull("puller")).await;
    host.credentials(&pull("puller")).await;
    assert_eq!(rig.tokens(), numbered(&[1, 2, 3, 3]));
}

#[tokio::test]
async fn a_pod_that_is_gone_takes_its_tokens_along() {
    let rig = uncached();
    let host = rig.host([with_account("one")]);
    host.credentials(&pull("puller")).await;
    host.forget_pod("uid-of-another");
    host.credentials(&pull("puller")).await;
    host.forget_pod("uid-of-web");
    host.credentials(&pull("puller")).await;
    assert_eq!(rig.tokens(), numbered(&[1, 1, 2]));
}

#[tokio::test]
async fn one_accounts_failures_do_not_hold_anothers_pulls() {
    let logs = LogCapture::start();
    let rig = Rig::simple();
    rig.cluster.account("other", []);
    let failing = FakeRunner::new(|invocation| {
        Err(RunError::Failed {
            program: invocation.program().into(),
            status: Status::Exited(1),
            stderr: StderrTail::default(),
            elapsed: Duration::ZERO,
        })
    });
    let mut options = HostOptions::default();
    options.backoff = Some(Backoff::default());
    let host = rig.builder([with_account("one")]).options(options).runner(failing.clone());
    let host = host.build().unwrap();

    for (account, runs) in [("puller", 1), ("puller", 1), ("other", 2)] {
        let answer = host.credentials(&pull(account)).await;
        assert!(matches!(answer.reports[0].outcome, ProviderOutcome::Failed(_)));
        assert_eq!(failing.runs(), runs, "{account}");
        check_leaks(&host, &answer);
    }
    let text = logs.text();
    LeakCheck::new([SECRET]).text("the log", &text);
}
