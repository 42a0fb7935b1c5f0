//! The life of a pull, what is left of one that was killed, and what is forgotten.

use std::collections::BTreeSet;

use keyfob_api::Timestamp;
use keyfob_images::{LocalImage, PullRecords, VerificationPolicy};
use serde_json::Value;

use super::{Node, access, group, list, names, record, without_time};
use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/pull_manager.json", "TestFileBasedImagePullManager_RecordPullIntent", intent),
    ("kubelet/pull_manager.json", "TestFileBasedImagePullManager_RecordImagePulled", pulled),
    ("kubelet/pull_manager.json", INITIALIZE, initialize),
    ("kubelet/pull_manager.json", "TestFileBasedImagePullManager_PruneUnknownRecords", prune),
];

const INITIALIZE: &str = "TestFileBasedImagePullManager_initialize";

fn intent(_: &Value, row: &Value) -> Result<(), String> {
    let (node, image, file) = (Node::new(), text(row, "inputImage"), text(row, "wantFile"));
    let records = node.open(VerificationPolicy::default());
    for _ in 0..=row["startCounter"].as_u64().unwrap_or_default() {
        records.record_intent(image).map_err(|error| error.to_string())?;
    }
    fact("files", &node.files("pulling"), &BTreeSet::from([file.to_owned()]))?;
    // So many pulls are in flight: when the last has ended, and not before, the file goes.
    for ended in 1..=row["wantCounter"].as_u64().unwrap() {
        fact("intent", &node.path("pulling", file).exists(), &true)?;
        records.record_failed(image);
        let is_last = row["wantCounter"] == ended;
        fact("intent", &node.path("pulling", file).exists(), &!is_last)?;
    }
    Ok(())
}

fn pulled(_: &Value, row: &Value) -> Result<(), String> {
    let node =
        Node::new().with("pulled", &row["existingPulled"]).with("pulling", &row["existingPulling"]);
    let (image, image_ref) = (text(row, "image"), text(row, "imageRef"));
    let records = node.open(VerificationPolicy::default());
    // The row's intents are of pulls in flight, which here needs them to be ours.
    records.recover(records.abandoned(), &[]);
    for _ in 0..row["pullsInFlight"].as_u64().unwrap() {
        records.record_intent(image).map_err(|error| error.to_string())?;
    }

    records.record_pulled(image, image_ref, access(&row["creds"]).as_ref()).unwrap_or_default();

    fact("records", &node.files("pulled"), &names(&row["expectPulled"]))?;
    match row.get("expectPullingRemoved").and_then(Value::as_str) {
        Some(gone) => fact("intent", &node.files("pulling").contains(gone), &false)?,
        None => fact("intents", &node.files("pulling"), &names(&row["existingPulling"]))?,
    }
    let found = the_record(&records, image_ref)?;
    fact("record", &without_time(&found), &record(&row["expectedPullRecord"]))?;
    let now = Timestamp::from(keyfob_exec::Clock::now(&node.clock));
    let is_updated = found.last_updated_time == Some(now);
    fact("updated", &Value::from(is_updated), &row["expectUpdated"])
}

fn the_record(
    records: &PullRecords,
    image_ref: &str,
) -> Result<keyfob_images::PulledRecord, String> {
    let (found, _) = records.records();
    let found = found.into_iter().find(|record| record.image_ref == image_ref);
    found.map(|record| (*record).clone()).ok_or_else(|| "no record".to_owned())
}

fn initialize(file: &Value, row: &Value) -> Result<(), String> {
    let node = Node::new()
        .with("pulled", &row["existingPulledRecords"])
        .with("pulling", &row["existingIntents"]);
    let texts = |value: &Value| names(value).into_iter().collect();
    let images: Vec<LocalImage> = list(&group(file, INITIALIZE)["image_service"])
        .iter()
        .map(|image| LocalImage {
            id: text(image, "ID").to_owned(),
            repo_tags: texts(&image["RepoTags"]),
            repo_digests: texts(&image["RepoDigests"]),
        })
        .collect();
    let records = node.open(VerificationPolicy::default());

    records.recover(records.abandoned(), &images);

    fact("intents", &node.files("pulling"), &names(&row["expectedIntents"]))?;
    fact("records", &node.files("pulled"), &names(&row["expectedPulled"]))
}

fn prune(_: &Value, row: &Value) -> Result<(), String> {
    let node = Node::new().with("pulled", &row["pulledFiles"]);
    let records = node.open(VerificationPolicy::default());
    let present: Vec<String> = names(&row["imageList"]).into_iter().collect();
    let started = Timestamp::parse(text(row, "gcStartTime")).unwrap().to_system_time().unwrap();

    records.prune(&present, started);

    fact("records", &node.files("pulled"), &names(&row["wantFiles"]))
}
