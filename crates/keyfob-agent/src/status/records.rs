//! The pull records of a kubelet or of `keyfob pull`: which images are here, and whose pods may use them.
//!
//! They are only read, with the reader of `keyfob-images` that `keyfob records list` uses too.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use keyfob_api::Chain;
use keyfob_exec::on_one_line;
use keyfob_images::{PullAccess, PulledRecord, RecordsReader};
use tokio::time::Instant;

use super::model::{PullRecordStatus, PullRecordsStatus};

/// How long what was read is shown before the directory is read again.
const KEPT: Duration = Duration::from_secs(5);
/// How many names of images, pulls and errors are shown.
const SHOWN: usize = 50;

/// What was read last.
#[derive(Debug, Default)]
pub(crate) struct RecordsCache(RwLock<Option<Kept>>);

#[derive(Clone, Debug)]
struct Kept {
    read: Instant,
    directory: PathBuf,
    status: PullRecordsStatus,
}

impl RecordsCache {
    /// What is in the directory, as it was a few seconds ago at most.
    pub(crate) async fn get(&self, directory: &Path) -> PullRecordsStatus {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(kept) = kept
            && kept.directory == directory
            && kept.read.elapsed() < KEPT
        {
            return kept.status;
        }
        let path = directory.to_owned();
        // A record is a small file, but there may be many.
        let status = tokio::task::spawn_blocking(move || read(&path)).await.unwrap_or_default();
        let kept = Kept { read: Instant::now(), directory: directory.into(), status };
        let status = kept.status.clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        status
    }
}

fn read(directory: &Path) -> PullRecordsStatus {
    let name = directory.display().to_string();
    let reader = match RecordsReader::open(directory) {
        Ok(Some(reader)) => reader,
        Ok(None) => {
            let errors = vec!["there are no records: nothing was pulled with them".to_owned()];
            return PullRecordsStatus { directory: name, errors, ..<_>::default() };
        }
        Err(error) => {
            let errors = vec![on_one_line(&Chain(&error).to_string())];
            return PullRecordsStatus { directory: name, errors, ..<_>::default() };
        }
    };
    let (mut records, unread) = reader.records();
    let (intents, unread_intents) = reader.intents();
    let known = reader.abandoned();
    let (mut abandoned, mut pulling): (Vec<_>, Vec<_>) =
        intents.into_iter().partition(|image| known.contains(image));
    abandoned.truncate(SHOWN);
    pulling.truncate(SHOWN);
    records.sort_by_key(|record| std::cmp::Reverse(record.last_updated_time));
    let errors = unread.into_iter().chain(unread_intents).take(SHOWN);
    PullRecordsStatus {
        directory: name,
        images: records.len(),
        records: records.iter().flat_map(rows).take(SHOWN).collect(),
        pulling,
        abandoned,
        errors: errors.map(|error| on_one_line(&Chain(&error).to_string())).collect(),
    }
}

/// A row for each name of the image.
fn rows(record: &Arc<PulledRecord>) -> Vec<PullRecordStatus> {
    let row = |name: &str, access: &PullAccess| PullRecordStatus {
        image_id: record.image_ref.clone(),
        name: name.to_owned(),
        usable_by: usable_by(access),
        updated: record.last_updated_time.map(|time| time.to_string()),
    };
    if record.credential_mapping.is_empty() {
        return vec![row("", &PullAccess::default())];
    }
    record.credential_mapping.iter().map(|(name, access)| row(name, access)).collect()
}

fn usable_by(access: &PullAccess) -> String {
    if access.node_pods_accessible {
        return "every pod of the node".to_owned();
    }
    let secrets = access.secrets.iter().map(|each| {
        format!("pods with the pull secret {}/{}", each.secret.namespace, each.secret.name)
    });
    let accounts = access
        .service_accounts
        .iter()
        .map(|each| format!("pods of the service account {}/{}", each.namespace, each.name));
    let mut all: Vec<_> = secrets.chain(accounts).collect();
    let more = all.len().saturating_sub(3);
    all.truncate(3);
    match (all.is_empty(), more) {
        (true, _) => "nobody yet".to_owned(),
        (false, 0) => all.join(", "),
        (false, more) => format!("{} and {more} more", all.join(", ")),
    }
}
