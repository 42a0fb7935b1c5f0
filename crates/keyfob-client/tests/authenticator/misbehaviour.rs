//! Real processes that do what they should not.

use std::time::Duration;

use keyfob_api::{ExecAnswerError, ExecCluster};
use keyfob_client::{AuthError, Authenticators, Behaviour, ExecConfig};
use keyfob_exec::{ProcessRunner, Status};
use keyfob_testkit::{LeakCheck, LogCapture, MapEnvironment};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use crate::support::{Script, Stage, config};

/// What becomes of a script.
async fn run(stage: &Stage, script: &str) -> Result<String, AuthError> {
    let script = Script::new(script);
    let authenticator = stage.real(&script.config());
    let credential = authenticator.credential().await?;
    Ok(credential.token().map(|token| token.expose().clone()).unwrap_or_default())
}

async fn fails(script: &str) -> AuthError {
    run(&Stage::new(), script).await.unwrap_err()
}

#[tokio::test]
async fn one_that_hangs_is_killed_with_all_it_has_started() {
    let mut behaviour = Behaviour::default();
    behaviour.deadline = Some(Duration::from_millis(300));
    let stage = Stage::with(behaviour);

    let error = run(&stage, "echo waiting for a browser >&2\nsleep 1000 & sleep 1000").await;

    let error = error.unwrap_err();
    assert!(matches!(error, AuthError::TimedOut { .. }), "{error}");
    assert!(error.to_string().ends_with("gave no answer within 0.3 s and was killed"), "{error}");
    assert_eq!(error.stderr().unwrap().text(), "waiting for a browser");
    let full = error.in_full().to_string();
    assert!(full.contains("interactiveMode") && full.ends_with("waiting for a browser"), "{full}");
}

#[tokio::test]
async fn one_that_floods_is_killed() {
    let error = fails("while :; do echo 0123456789012345678901234567890123456789; done").await;

    assert!(matches!(error, AuthError::TooMuchOutput { limit: 8_388_608, .. }), "{error}");
}

#[tokio::test]
async fn an_answer_may_be_yaml_and_its_stdout_held_by_somebody_else() {
    let script = "printf 'apiVersion: client.authentication.k8s.io/v1\\nstatus: {token: abc}\\n'\nsleep 1000 &";

    assert_eq!(run(&Stage::new(), script).await.unwrap(), "abc");
}

#[tokio::test]
async fn what_is_no_answer_is_said() {
    let head = r#""apiVersion":"client.authentication.k8s.io/v1""#;
    for (script, want) in [
        (
            "true".to_owned(),
            "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned version client.authentication.k8s.io/__internal",
        ),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"hunter2"}}'"#
                .to_owned(),
            "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin returned version client.authentication.k8s.io/v1beta1",
        ),
        (format!("echo '{{{head}}}'"), "exec plugin didn't return a status field"),
        (
            format!(r#"echo '{{{head},"status":{{"clientKeyData":"hunter2"}}}}'"#),
            "exec plugin returned only certificate or key, not both",
        ),
        (
            format!(r#"echo '{{{head},"status":{{"clientKeyData":"hunter2","clientCertificateData":"c"}}}}'"#),
            "failed parsing client key/certificate: tls: failed to find any PEM data in certificate input",
        ),
    ] {
        let error = fails(&script).await;
        assert_eq!(error.to_string(), want);
        LeakCheck::new(["hunter2"]).error(&error);
    }
    let error = fails("head -c 3000 /dev/zero; echo it broke >&2").await;
    assert!(matches!(error, AuthError::Answer { error: ExecAnswerError::Decoding(_), .. }));
    assert_eq!(error.stderr().unwrap().text(), "it broke");
}

#[tokio::test]
async fn a_certificate_that_has_ended_is_left_to_the_server() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(2015, 1, 15);
    params.not_after = date_time_ymd(2016, 1, 15);
    let certificate = params.self_signed(&key).unwrap().pem();
    let status = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": { "clientCertificateData": certificate, "clientKeyData": key.serialize_pem() },
    });
    let script = Script::new(&format!("cat <<'END'\n{status}\nEND"));
    let credential = Stage::new().real(&script.config()).credential().await.unwrap();

    assert_eq!(credential.identity().unwrap().not_after().to_string(), "2016-01-15T00:00:00Z");
    assert!(credential.authorization().unwrap().is_none());
}

#[tokio::test]
async fn what_it_said_is_kept_and_shown_without_the_secrets_it_was_given() {
    let (logs, stage) = (LogCapture::start(), Stage::new());
    let script = Script::new(
        "echo \"asked as $WHO with $1 $3 $API_TOKEN\" >&2\necho '{\"status\":\"printed-secret\"}'\necho printed-secret >&2\nexit 7",
    );
    let secrets = ["first-secret", "second-secret", "third-secret", "printed-secret"];
    let config = ExecConfig {
        args: ["--client-secret=first-secret", "--password", "second-secret"]
            .map(str::to_owned)
            .into(),
        env: vec![
            ("WHO".into(), "ada@example".into()),
            ("API_TOKEN".into(), "third-secret".into()),
        ],
        ..script.config()
    };
    let authenticator = stage.real(&config);

    let error = authenticator.credential().await.unwrap_err();

    let AuthError::Failed { status: Status::Exited(7), .. } = &error else { panic!("{error}") };
    assert_eq!(
        error.to_string(),
        format!("exec: executable {} failed with exit code 7", script.path())
    );
    assert_eq!(
        error.stderr().unwrap().text(),
        "asked as ada@example with --client-secret=[redacted] [redacted] [redacted]\n[redacted]"
    );
    let said = stage.said.lock().unwrap().join("\n");
    assert!(said.starts_with("asked as ada@example with --client-secret=[redacted]"), "{said}");
    LeakCheck::new(secrets)
        .error(&error)
        .text("the whole error", &error.in_full().to_string())
        .debug("an authenticator", &authenticator)
        .debug("its status", &authenticator.status())
        .text("the log", &logs.text());
}

#[tokio::test]
async fn a_signal_is_the_exit_code_minus_one() {
    let error = fails("kill -TERM $$").await;

    assert!(error.to_string().ends_with(" failed with exit code -1"), "{error}");
    assert!(matches!(error, AuthError::Failed { status: Status::Signaled(15), .. }));
}

#[tokio::test]
async fn a_cluster_that_is_too_large_for_linux_is_said_to_be() {
    let stage = Stage::new();
    let script = Script::new("exit 1");
    let config = ExecConfig { provide_cluster_info: true, ..script.config() };
    let cluster = ExecCluster { certificate_authority_data: vec![b'x'; 100_000], ..<_>::default() };
    let runner = std::sync::Arc::new(ProcessRunner::new(MapEnvironment::default()));
    let authenticators = Authenticators::new(stage.world(runner), stage.behaviour.clone());

    let error =
        authenticators.get(&config, Some(&cluster)).unwrap().credential().await.unwrap_err();

    assert_eq!(
        error.to_string(),
        format!("exec: fork/exec {}: argument list too long", script.path())
    );
    assert!(error.advice().unwrap().contains("provideClusterInfo"));
}

#[tokio::test]
async fn what_cannot_be_started_is_said_in_gos_words() {
    let script = Script::new("exit 1");
    let folder = script.folder().to_owned();
    std::fs::write(folder.join("text"), "no program").unwrap();
    std::fs::write(folder.join("odd"), "#!/no/such/shell\n").unwrap();
    script.make_executable("odd");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for (command, reason) in [
        (at("missing"), "no such file or directory"),
        (at("text"), "permission denied"),
        (at("text/below"), "not a directory"),
        (at("odd"), "no such file or directory"),
        (at("."), "permission denied"),
    ] {
        let config = ExecConfig { command: command.clone(), ..config() };
        let error = Stage::new().real(&config).credential().await.unwrap_err();
        let path = keyfob_exec::go::clean(&command);
        assert_eq!(error.to_string(), format!("exec: fork/exec {path}: {reason}"));
        assert!(matches!(error, AuthError::NotStarted { .. }));
    }
}

#[tokio::test]
async fn a_name_that_is_nowhere_gets_help_ten_times_an_hour() {
    let stage = Stage::new();
    let hint = "install it\nwith care".to_owned();
    let config =
        ExecConfig { command: "no-such-plugin-here".into(), install_hint: hint, ..config() };
    let authenticator = stage.real(&config);
    for attempt in 0..12 {
        let error = authenticator.credential().await.unwrap_err().to_string();
        let first = "exec: executable no-such-plugin-here not found";
        match attempt {
            0..10 => assert!(
                error.starts_with(&format!("{first}\n\nIt looks like"))
                    && error.ends_with("\n\ninstall it\nwith care"),
                "{error}"
            ),
            _ => assert_eq!(error, first),
        }
    }
    stage.clock.advance(Duration::from_hours(1));
    let error = authenticator.credential().await.unwrap_err().to_string();
    assert!(error.ends_with("with care"), "{error}");
}
