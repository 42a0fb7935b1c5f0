//! A plugin of the first KEP's dialect, end to end: its command line, its request, its answer and how long that is kept.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use keyfob_api::FeatureGates;
use keyfob_config::Config;
use keyfob_host::{Host, ProviderOutcome, Pull};
use keyfob_testkit::ManualClock;

/// Notes how it was called, and answers with a login that is good for ten minutes of the manual clock.
const PLUGIN: &str = r#"#!/bin/sh
{ echo "$REGION: $*"; cat; } >> "$0.called"
echo '{"expirationTimestamp":"2030-03-17T17:56:40Z","username":"AWS","password":"hunter2"}'
"#;

fn host(plugins: &Path, clock: &ManualClock) -> Host {
    let path = plugins.join("ecr-creds");
    fs::write(&path, PLUGIN).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../keyfob-config/tests/fixtures/first-kep.yaml");
    let config = Config::read(&example).unwrap().validate(FeatureGates::default()).unwrap();
    Host::builder(config, plugins).clock(Arc::new(clock.clone())).build().unwrap()
}

#[tokio::test]
async fn a_plugin_of_the_first_dialect_is_asked_and_kept_until_it_says() {
    let (plugins, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let host = host(plugins.path(), &clock);
    let image = "012345678910.dkr.ecr.us-east-1.amazonaws.com/my-image";
    let pull = Pull::parse(image).unwrap();

    let answer = host.credentials(&pull).await;

    assert_eq!(answer.errors().count(), 0, "{:?}", answer.reports);
    assert_eq!(answer.credentials[0].username(), "AWS");
    let key = answer.credentials[0].key().to_string();
    assert_eq!(key, "012345678910.dkr.ecr.us-east-1.amazonaws.com");
    let called = fs::read_to_string(plugins.path().join("ecr-creds.called")).unwrap();
    assert_eq!(called, format!("us-west-2: get-credentials\n{{\"image\":\"{image}\"}}\n"));

    clock.advance(Duration::from_mins(10));
    let outcome = &host.credentials(&pull).await.reports[0].outcome;
    assert!(matches!(outcome, ProviderOutcome::Cached { .. }), "{outcome:?}");
    clock.advance(Duration::from_nanos(1));
    let outcome = &host.credentials(&pull).await.reports[0].outcome;
    assert!(matches!(outcome, ProviderOutcome::Ran { .. }), "{outcome:?}");
}

#[tokio::test]
async fn an_answer_is_kept_for_its_own_image_only() {
    let (plugins, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
    let host = host(plugins.path(), &clock);

    for image in ["1.dkr.ecr.x.amazonaws.com/a", "1.dkr.ecr.x.amazonaws.com/b"] {
        host.credentials(&Pull::parse(image).unwrap()).await;
    }

    let mut kept: Vec<_> =
        host.cached().iter().map(|cached| cached.key.base().to_owned()).collect();
    kept.sort();
    assert_eq!(kept, ["1.dkr.ecr.x.amazonaws.com/a", "1.dkr.ecr.x.amazonaws.com/b"]);
}
