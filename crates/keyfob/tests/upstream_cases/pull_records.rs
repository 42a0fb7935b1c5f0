//! Rows about records of pulls.

mod config;
mod deciding;
mod files;
mod memory;
mod merging;
mod metrics;
mod pulls;

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

use keyfob_images::{
    Allowlist, PullAccess, PullRecords, PulledRecord, RecordsOptions, SecretAccess,
    VerificationPolicy,
};
use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};
use keyfob_testkit::ManualClock;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::{Check, case_folder, text};

pub(crate) const CHECKS: &[&[(&str, &str, Check)]] = &[
    config::CHECKS,
    deciding::CHECKS,
    files::CHECKS,
    memory::CHECKS,
    merging::CHECKS,
    metrics::CHECKS,
    pulls::CHECKS,
];

/// A kubelet's root directory with files of the rows.
struct Node {
    root: TempDir,
    clock: ManualClock,
}

impl Node {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), clock: ManualClock::default() }
    }

    /// Puts the files that a row names where a kubelet would have them.
    fn with(self, folder: &str, names: &Value) -> Self {
        for name in list(names) {
            let path = self.path(folder, name.as_str().unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, test_data(folder, name.as_str().unwrap())).unwrap();
        }
        self
    }

    fn path(&self, folder: &str, name: &str) -> PathBuf {
        self.root.path().join("image_manager").join(folder).join(name)
    }

    fn open(&self, policy: VerificationPolicy) -> PullRecords {
        let mut options = RecordsOptions::default();
        options.policy = policy;
        PullRecords::open(self.root.path(), options, Arc::new(self.clock.clone())).unwrap()
    }

    /// The names of the files in a folder.
    fn files(&self, folder: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.path(folder, "")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// A file of upstream's test data.
fn test_data(folder: &str, name: &str) -> String {
    let path = case_folder().unwrap().join("kubelet/pull_manager.json");
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    text(&file["notes"]["testdata"][folder], name).to_owned()
}

/// The group that a row is of: some have facts for all their rows.
fn group<'a>(file: &'a Value, test: &str) -> &'a Value {
    list(&file["groups"]).iter().find(|group| group["test"] == test).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn names(value: &Value) -> BTreeSet<String> {
    list(value).iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn policy(name: &str) -> VerificationPolicy {
    match name {
        "NeverVerify" => VerificationPolicy::NeverVerify,
        "NeverVerifyPreloadedImages" => VerificationPolicy::NeverVerifyPreloadedImages,
        "AlwaysVerify" => VerificationPolicy::AlwaysVerify,
        name => {
            let listed = name.strip_prefix("NeverVerifyAllowlistedImages");
            let list = Allowlist::parse(listed.unwrap().split_whitespace()).unwrap();
            VerificationPolicy::NeverVerifyAllowlistedImages(list)
        }
    }
}

/// A secret in Go's words.
fn secret(value: &Value) -> SecretAccess {
    let [uid, namespace, name] = coordinates(value);
    SecretAccess {
        secret: SecretCoordinates { uid, namespace, name },
        credential_hash: text(value, "CredentialHash").to_owned(),
    }
}

fn service_account(value: &Value) -> ServiceAccountCoordinates {
    let [uid, namespace, name] = coordinates(value);
    ServiceAccountCoordinates { uid, namespace, name }
}

fn coordinates(value: &Value) -> [String; 3] {
    ["UID", "Namespace", "Name"].map(|field| text(value, field).to_owned())
}

/// Nothing for null.
fn access(value: &Value) -> Option<PullAccess> {
    value.as_object()?;
    Some(PullAccess {
        secrets: list(&value["KubernetesSecrets"]).iter().map(secret).collect(),
        service_accounts: list(&value["KubernetesServiceAccounts"])
            .iter()
            .map(service_account)
            .collect(),
        node_pods_accessible: value["NodePodsAccessible"] == true,
    })
}

/// A record in Go's words; its time is not compared.
fn record(value: &Value) -> PulledRecord {
    let mapping = value["CredentialMapping"].as_object().into_iter().flatten();
    let mapping = mapping.map(|(name, value)| (name.clone(), access(value).unwrap()));
    PulledRecord {
        image_ref: text(value, "ImageRef").to_owned(),
        credential_mapping: mapping.collect(),
        ..PulledRecord::default()
    }
}

fn without_time(record: &PulledRecord) -> PulledRecord {
    PulledRecord { last_updated_time: None, ..record.clone() }
}

/// `{base, with}`: the base with other entries; or the base itself.
fn changed(base: &Value, change: &Value) -> PulledRecord {
    let mut value = base.clone();
    let with = change.get("with").and_then(Value::as_object).cloned();
    for (name, access) in with.unwrap_or_else(Map::new) {
        value["CredentialMapping"][name] = access;
    }
    assert!(change["base"] == json!("testRecord") || change == "testRecord", "{change}");
    record(&value)
}
