//! How records grow.

use std::time::SystemTime;

use keyfob_api::Timestamp;
use keyfob_images::{PullAccess, PulledRecord};
use serde_json::Value;

use super::{access, changed, group, list, record, service_account, without_time};
use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/pull_manager.json", MERGE, merge),
    ("kubelet/pull_manager.json", "Test_mergePullServiceAccounts", merge_accounts),
];

const MERGE: &str = "Test_pulledRecordMergeNewCreds";

fn merge(file: &Value, row: &Value) -> Result<(), String> {
    let base = &group(file, MERGE)["base_record"];
    fact("what is merged into", &row["current"], &Value::from("testRecord"))?;
    let now = Timestamp::from(SystemTime::UNIX_EPOCH);
    let merged =
        record(base).merged(text(row, "image"), access(&row["credsForMerging"]).as_ref(), now);
    let is_updated = merged.as_ref().is_some_and(|record| record.last_updated_time == Some(now));
    fact("updated", &Value::from(is_updated), &row["wantUpdate"])?;
    let merged = merged.unwrap_or_else(|| record(base));
    fact("record", &without_time(&merged), &changed(base, &row["expectedRecord"]))
}

fn merge_accounts(_: &Value, row: &Value) -> Result<(), String> {
    let accounts = |field: &str| PullAccess {
        service_accounts: list(&row[field]).iter().map(service_account).collect(),
        ..PullAccess::default()
    };
    let now = Timestamp::from(SystemTime::UNIX_EPOCH);
    let old = PulledRecord::new("id", "app", Some(&accounts("orig")), now);
    let merged = old.merged("app", Some(&accounts("new")), now);
    fact("changed", &Value::from(merged.is_some()), &row["changed"])?;
    let merged = merged.unwrap_or(old);
    fact("accounts", &merged.credential_mapping["app"], &accounts("expected"))
}
