//! What is counted.

use std::sync::Arc;

use keyfob_images::{MemorySizes, PodCredentials, PullAccess, PullRecords, RecordsOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{Node, deciding::decide, policy, secret};
use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/pull_metrics.json", "TestFSPullRecordsMetrics", sizes),
    ("kubelet/pull_metrics.json", "TestMustAttemptPullMetrics", checks),
];

/// The steps are told in words; between some of them upstream's test does more, which is done here too.
fn sizes(_: &Value, row: &Value) -> Result<(), String> {
    let node = Node::new();
    let mut options = RecordsOptions::default();
    let mut sizes = MemorySizes::default();
    (sizes.intents, sizes.records) = (5, 10);
    options.memory = Some(sizes);
    let clock = Arc::new(node.clock.clone());
    let records = PullRecords::open(node.root.path(), options, clock).unwrap();
    let mut registry = Registry::default();
    records.register_metrics(&mut registry);
    for step in row["steps"].as_array().unwrap() {
        take(&records, text(step, "do"));
        let shown = shown(&registry);
        let counts = [
            "ondisk_pullintents",
            "inmemory_pullintents_usage_percent",
            "ondisk_pulledrecords",
            "inmemory_pulledrecords_usage_percent",
        ]
        .map(|name| series(&shown, &format!("kubelet_imagemanager_{name} ")));
        fact(text(step, "do"), &json!(counts), &step["expect"])?;
    }
    Ok(())
}

fn take(records: &PullRecords, step: &str) {
    match step {
        "open" => {}
        "write intent test-image:latest" => begin(records, &["test-image:latest"]),
        "write intents test-image:v1, test-image:v1.1" => {
            begin(records, &["test-image:v1", "test-image:v1.1"]);
        }
        "write record test-image-latest-ref" => write(records, &["test-image-latest-ref"]),
        "write same record twice more" => write(records, &["test-image-latest-ref"; 2]),
        "delete intent test-image:latest" => {
            write(records, &["test-image-v1-ref", "test-image-v1.1-ref", "test-image-v1.2-ref"]);
            end(records, &["test-image:latest"]);
        }
        "delete it twice more" => end(records, &["test-image:latest"; 2]),
        "delete record v1.1-ref" => {
            end(records, &["test-image:v1", "test-image:v1.1"]);
            delete(records, &["test-image-v1.1-ref"]);
        }
        "delete v1.2-ref, v1-ref, latest-ref" => {
            delete(records, &["test-image-v1.2-ref", "test-image-v1-ref", "test-image-latest-ref"]);
        }
        "delete v1-ref, latest-ref again" => {
            delete(records, &["test-image-v1-ref", "test-image-latest-ref"]);
        }
        "write 20 intents and 20 records" => {
            for number in 0..20 {
                begin(records, &[&format!("test-image-{number}:latest")]);
                write(records, &[&format!("test-image-v{number}-ref")]);
            }
        }
        "delete newest intent (19)" => end(records, &["test-image-19:latest"]),
        "delete newest record (19)" => delete(records, &["test-image-v19-ref"]),
        other => panic!("no such step: {other}"),
    }
}

fn begin(records: &PullRecords, images: &[&str]) {
    for image in images {
        records.record_intent(image).unwrap();
    }
}

fn end(records: &PullRecords, images: &[&str]) {
    for image in images {
        records.record_failed(image);
    }
}

/// Under a name that has no intent.
fn write(records: &PullRecords, image_refs: &[&str]) {
    let access = PullAccess { node_pods_accessible: true, ..PullAccess::default() };
    for image_ref in image_refs {
        records.record_pulled("elsewhere:latest", image_ref, Some(&access)).unwrap_or_default();
    }
}

/// By a garbage collection that was long after.
fn delete(records: &PullRecords, gone: &[&str]) {
    let (all, _) = records.records();
    let present: Vec<String> = all
        .iter()
        .map(|record| record.image_ref.clone())
        .filter(|image_ref| !gone.contains(&image_ref.as_str()))
        .collect();
    let later = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(1_000_000);
    records.prune(&present, later);
}

fn checks(_: &Value, row: &Value) -> Result<(), String> {
    let files = json!([
        "sha256-e766e4624f9bc4d3847d6c5b470d9d5362cc8d0c250bd9572daf95278e044263",
        "sha256-a2eace2182b24cdbbb730798e47b10709b9ef5e0f0c1624a3bc06c8ca987727a",
        "sha256-f4058727984875eb66ddbf289f7013096d4cbaa167e591fbcb2e447e36391c1f",
        "sha256-b3c0cc4278800b03a308ceb2611161430df571ca733122f0a40ac8b9792a9064",
    ]);
    let node = Node::new().with("pulled", &files);
    let records = node.open(policy("NeverVerifyAllowlistedImages docker.io/testing/policyexempt"));
    let mut registry = Registry::default();
    records.register_metrics(&mut registry);
    let credentials = PodCredentials {
        secrets: row.get("pod_secret").map(secret).into_iter().collect(),
        service_account: None,
    };
    for _ in 0..row["times"].as_u64().unwrap() {
        let (must_pull, _) = decide(&records, row, &credentials);
        fact("must pull", &Value::from(must_pull), &row["expected_must_pull"])?;
    }
    let name = "kubelet_imagemanager_image_mustpull_checks_total";
    let line = format!("{name}{{result=\"{}\"}} ", text(row, "result"));
    fact("count", &json!(series(&shown(&registry), &line)), &row["times"])
}

fn shown(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

fn series(shown: &str, line: &str) -> u64 {
    let value = shown.lines().find_map(|each| each.strip_prefix(line));
    value.unwrap_or_else(|| panic!("no {line} in\n{shown}")).parse().unwrap()
}
