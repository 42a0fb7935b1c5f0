//! One caller after the other.

use std::time::Duration;

use keyfob_client::{Behaviour, ExecConfig, InteractiveMode};

use crate::support::{Does, Stage, config, settle, token};

#[tokio::test]
async fn a_credential_without_an_end_is_fetched_once() {
    let stage = Stage::new();
    stage.plugin.prints(token("one"));
    let authenticator = stage.authenticator();
    assert!(authenticator.ready().is_none());

    for _ in 0..3 {
        let credential = authenticator.credential().await.unwrap();
        assert_eq!(credential.generation(), 1);
        assert_eq!(credential.token().unwrap().expose(), "one");
        let header = credential.authorization().unwrap().unwrap();
        assert_eq!(header, "Bearer one");
        assert!(header.is_sensitive());
        stage.clock.advance(Duration::from_hours(10_000));
    }

    assert_eq!(authenticator.ready().unwrap().generation(), 1);
    assert_eq!(stage.plugin.runs(), 1);
}

#[tokio::test]
async fn a_credential_is_good_until_just_after_its_end() {
    let stage = Stage::with(Behaviour::of_client_go());
    stage.plugin.prints(stage.token("one", 60));
    let authenticator = stage.authenticator();
    authenticator.credential().await.unwrap();

    stage.clock.advance(Duration::from_mins(1));
    assert!(authenticator.ready().is_some());
    stage.clock.advance(Duration::from_nanos(1));
    assert!(authenticator.ready().is_none());

    stage.plugin.prints(stage.token("two", 60));
    let credential = authenticator.credential().await.unwrap();
    assert_eq!((credential.generation(), stage.plugin.runs()), (2, 2));
}

#[tokio::test]
async fn one_that_has_ended_already_is_used_once_or_for_the_minimum() {
    let past = |behaviour| {
        let stage = Stage::with(behaviour);
        stage.plugin.prints(stage.token("old", 0));
        stage.clock.advance(Duration::from_secs(5));
        stage
    };
    let stage = past(Behaviour::of_client_go());
    let authenticator = stage.authenticator();
    for runs in 1..=2 {
        assert!(authenticator.credential().await.is_ok());
        assert_eq!(stage.plugin.runs(), runs);
    }

    let stage = past(Behaviour::default());
    let authenticator = stage.authenticator();
    for (seconds, runs) in [(0, 1), (10, 1), (1, 2)] {
        stage.clock.advance(Duration::from_secs(seconds));
        assert!(authenticator.credential().await.is_ok());
        assert_eq!(stage.plugin.runs(), runs);
    }
}

#[tokio::test]
async fn a_refused_generation_is_replaced_once() {
    let stage = Stage::new();
    stage.plugin.does(["one", "two", "three"].map(|each| Does::Print(token(each))));
    let authenticator = stage.authenticator();
    assert_eq!(authenticator.credential().await.unwrap().generation(), 1);

    for _ in 0..3 {
        assert_eq!(authenticator.refused(1).await.unwrap().generation(), 2);
    }
    assert_eq!(stage.plugin.runs(), 2);
    assert_eq!(authenticator.refused(2).await.unwrap().token().unwrap().expose(), "three");
}

#[tokio::test]
async fn a_refused_credential_stays_if_there_is_no_other() {
    let stage = Stage::new();
    stage.plugin.does([Does::Print(token("one")), Does::Exit(3)]);
    let authenticator = stage.authenticator();
    authenticator.credential().await.unwrap();

    let error = authenticator.refused(1).await.unwrap_err();

    assert_eq!(error.to_string(), "exec: executable /opt/plugin failed with exit code 3");
    assert_eq!(authenticator.ready().unwrap().generation(), 1);
    let status = authenticator.status();
    assert!(status.is_usable && !status.is_running);
    assert_eq!(status.last_failure.unwrap().to_string(), error.to_string());
}

#[tokio::test]
async fn near_its_end_a_credential_is_replaced_while_it_is_used() {
    let stage = Stage::new();
    stage.plugin.prints(stage.token("one", 100));
    let authenticator = stage.authenticator();
    authenticator.credential().await.unwrap();
    stage.clock.advance(Duration::from_secs(79));
    assert_eq!(authenticator.ready().unwrap().generation(), 1);
    settle().await;
    assert_eq!(stage.plugin.runs(), 1);

    stage.clock.advance(Duration::from_secs(1));
    stage.plugin.prints(stage.token("two", 100));
    let gate = stage.plugin.hold();
    for _ in 0..10 {
        assert_eq!(authenticator.credential().await.unwrap().generation(), 1);
        settle().await;
    }
    assert_eq!(stage.plugin.runs(), 2);
    gate.add_permits(1);
    settle().await;

    assert_eq!(authenticator.ready().unwrap().token().unwrap().expose(), "two");
    assert_eq!(stage.plugin.runs(), 2);
}

#[tokio::test]
async fn a_run_ahead_that_fails_is_tried_again_after_a_pause_and_the_old_one_used_to_its_end() {
    let stage = Stage::new();
    stage.plugin.does([Does::Print(stage.token("one", 1_000)), Does::Exit(1)]);
    let authenticator = stage.authenticator();
    authenticator.credential().await.unwrap();
    stage.clock.advance(Duration::from_secs(800));
    for _ in 0..20 {
        assert_eq!(authenticator.credential().await.unwrap().generation(), 1);
        settle().await;
    }
    assert_eq!(stage.plugin.runs(), 2);

    stage.clock.advance(Duration::from_secs(1));
    for _ in 0..20 {
        assert_eq!(authenticator.credential().await.unwrap().generation(), 1);
        settle().await;
    }
    assert_eq!(stage.plugin.runs(), 3);

    stage.clock.advance(Duration::from_secs(200));
    let error = authenticator.credential().await.unwrap_err();
    assert_eq!(error.to_string(), "exec: executable /opt/plugin failed with exit code 1");
}

#[tokio::test]
async fn nobody_is_asked_in_the_background() {
    let stage = Stage::new();
    stage.terminal.appears();
    stage.plugin.prints(stage.token("one", 100));
    let config = ExecConfig { interactive_mode: InteractiveMode::IfAvailable, ..config() };
    let authenticator = stage.authenticators().get(&config, None).unwrap();
    authenticator.credential().await.unwrap();
    assert!(stage.plugin.infos.lock().unwrap()[0].contains("\"interactive\":true"));

    stage.clock.advance(Duration::from_secs(99));
    assert!(authenticator.ready().is_some());
    settle().await;

    assert_eq!(stage.plugin.runs(), 1);
}

#[tokio::test]
async fn whether_somebody_can_be_asked_is_decided_each_time() {
    let stage = Stage::with(Behaviour::of_client_go());
    stage.plugin.prints(token("one"));
    let mode = |mode, unavailable: Option<&str>| {
        let unavailable = unavailable.map(str::to_owned);
        let config =
            ExecConfig { interactive_mode: mode, stdin_unavailable: unavailable, ..config() };
        stage.authenticators().get(&config, None).unwrap()
    };
    let always = mode(InteractiveMode::Always, None);
    let refused = always.credential().await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "exec plugin cannot support interactive mode: standard input is not a terminal"
    );
    assert!(refused.advice().is_some());

    stage.terminal.appears();
    assert!(always.credential().await.is_ok());
    for (why, text) in [("", ""), ("it is read here", ": it is read here")] {
        let busy = mode(InteractiveMode::Always, Some(why)).credential().await.unwrap_err();
        assert_eq!(
            busy.to_string(),
            format!(
                "exec plugin cannot support interactive mode: standard input is unavailable{text}"
            )
        );
    }
    assert!(mode(InteractiveMode::IfAvailable, Some("")).credential().await.is_ok());
    assert!(stage.plugin.infos.lock().unwrap()[1].contains("\"interactive\":false"));
    for (word, text) in [("", r#""""#), ("Perhaps", r#""Perhaps""#)] {
        let unknown = mode(word.into(), None).credential().await.unwrap_err();
        assert_eq!(
            unknown.to_string(),
            format!("exec plugin cannot support interactive mode: unknown interactiveMode: {text}")
        );
    }
    assert_eq!(stage.plugin.runs(), 2);
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let stage = Stage::new();
    let authenticator = stage.authenticator();
    let future = std::pin::pin!(authenticator.credential());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());

    let std::task::Poll::Ready(Err(error)) = future.poll(&mut context) else {
        panic!("it should know at once");
    };

    assert_eq!(error.to_string(), "the plugin cannot be run outside of a tokio runtime");
}
