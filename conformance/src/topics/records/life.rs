//! What Keyfob does, from one start to the next.

use std::{sync::Arc, time::SystemTime};

use keyfob_api::Timestamp;
use keyfob_images::{
    LocalImage, MustPull, PodCredentials, PullAccess, PullRecords, RecordsOptions, SecretAccess,
};
use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::{Map, Value, json};

use super::{Access, Coordinates, Folder, Image, Secret, Step, Wanted};

/// The results of all steps.
pub(super) fn lived(steps: &[Step], options: &RecordsOptions) -> Value {
    let mut folder = Folder::new();
    let (mut results, mut metrics) = (Vec::new(), Vec::new());
    let mut records = None;
    for step in steps {
        let mut result = match step {
            Step::Start { files, images } => {
                metrics.extend(records.take().as_ref().map(counted));
                folder.put(files);
                records = start(&folder, options, images);
                if records.is_some() { Map::new() } else { failed() }
            }
            step => step.done(records.as_ref().expect("the first step is a start")),
        };
        let changed = folder.changes();
        if !changed.is_empty() {
            result.insert("changed".to_owned(), changed.into());
        }
        results.push(result);
        if records.is_none() {
            break;
        }
    }
    metrics.extend(records.as_ref().map(counted));
    json!({ "steps": results, "metrics": metrics })
}

/// The one before is gone by now, and its locks with it.
fn start(folder: &Folder, options: &RecordsOptions, images: &[Image]) -> Option<PullRecords> {
    let clock = Arc::new(folder.clock.clone());
    let records = PullRecords::open(folder.path(), options.clone(), clock).ok()?;
    let images: Vec<LocalImage> = images.iter().map(Image::ours).collect();
    records.recover(records.abandoned(), &images);
    Some(records)
}

impl Step {
    fn done(&self, records: &PullRecords) -> Map<String, Value> {
        match self {
            Self::Start { .. } => unreachable!("a start is none of a life's steps"),
            Self::Intent(image) if records.record_intent(image).is_err() => return failed(),
            Self::Intent(_) => {}
            Self::Pulled { image, id, access } => {
                records
                    .record_pulled(image, id, access.as_ref().map(Access::ours).as_ref())
                    .unwrap_or_default();
            }
            Self::Failed(image) => records.record_failed(image),
            Self::Prune { images, until } => records.prune(images, time(until)),
            Self::Must(wanted) => return wanted.decided(records),
        }
        Map::new()
    }
}

fn failed() -> Map<String, Value> {
    Map::from_iter([("failed".to_owned(), true.into())])
}

fn time(text: &str) -> SystemTime {
    let time = Timestamp::parse(text).ok().and_then(Timestamp::to_system_time);
    time.expect("a question has times")
}

impl Wanted {
    fn decided(&self, records: &PullRecords) -> Map<String, Value> {
        let (must, asked) = match records.must_pull(&self.image, &self.id) {
            MustPull::No => (false, false),
            MustPull::Depends(recorded) if self.unknown => {
                records.unsettled(recorded);
                let mut result = failed();
                result
                    .extend([("must".to_owned(), true.into()), ("asked".to_owned(), true.into())]);
                return result;
            }
            MustPull::Depends(recorded) => (records.settle(recorded, &self.credentials()), true),
            _ => (true, false),
        };
        let asked = asked.then(|| ("asked".to_owned(), true.into()));
        [("must".to_owned(), must.into())].into_iter().chain(asked).collect()
    }

    fn credentials(&self) -> PodCredentials {
        PodCredentials {
            secrets: self.secrets.iter().map(Secret::ours).collect(),
            service_account: self.account.as_ref().map(Coordinates::account),
        }
    }
}

impl Image {
    fn ours(&self) -> LocalImage {
        let Self { id, tags, digests } = self.clone();
        LocalImage { id, repo_tags: tags, repo_digests: digests }
    }
}

impl Access {
    fn ours(&self) -> PullAccess {
        PullAccess {
            secrets: self.secrets.iter().map(Secret::ours).collect(),
            service_accounts: self.accounts.iter().map(Coordinates::account).collect(),
            node_pods_accessible: self.node,
        }
    }
}

impl Secret {
    fn ours(&self) -> SecretAccess {
        let Coordinates { namespace, name, uid } = self.secret.clone();
        let secret = SecretCoordinates { uid, namespace, name };
        SecretAccess { secret, credential_hash: self.hash.clone() }
    }
}

impl Coordinates {
    fn account(&self) -> ServiceAccountCoordinates {
        let Self { namespace, name, uid } = self.clone();
        ServiceAccountCoordinates { uid, namespace, name }
    }
}

/// How many checks ended in which way, and how many files there are, as the metrics say.
fn counted(records: &PullRecords) -> Value {
    let mut registry = Registry::default();
    records.register_metrics(&mut registry);
    let mut shown = String::new();
    text::encode(&mut shown, &registry).expect("a string");
    let value =
        |line: &str, name: &str| -> Option<u64> { line.strip_prefix(name)?.trim().parse().ok() };
    let of = |name| shown.lines().find_map(|line| value(line, name)).unwrap_or_default();
    let check = |line: &str| {
        let rest =
            line.strip_prefix("kubelet_imagemanager_image_mustpull_checks_total{result=\"")?;
        let (result, count) = rest.split_once("\"} ")?;
        Some((result.to_owned(), Value::from(count.parse::<u64>().ok()?)))
    };
    json!({
        "checks": shown.lines().filter_map(check).collect::<Map<_, _>>(),
        "intents": of("kubelet_imagemanager_ondisk_pullintents"),
        "records": of("kubelet_imagemanager_ondisk_pulledrecords"),
    })
}
