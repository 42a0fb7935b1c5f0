//! Rows about whether images are pulled, judged by an image manager.

mod world;

use std::{num::NonZeroUsize, time::Duration};

use keyfob_host::Backoff;
use keyfob_images::{
    EnsureError, Ensured, ImageOptions, Parallelism, PullPolicy, PullRate, Wanted,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::world::{Allowed, Built, PodsCredentials, World};
use crate::{Check, fact, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    (
        "kubelet/image_manager.json",
        "TestParallelPuller / TestSerializedPuller / TestImagePullPrecheck",
        sequence,
    ),
    (
        "kubelet/image_manager.json",
        "TestEnsureImageExistsWithServiceAccountCoordinates",
        service_account,
    ),
    (
        "kubelet/image_manager.json",
        "TestEnsureImageExistsWithNodeCredentialsOnly",
        node_credentials_only,
    ),
    ("kubelet/image_manager.json", "TestMaxParallelImagePullsLimit", limit),
    (
        "kubelet/image_manager.json",
        "TestPullAndListImageWithPodAnnotations / ...RuntimeHandler",
        spec,
    ),
    ("kubelet/image_names.json", "TestEvalCRIPullErr", runtime_error),
];

/// A kubelet's pod in the rows.
fn wanted(image: &str, policy: &str) -> Wanted {
    let policy = policy.parse().unwrap();
    Wanted { pod_uid: "bar".into(), ..Wanted::new(image, policy) }
}

fn options(row: &Value, parallelism: Parallelism) -> ImageOptions {
    let mut options = ImageOptions::default();
    options.parallelism = parallelism;
    options.backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
    options.rate = rate(row);
    options
}

#[expect(clippy::cast_possible_truncation, reason = "a kubelet's own type")]
fn rate(row: &Value) -> Option<PullRate> {
    let per_second = row["qps"].as_f64().unwrap_or_default() as f32;
    let burst = u32::try_from(row["burst"].as_u64().unwrap_or_default()).unwrap();
    (per_second != 0.0).then_some(PullRate { per_second, burst })
}

/// With the credentials that a row, or something like it, tells of.
fn ensure(stage: &Built, wanted: &Wanted, row: &Value) -> Result<Ensured, EnsureError> {
    let credentials = PodsCredentials::of(&wanted.image, row);
    block_on(stage.manager.ensure(wanted, &credentials))
}

fn sequence(_file: &Value, row: &Value) -> Result<(), String> {
    for parallelism in [Parallelism::Unlimited, Parallelism::Serial] {
        let mut world = World::new(options(row, parallelism));
        world.runtime.inspect_error = row["inspect_error"].as_str().map(str::to_owned);
        world.runtime.pull_error = row["pull_error"].as_str().map(str::to_owned);
        if row["ensure_secret_gate"] == true {
            world.allowed = Some(Allowed::of(&row["allowedCredentials"]));
        }
        let how = |how: String| format!("{parallelism:?}: {how}");
        run_sequence(world, row).map_err(how)?;
    }
    Ok(())
}

fn run_sequence(world: World, row: &Value) -> Result<(), String> {
    let wanted = wanted(text(row, "image"), text(row, "policy"));
    let stage = world.build();
    for (step, expected) in row["expected_sequence"].as_array().unwrap().iter().enumerate() {
        let what = |name: &str| format!("call {}: {name}", step + 1);
        stage.clock.advance(Duration::from_secs(1));
        let ended = ensure(&stage, &wanted, row);
        let (reason, message) = match &ended {
            Ok(_) => (Value::Null, String::new()),
            Err(error) => (json!(error.reason.as_str()), error.message.clone()),
        };
        fact(&what("err"), &reason, &expected["err"])?;
        fact(&what("calls"), &json!(stage.runtime.take_calls()), &expected["calls"])?;
        let events = stage.take_events();
        fact(&what("events"), &json!(events), &expected["events"])?;
        let started = events.contains(&"Pulling");
        fact(&what("started"), &json!(started), &expected["records_started"])?;
        let finished = started && events.contains(&"Pulled");
        fact(&what("finished"), &json!(finished), &expected["records_finished"])?;
        let part = text(expected, "msg_contains");
        let found = message.contains(part);
        fact(&what("message"), message.as_str(), if found { message.as_str() } else { part })?;
        if step == 0 {
            metric(&stage.metrics(), &row["expected_metric"])?;
        }
    }
    Ok(())
}

/// There is one series, which counted once.
fn metric(shown: &str, expected: &Value) -> Result<(), String> {
    let (name, labels) = (text(expected, "metric"), expected["labels"].as_object().unwrap());
    // A map has its keys in order, as upstream shows labels.
    let labels: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
    let expected = format!("{name}{{{}}} 1", labels.join(","));
    let series: Vec<&str> = shown.lines().filter(|line| line.starts_with(name)).collect();
    fact("metric", &series, &[expected.as_str()][..])
}

fn service_account(_file: &Value, row: &Value) -> Result<(), String> {
    let accounts = &row["expectedServiceAccounts"];
    let mut world = World::new(options(row, Parallelism::Serial));
    let must_pull = row["mustAttemptPullReturn"] == true;
    if row["enableEnsureSecretImages"] == true {
        world.allowed = Some(if must_pull { Allowed::Nobody } else { Allowed::WhoeverHas });
    }
    let account = accounts.get(0).map(|account| json!({ "ServiceAccount": account }));
    let credentials = json!({ "registryCredentials": account.map(|source| json!({
        "docker.io/library/present_image": [{
            "AuthConfig": { "Username": "user", "Password": "token" },
            "Source": source,
        }],
    })) });
    let wanted = wanted(text(row, "containerImage"), text(row, "policy"));
    let stage = world.build();
    let ended = ensure(&stage, &wanted, &credentials);
    ended.map_err(|error| error.to_string())?;
    let checked = stage.checks();
    let should_check = row["shouldCallMustAttemptPull"] == true;
    fact("checks", &checked.len(), &usize::from(should_check))?;
    if should_check {
        fact("service accounts", &checked[0]["accounts"], accounts)?;
    }
    let all = ["GetImageRef", "PullImage", "GetImageSize"];
    let made = if row["expectedImagePull"] == true { all.len() } else { 1 };
    fact("calls", &stage.runtime.take_calls(), &all[..made])
}

fn node_credentials_only(_file: &Value, row: &Value) -> Result<(), String> {
    let mut world = World::new(options(row, Parallelism::Serial));
    world.allowed = Some(Allowed::WhoeverHas);
    let credentials = json!({ "registryCredentials": { "docker.io/library/present_image": [{
        "AuthConfig": { "Username": "nodeuser", "Password": "nodepass" },
        "Source": null,
    }] } });
    let stage = world.build();
    let wanted = wanted("present_image", "IfNotPresent");
    let ended = ensure(&stage, &wanted, &credentials);
    ended.map_err(|error| error.to_string())?;
    let checked = stage.checks();
    fact("checked", &json!(checked.len() == 1), &row["expected_must_attempt_called"])?;
    fact("secrets", &checked[0]["secrets"], &row["expected_secrets"])?;
    fact("accounts", &checked[0]["accounts"], &row["expected_service_accounts"])?;
    fact("calls", &json!(stage.runtime.take_calls()), &row["expected_runtime_calls"])
}

/// The group's limit is five.
fn limit(_file: &Value, row: &Value) -> Result<(), String> {
    let parallelism = Parallelism::AtMost(NonZeroUsize::new(5).unwrap());
    let mut world = World::new(options(row, parallelism));
    world.runtime.block_pulls();
    let stage = world.build();
    let number = |step: &Value, field: &str| {
        usize::try_from(step[field].as_u64().unwrap_or_default()).unwrap()
    };
    block_on(async {
        let mut pulls = JoinSet::new();
        for step in row["steps"].as_array().unwrap() {
            for _ in 0..number(step, "start") {
                let stage = stage.clone();
                pulls.spawn(async move {
                    let wanted = wanted("present_image", PullPolicy::Always.as_str());
                    let credentials = PodsCredentials::of(&wanted.image, &json!({}));
                    stage.manager.ensure(&wanted, &credentials).await.map(drop)
                });
            }
            stage.runtime.unblock_pulls(number(step, "unblock"));
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let made = stage.runtime.pulls();
            fact("pulls", &made, &number(step, "expected_pull_calls"))?;
        }
        let ended: Result<(), _> = pulls.join_all().await.into_iter().collect();
        ended.map_err(|error| error.to_string())
    })
}

fn spec(_file: &Value, row: &Value) -> Result<(), String> {
    let stage = World::new(options(row, Parallelism::Serial)).build();
    let mut wanted = wanted(row["image"].as_str().unwrap_or("missing_image"), "IfNotPresent");
    let annotations = row["pod_annotations"].as_object().cloned().unwrap_or_default();
    wanted.annotations = annotations
        .into_iter()
        .map(|(name, value)| (name, value.as_str().unwrap().to_owned()))
        .collect();
    row["runtime_handler"].as_str().unwrap_or_default().clone_into(&mut wanted.runtime_handler);
    let ended = ensure(&stage, &wanted, &json!({}));
    ended.map_err(|error| error.to_string())?;
    let spec = stage.runtime.last_pulled();
    fact("image", &json!(spec.image), row.get("expected_image_id").unwrap_or(&json!(spec.image)))?;
    fact("runtime handler", &json!(spec.runtime_handler), &row["expected_runtime_handler"])?;
    let pair = |(name, value): &(String, String)| json!({ "Name": name, "Value": value });
    let annotations: Vec<Value> = spec.annotations.iter().map(pair).collect();
    let expected = row.get("expected_spec_annotations").cloned();
    fact("annotations", &json!(annotations), &expected.unwrap_or_else(|| json!([])))
}

fn runtime_error(_file: &Value, row: &Value) -> Result<(), String> {
    let mut world = World::new(options(row, Parallelism::Serial));
    world.runtime.pull_error = Some(text(row, "input_error").to_owned());
    let stage = world.build();
    let wanted = wanted(text(row, "image"), "Always");
    let ended = ensure(&stage, &wanted, &json!({}));
    let error = ended.err().ok_or("it was pulled")?;
    fact("error", error.reason.as_str(), text(row, "expected_error"))?;
    let expected = text(row, "expected_message");
    match expected.strip_prefix("contains: ") {
        Some(part) if error.message.contains(part) => Ok(()),
        _ => fact("message", error.message.as_str(), expected),
    }
}
