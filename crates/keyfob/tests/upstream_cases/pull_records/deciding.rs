//! Must an image that is here be pulled?

use std::fs;

use keyfob_images::{MustPull, PodCredentials, PullRecords};
use serde_json::Value;

use super::{Node, list, policy, record, secret, service_account, without_time};
use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[(
    "kubelet/pull_manager.json",
    "TestFileBasedImagePullManager_MustAttemptImagePull",
    must_pull,
)];

fn must_pull(_: &Value, row: &Value) -> Result<(), String> {
    let node =
        Node::new().with("pulled", &row["pulledFiles"]).with("pulling", &row["pullingFiles"]);
    let records = node.open(policy(text(row, "imagePullPolicy")));
    let texts = || {
        list(&row["pulledFiles"])
            .iter()
            .map(|name| fs::read(node.path("pulled", name.as_str().unwrap())).unwrap())
            .collect::<Vec<_>>()
    };
    let before = texts();
    let credentials = PodCredentials {
        secrets: list(&row["podSecrets"]).iter().map(secret).collect(),
        service_account: row.get("podServiceAccount").map(service_account),
    };

    let (must_pull, was_asked) = decide(&records, row, &credentials);

    fact("must pull", &Value::from(must_pull), &row["want"])?;
    fact("credentials asked for", &Value::from(was_asked), &row["wantPodCredsRequested"])?;
    fact("a write", &(before != texts()), &(row["expectedCacheWrite"] == true))?;
    let Some(expected) = row.get("expectedPullRecord").map(record) else { return Ok(()) };
    let (found, _) = records.records();
    let found = found.iter().find(|record| record.image_ref == expected.image_ref);
    fact("record", &found.map(|record| without_time(record)), &Some(expected))
}

/// Whether it must, and whether the pod's credentials were asked for.
pub(super) fn decide(
    records: &PullRecords,
    row: &Value,
    credentials: &PodCredentials,
) -> (bool, bool) {
    match records.must_pull(text(row, "image"), text(row, "imageRef")) {
        MustPull::Yes => (true, false),
        MustPull::No => (false, false),
        MustPull::Depends(recorded) => (records.settle(recorded, credentials), true),
        other => panic!("{other:?}"),
    }
}
