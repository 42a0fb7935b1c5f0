//! What happens in the middle of a decision.

use std::sync::Mutex;

use keyfob_keyring::SecretCoordinates;
use keyfob_testkit::ManualClock;

use super::*;
use crate::{
    Marked, RecordList, RecordMark, RecordStore, RecordsOptions, records::files::RecordFiles,
};

const APP: &str = "r.test/app:v1";

/// Files in which something happens as soon as a record was looked for.
#[derive(Debug)]
struct Meanwhile {
    files: Arc<RecordFiles>,
    other: Mutex<Option<PullRecords>>,
}

impl RecordStore for Meanwhile {
    fn intents(&self) -> RecordList<String> {
        self.files.intents()
    }

    fn intent(&self, image: &str) -> Result<Option<Marked<()>>, RecordsError> {
        self.files.intent(image)
    }

    fn write_intent(&self, image: &str) -> Result<Marked<()>, RecordsError> {
        self.files.write_intent(image)
    }

    fn delete_intent(&self, image: &str) -> Result<(), RecordsError> {
        self.files.delete_intent(image)
    }

    fn records(&self) -> RecordList<Arc<PulledRecord>> {
        self.files.records()
    }

    /// Another process ends its pull after the look, and before whatever comes next.
    fn record(&self, image_ref: &str) -> Result<Option<Marked<Arc<PulledRecord>>>, RecordsError> {
        let found = self.files.record(image_ref);
        if let Some(other) = self.other.lock().unwrap().take() {
            let secret = SecretCoordinates { name: "pull".into(), ..SecretCoordinates::default() };
            let secret = SecretAccess { secret, credential_hash: "h".into() };
            let access = PullAccess { secrets: vec![secret], ..PullAccess::default() };
            other.record_pulled(APP, image_ref, Some(&access)).unwrap();
        }
        found
    }

    fn write_record(
        &self,
        record: PulledRecord,
    ) -> Result<Marked<Arc<PulledRecord>>, RecordsError> {
        self.files.write_record(record)
    }

    fn delete_record(&self, image_ref: &str) -> Result<(), RecordsError> {
        self.files.delete_record(image_ref)
    }

    fn record_mark(&self, image_ref: &str) -> RecordMark {
        self.files.record_mark(image_ref)
    }
}

#[test]
fn a_pull_that_ends_between_two_looks_lets_nobody_in() {
    let root = tempfile::tempdir().unwrap();
    let open = || {
        let clock = Arc::new(ManualClock::default());
        PullRecords::open(root.path(), RecordsOptions::default(), clock).unwrap()
    };
    let (other, mut records) = (open(), open());
    other.record_intent(APP).unwrap();
    let files = records.files.clone();
    records.store = Arc::new(Meanwhile { files, other: Mutex::new(Some(other)) });

    let decided = records.must_pull(APP, "id");

    assert_eq!(records.intents().0, [""; 0], "the pull has ended");
    let MustPull::Depends(recorded) = decided else { panic!("{decided:?}") };
    assert!(records.settle(recorded, &PodCredentials::default()));
}
