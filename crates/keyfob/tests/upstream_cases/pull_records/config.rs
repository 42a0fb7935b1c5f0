//! Policies, a kubelet's configuration of them, and locks.

use keyfob_api::FeatureGates;
use keyfob_images::{Allowlist, LockStripes, VerificationPolicy, VerificationSettings};
use serde_json::{Value, json};

use super::names;
use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/pull_policies.json", "TestNeverVerifyPreloadedPullPolicy", preloaded),
    ("kubelet/pull_policies.json", "TestNewNeverVerifyAllowListedPullPolicy", allowlist),
    (
        "kubelet/kubelet_config_validation.json",
        "TestValidateKubeletConfiguration (relevant rows)",
        kubelet_config,
    ),
    ("kubelet/locks.json", "TestStripedLockSetNormalizesSize", stripes),
    ("kubelet/locks.json", "TestStripedLockSetLargeRequestedSizeDoesNotPanic", many_stripes),
];

fn preloaded(_: &Value, row: &Value) -> Result<(), String> {
    let policy = VerificationPolicy::NeverVerifyPreloadedImages;
    let verified = policy.requires_verification("any", row["imageRecordsExist"] == true);
    fact("verification", &Value::from(verified), &row["want"])
}

fn allowlist(_: &Value, row: &Value) -> Result<(), String> {
    let patterns: Vec<&str> =
        row["allowlist"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let list = Allowlist::parse(patterns);
    fact("error", &list.is_err(), &(row["wantErr"] == true))?;
    let Ok(list) = list else { return Ok(()) };
    let count = |field: &str| row[field].as_u64().unwrap_or_default();
    fact("names", &list.names().count(), &usize::try_from(count("expectedAbsolutes")).unwrap())?;
    fact(
        "prefixes",
        &list.prefixes().count(),
        &usize::try_from(count("expectedWildcards")).unwrap(),
    )?;
    let policy = VerificationPolicy::NeverVerifyAllowlistedImages(list);
    let was_pulled = row["imageRecordsExist"] == true;
    let verified = policy.requires_verification(text(row, "inputImage"), was_pulled);
    fact("verification", &Value::from(verified), &row["want"])
}

/// From the text of a whole configuration.
fn kubelet_config(_: &Value, row: &Value) -> Result<(), String> {
    const POLICY: &str = "imagePullCredentialsVerificationPolicy";
    const ALLOWLIST: &str = "preloadedImagesVerificationAllowlist";
    let mut config =
        json!({"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"});
    if let Some(policy) = row.get(POLICY) {
        config[POLICY] = policy.clone();
    }
    if row.get(ALLOWLIST).is_some() {
        config[ALLOWLIST] = json!(names(&row[ALLOWLIST]));
    }
    let settings = VerificationSettings::read(config.to_string().as_bytes());
    let mut gates = FeatureGates::default();
    gates.ensure_secret_pulled_images = row["gate"] == true;
    let errors = settings.map_err(|error| error.to_string())?.policy(gates).err();
    let errors: Vec<String> = errors.iter().flatten().map(ToString::to_string).collect();
    let expected = text(row, "expected_error_contains");
    let is_there = errors.iter().any(|error| error.contains(expected));
    if is_there { Ok(()) } else { Err(format!("ours {errors:?}, upstream {expected:?}")) }
}

fn stripes(_: &Value, row: &Value) -> Result<(), String> {
    let wanted = i32::try_from(row["size"].as_i64().unwrap()).unwrap();
    fact("locks", &json!(LockStripes::new(wanted).count()), &row["want"])
}

/// Every name has a lock, whatever its hash.
fn many_stripes(_: &Value, row: &Value) -> Result<(), String> {
    fact("what happens", text(row, "expected"), "no panic")?;
    let stripes = LockStripes::new(500);
    for number in 0..1000 {
        drop(stripes.lock(&format!("image-ref-{number}")));
    }
    Ok(())
}
