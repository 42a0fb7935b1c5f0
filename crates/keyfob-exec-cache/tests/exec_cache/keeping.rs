//! What is kept, how long, and what is not.

use keyfob_api::{ExecCredentialSpec, ExecCredentialStatus, ExecVersion};
use keyfob_testkit::{LeakCheck, LogCapture};

use super::{Ask, MINUTE, Stage};

#[tokio::test]
async fn an_answer_is_used_until_it_expires() {
    let stage = Stage::new();
    assert_eq!(stage.next().await, "hunter2-1");
    stage.clock.advance(54 * MINUTE);
    assert_eq!(stage.next().await, "hunter2-1");
    assert_eq!(stage.runs(), 1);
    stage.clock.advance(6 * MINUTE);
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!((stage.runs(), stage.told()), (2, vec![]));
}

#[tokio::test]
async fn a_warm_answer_needs_nobody_to_wait() {
    let stage = Stage::new();
    assert!(stage.cache().ready(&stage.question()).is_none());
    stage.next().await;
    let answer = stage.cache().ready(&stage.question()).unwrap();
    assert_eq!(super::token_of(&answer), "hunter2-1");
}

#[tokio::test]
async fn the_answer_is_what_the_plugin_answered_in_the_version_that_was_asked_for() {
    let mut stage = Stage::new();
    stage.plugin.version = ExecVersion::V1Beta1;
    stage.plugin.prints(
        "apiVersion: client.authentication.k8s.io/v1beta1\nkind: ExecCredential\nextra: ignored\n\
         status:\n  token: t\n  expirationTimestamp: 2040-01-01T02:00:00+02:00\n  \
         clientCertificateData: c\n  clientKeyData: k\n",
    );
    let spec = ExecCredentialSpec::default();
    let ask = Ask { info: Some((ExecVersion::V1Beta1, spec)), ..Ask::default() };
    let cache = stage.cache();
    let expected = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\
                    \"spec\":{\"interactive\":false},\"status\":{\"expirationTimestamp\":\"2040-01-01T00:00:00Z\",\
                    \"token\":\"t\",\"clientCertificateData\":\"c\",\"clientKeyData\":\"k\"}}\n";

    let first = cache.fetch(&ask.on(&stage)).await.unwrap();
    let second = cache.ready(&ask.on(&stage)).unwrap();

    assert_eq!(first.expose(), expected.as_bytes());
    assert_eq!(second.expose(), expected.as_bytes());
}

#[tokio::test]
async fn a_client_that_tells_nothing_gets_whatever_version_there_is() {
    let mut stage = Stage::new();
    stage.plugin.version = ExecVersion::V1Beta1;
    let ask = Ask { info: None, client: Some(7), ..Ask::default() };
    let cache = stage.cache();
    let version = |answer: keyfob_api::Secret<Vec<u8>>| {
        ExecCredentialStatus::decode(answer.expose(), ExecVersion::V1Beta1).unwrap()
    };

    let first = version(cache.fetch(&ask.on(&stage)).await.unwrap());
    // The same one again: it may be a person, and nobody is taken for refused.
    for _ in 0..3 {
        assert_eq!(version(cache.ready(&ask.on(&stage)).unwrap()), first);
    }
}

#[tokio::test]
async fn an_answer_without_an_expiry_is_handed_on_and_kept_only_for_a_given_time() {
    let stage = Stage::new();
    stage.says(None);
    for run in 1..=3 {
        assert_eq!(stage.next().await, format!("hunter2-{run}"));
    }
    assert_eq!(stage.files("json"), [] as [std::path::PathBuf; 0]);
    assert_eq!(
        stage.told(),
        [
            "keyfob: the answer of plugin does not say when it expires, so it is not kept; --max-age keeps it"
        ],
        "once"
    );

    let stage = stage.with(|options| options.max_age = Some(10 * MINUTE));
    assert_eq!(stage.next().await, "hunter2-4");
    stage.clock.advance(7 * MINUTE);
    assert_eq!(stage.next().await, "hunter2-4");
    let other = stage.with(|options| options.max_age = None);
    assert_eq!(other.next().await, "hunter2-5", "who gives no time does not use it");
}

#[tokio::test]
async fn the_given_time_also_ends_what_lives_longer() {
    let stage = Stage::new().with(|options| options.max_age = Some(10 * MINUTE));
    assert_eq!(stage.next().await, "hunter2-1");
    stage.clock.advance(10 * MINUTE);
    assert_eq!(stage.next().await, "hunter2-2");
}

#[tokio::test]
async fn what_has_expired_when_it_comes_is_handed_on_and_not_kept() {
    let stage = Stage::new();
    stage.plugin.prints(
        r#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2-old","expirationTimestamp":"2020-01-01T00:00:00Z"}}"#,
    );
    assert_eq!(stage.next().await, "hunter2-old");
    assert_eq!(stage.next().await, "hunter2-old");
    assert_eq!((stage.runs(), stage.files("json").len(), stage.told()), (2, 0, vec![]));
}

#[tokio::test]
async fn what_is_no_credential_is_an_error_in_the_words_of_upstream_and_is_not_kept() {
    let stage = Stage::new();
    let head = r#""apiVersion":"client.authentication.k8s.io/v1""#;
    let rows = [
        (
            format!(r#"{{{head},"status":{{"token":"hunter2","clientKeyData":"hunter2"}}}}"#),
            "exec plugin returned only certificate or key, not both",
        ),
        (
            format!(r#"{{{head},"status":{{}}}}"#),
            "exec plugin didn't return a token or cert/key pair",
        ),
        (format!("{{{head}}}"), "exec plugin didn't return a status field"),
        (
            r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"hunter2"}}"#
                .to_owned(),
            "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned version \
             client.authentication.k8s.io/v1beta1",
        ),
    ];
    for (stdout, expected) in rows {
        stage.plugin.prints(&stdout);
        assert_eq!(stage.failure().await, expected);
    }
    stage.plugin.prints("hunter2: [");
    assert!(stage.failure().await.starts_with("decoding stdout: "));
    assert_eq!(stage.files("json").len(), 0);

    stage.says(Some(MINUTE));
    assert_eq!(stage.next().await, "hunter2-6", "the next one runs it again");
}

#[tokio::test]
async fn a_plugin_that_fails_is_an_error_and_the_next_who_comes_tries_again() {
    let stage = Stage::new();
    stage.fails();
    let program = stage.path("bin/plugin").display().to_string();
    assert_eq!(stage.failure().await, format!("{program} failed: exit code 3"));
    assert_eq!(stage.failure().await, format!("{program} failed: exit code 3"));
    assert_eq!(stage.runs(), 2);
}

#[tokio::test]
async fn no_secret_is_shown() {
    let logs = LogCapture::start();
    let stage = Stage::new();
    let ask = Ask {
        args: vec!["--client-secret=hunter2-argument"],
        vars: vec![("AWS_SECRET_ACCESS_KEY", "hunter2-variable")],
        client: Some(7),
        inherited: Some(vec![("OTHER", "hunter2-inherited")]),
        ..Ask::default()
    };
    let (cache, question) = (stage.cache(), ask.on(&stage));
    cache.fetch(&question).await.unwrap();
    stage.fails();
    let error = cache.fetch(&question).await.unwrap_err();
    let explained = cache.explain(&question);

    let leaks = LeakCheck::new(["hunter2"]);
    leaks.error(&error).debug("a question", &question).debug("a cache", &cache);
    leaks.debug("an explanation", &explained).debug("its parts", &question.parts());
    leaks.text("the logs", &logs.text()).text("what people see", &stage.told().concat());
    leaks.text("a lock", &std::fs::read_to_string(stage.the_file("lock")).unwrap());
}
