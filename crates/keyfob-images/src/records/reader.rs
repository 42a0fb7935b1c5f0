//! Records that are only read.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    PulledRecord, RecordsError, RunningKubelet, files::RecordFiles, store::RecordStore as _,
};

/// The intents and records of a directory, for whoever only looks. Nothing is created, migrated, deleted or opened for
/// writing: the right to read is enough.
#[derive(Debug)]
pub struct RecordsReader {
    root: PathBuf,
    files: RecordFiles,
}

impl RecordsReader {
    /// The records in a kubelet's root directory; nothing if there is no directory for them.
    pub fn open(root: &Path) -> Result<Option<Self>, RecordsError> {
        let files = RecordFiles::at(root);
        match files.exist() {
            Ok(exist) => Ok(exist.then(|| Self { root: root.to_owned(), files })),
            Err(error) => Err(RecordsError::io("open", files.path())(error)),
        }
    }

    /// All records, in the order of their files, and what could not be read.
    pub fn records(&self) -> (Vec<Arc<PulledRecord>>, Vec<RecordsError>) {
        self.files.records().into_parts()
    }

    /// The images of all intents, in the order of their files, and what could not be read.
    pub fn intents(&self) -> (Vec<String>, Vec<RecordsError>) {
        self.files.intents().into_parts()
    }

    /// The images whose pulls ended halfway, as far as that can be told: nothing while somebody writes.
    pub fn abandoned(&self) -> Vec<String> {
        // Whether a pull is alive is told by its lock, which is tried for that. A writer must not see us try.
        match self.files.try_lock_to_read() {
            Ok(Some(_lock)) => {
                let mut abandoned = self.files.abandoned();
                // A kubelet takes no locks, so its pulls are alive as long as it is.
                if RunningKubelet::find(&self.root).is_some() {
                    abandoned.retain(|pull| pull.written_by_kubelet.is_none());
                }
                abandoned.into_iter().map(|pull| pull.intent.value).collect()
            }
            Ok(None) | Err(_) => Vec::new(),
        }
    }
}
