//! What opening a directory does to its files.

use std::fs;

use keyfob_images::{PullRecords, RecordsOptions};
use keyfob_testkit::ManualClock;
use serde_json::Value;

use super::{Node, list, names, test_data};
use crate::{Check, fact};

pub(crate) const CHECKS: &[(&str, &str, Check)] =
    &[("kubelet/pull_records_fs.json", "TestNewFSPullRecordsAccessor", open)];

fn open(_: &Value, row: &Value) -> Result<(), String> {
    let node =
        Node::new().with("pulling", &row["intent_files"]).with("pulled", &row["pulled_files"]);
    if row["root_exists"] == false {
        fs::remove_dir_all(node.root.path()).unwrap();
    }
    let clock = std::sync::Arc::new(ManualClock::default());
    let opened = PullRecords::open(node.root.path(), RecordsOptions::default(), clock);
    fact("error", &Value::from(opened.is_err()), &row["expected_error"])?;
    for folder in names(&row["expected_dirs"]) {
        fact("directory", &node.root.path().join(&folder).is_dir(), &true)?;
    }
    for (folder, files, is_migrated) in [
        ("pulling", &row["intent_files"], &row["migrates_intents_alpha_to_beta"]),
        ("pulled", &row["pulled_files"], &row["migrates_pulled_alpha_to_beta"]),
    ] {
        fact("files", &node.files(folder), &names(files))?;
        let mut rewritten = false;
        for name in list(files).iter().filter_map(Value::as_str) {
            let old = test_data(folder, name);
            let expected = old.replace("v1alpha1", "v1beta1");
            let found = fs::read_to_string(node.path(folder, name)).unwrap();
            fact(name, found.as_str(), expected.as_str())?;
            rewritten |= found != old;
        }
        fact("migrated", &Value::from(rewritten), is_migrated)?;
    }
    Ok(())
}
