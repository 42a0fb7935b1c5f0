//! After failures.

use std::time::Duration;

use keyfob_client::{AuthError, Behaviour, ExecConfig, InteractiveMode};

use crate::support::{Does, Stage, config, token};

#[tokio::test]
async fn after_a_failure_the_plugin_is_left_alone_for_a_while() {
    let stage = Stage::new();
    stage.plugin.does([Does::Exit(1), Does::Exit(2), Does::Print(token("one"))]);
    let authenticator = stage.authenticator();
    let first = authenticator.credential().await.unwrap_err();
    assert_eq!(first.to_string(), "exec: executable /opt/plugin failed with exit code 1");

    for _ in 0..10 {
        let error = authenticator.credential().await.unwrap_err();
        let AuthError::Waiting { last, until } = &error else { panic!("{error}") };
        assert_eq!(last.to_string(), first.to_string());
        assert_eq!(authenticator.status().next_attempt, Some(*until));
        assert!(error.to_string().starts_with(&first.to_string()), "{error}");
    }
    assert_eq!(stage.plugin.runs(), 1);

    stage.clock.advance(Duration::from_secs(1));
    assert!(authenticator.credential().await.unwrap_err().to_string().ends_with("exit code 2"));
    stage.clock.advance(Duration::from_secs(1));
    assert!(authenticator.credential().await.unwrap_err().retry_at().is_some());
    stage.clock.advance(Duration::from_secs(1));
    assert_eq!(authenticator.credential().await.unwrap().generation(), 1);
    assert_eq!(stage.plugin.runs(), 3);
    assert!(authenticator.status().last_failure.is_none());
}

#[tokio::test]
async fn as_client_go_each_request_runs_it_again() {
    let stage = Stage::with(Behaviour::of_client_go());
    stage.plugin.does([Does::Exit(1)]);
    let authenticator = stage.authenticator();

    for runs in 1..=5 {
        authenticator.credential().await.unwrap_err();
        assert_eq!(stage.plugin.runs(), runs);
    }
}

#[tokio::test]
async fn a_good_credential_is_used_whatever_failed() {
    let stage = Stage::new();
    stage.plugin.does([Does::Print(token("one")), Does::Exit(1)]);
    let authenticator = stage.authenticator();
    authenticator.credential().await.unwrap();
    authenticator.refused(1).await.unwrap_err();

    assert!(matches!(authenticator.refused(1).await, Err(AuthError::Waiting { .. })));
    assert_eq!(authenticator.credential().await.unwrap().generation(), 1);
    assert_eq!(stage.plugin.runs(), 2);
}

#[tokio::test]
async fn a_person_who_does_not_answer_is_asked_three_times() {
    let stage = Stage::new();
    stage.terminal.appears();
    stage.plugin.does([Does::Exit(1)]);
    let config = ExecConfig { interactive_mode: InteractiveMode::Always, ..config() };
    let authenticator = stage.authenticators().get(&config, None).unwrap();
    for _ in 0..100 {
        drop(authenticator.credential().await);
        stage.clock.advance(Duration::from_secs(30));
    }
    assert_eq!(stage.plugin.runs(), 3);
    let error = authenticator.credential().await.unwrap_err();
    assert!(matches!(error, AuthError::Unanswered { attempts: 3, .. }), "{error}");
    assert!(error.to_string().contains("(asked 3 times; nobody is asked again before "), "{error}");

    stage.plugin.prints(token("one"));
    stage.clock.advance(Duration::from_hours(1));
    assert!(authenticator.credential().await.is_ok());
}
