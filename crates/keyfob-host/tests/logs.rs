//! What reaches the log. One test, because whether a line is logged at all is decided for the whole process.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use keyfob_api::FeatureGates;
use keyfob_config::{Config, ProviderConfig, TokenAttributes};
use keyfob_exec::{Finished, Invocation, RunError, Status, StderrTail};
use keyfob_host::{Host, PodIdentity, PodReference, Pull};
use keyfob_testkit::{FakeRunner, LeakCheck, LogCapture, ManualClock};

/// One plugin fails, one panics, one answers with a thousand keys that are none.
fn says(invocation: &Invocation) -> Result<Finished, RunError> {
    let program = invocation.program().to_owned();
    let (stderr, elapsed) = (StderrTail::default(), Duration::ZERO);
    match program.file_name().and_then(|name| name.to_str()) {
        Some("fails") => {
            Err(RunError::Failed { program, status: Status::Exited(1), stderr, elapsed })
        }
        Some("many") => {
            let stdout = many_bad_keys().into_bytes().into();
            Ok(Finished { program, status: Status::Exited(0), stdout, stderr, elapsed })
        }
        _ => unreachable!("a defect"),
    }
}

fn many_bad_keys() -> String {
    let login = serde_json::json!({"username": "u", "password": "hunter2"});
    let auth = (0..1_000).map(|n| (format!("hunter2 {n}"), login.clone()));
    serde_json::json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Image",
        "auth": auth.collect::<serde_json::Map<_, _>>(),
    })
    .to_string()
}

#[tokio::test]
async fn every_failure_is_one_line_of_the_log_and_no_secret_is_in_any() {
    let logs = LogCapture::start();
    let plugins = tempfile::tempdir().unwrap();
    let mut providers = ["fails", "panics", "many"].map(|name| {
        fs::write(plugins.path().join(name), "").unwrap();
        fs::set_permissions(plugins.path().join(name), Permissions::from_mode(0o755)).unwrap();
        provider(name)
    });
    let config = Config::new(providers.clone()).validate(FeatureGates::default()).unwrap();
    let host = Host::builder(config, plugins.path());
    let host = host.runner(FakeRunner::new(says)).build().unwrap();
    let pull = Pull::parse("r.io/app").unwrap();

    let answers = tokio::join!(host.credentials(&pull), host.credentials(&pull));

    assert_eq!((answers.0.errors().count(), answers.1.errors().count()), (2, 2));
    let text = logs.text();
    let lines = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("the plugin gave no credentials"), 2, "{text}");
    // As a kubelet logs them.
    let errors = text.lines().filter(|line| line.contains(" ERROR "));
    let failures = errors.filter(|line| line.contains(" keyfob_host::provider_failures: "));
    assert_eq!(failures.count(), 3, "{text}");
    assert_eq!(lines("exit code 1"), 1, "{text}");
    assert_eq!(lines("the run of the plugin was lost"), 1, "{text}");
    assert_eq!((lines("left out"), lines("more=999")), (1, 1), "{text}");
    LeakCheck::new(["hunter2"]).text("the log", &text);

    let attributes = TokenAttributes {
        service_account_token_audience: "registry".into(),
        cache_type: "Token".into(),
        require_service_account: Some(true),
        ..TokenAttributes::default()
    };
    for provider in &mut providers {
        provider.token_attributes = Some(attributes.clone());
    }
    let [first, ..] = providers;
    host.reload(Config::new([first]).validate(FeatureGates::default()).unwrap()).unwrap();
    let pod = PodIdentity {
        namespace: "team".into(),
        service_account: "puller".into(),
        pod: Some(PodReference { name: "web-1".into(), uid: "uid-of-web-1".into() }),
    };
    host.credentials(&pull).await;
    host.credentials(&pull.with_pod(pod)).await;

    let text = logs.text();
    let of = |level| text.lines().filter(move |line| line.contains(level));
    let skipped: Vec<_> = of("DEBUG").filter(|line| line.contains("not asked")).collect();
    assert!(matches!(*skipped, [line] if line.contains("this pull has none")), "{text}");
    let failed: Vec<_> = of("ERROR").filter(|line| line.contains("team/puller")).collect();
    let [failed] = *failed else { panic!("{text}") };
    assert!(failed.contains("standalone mode"), "{failed}");
    assert!(failed.contains("web-1") && failed.contains("uid-of-web-1"), "{failed}");

    check_failed_renewal(plugins.path()).await;
}

/// A renewal that fails is logged once, although the pull gets the answer that is still valid.
async fn check_failed_renewal(plugins: &Path) {
    let logs = LogCapture::start();
    let clock = ManualClock::default();
    let runs = AtomicUsize::new(0);
    let runner = FakeRunner::new(move |invocation| match runs.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let stdout = one_login().into_bytes().into();
            let (program, stderr) = (invocation.program().to_owned(), StderrTail::default());
            let (status, elapsed) = (Status::Exited(0), Duration::ZERO);
            Ok(Finished { program, status, stdout, stderr, elapsed })
        }
        _ => says(invocation),
    });
    let config = Config::new([provider("fails")]).validate(FeatureGates::default()).unwrap();
    let host = Host::builder(config, plugins).clock(Arc::new(clock.clone())).runner(runner);
    let host = host.build().unwrap();
    let pull = Pull::parse("r.io/app").unwrap().fresh_for(Duration::from_mins(1));
    assert_eq!(host.credentials(&pull).await.credentials.len(), 1);
    clock.advance(Duration::from_secs(50));

    let answer = host.credentials(&pull).await;

    assert_eq!((answer.credentials.len(), answer.errors().count()), (1, 0));
    let text = logs.text();
    assert_eq!(text.matches("the plugin gave no credentials").count(), 1, "{text}");
    let leaks = LeakCheck::new(["hunter2"]);
    leaks.text("the log", &text).debug("the host", &host).debug("the answer", &answer);
}

fn one_login() -> String {
    serde_json::json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": {"r.io": {"username": "u", "password": "hunter2"}},
    })
    .to_string()
}

/// A provider for `r.io` whose answers are kept for a minute.
fn provider(name: &str) -> ProviderConfig {
    ProviderConfig {
        name: name.into(),
        match_images: vec!["r.io".into()],
        default_cache_duration: keyfob_api::GoDuration::parse("1m").ok(),
        api_version: "credentialprovider.kubelet.k8s.io/v1".into(),
        ..ProviderConfig::default()
    }
}
