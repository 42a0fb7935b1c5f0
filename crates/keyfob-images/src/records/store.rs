//! Where intents and records are kept.
//!
//! Upstream: `PullRecordsAccessor` in `interfaces.go`.

use std::{fmt, fs::Metadata, os::unix::fs::MetadataExt as _, sync::Arc};

use super::{PulledRecord, RecordsError};

/// Where intents and records are kept. What is written is there for whoever reads next, in any process.
pub trait RecordStore: Send + Sync + fmt::Debug {
    /// The images of all intents that can be read.
    fn intents(&self) -> RecordList<String>;

    /// The intent to pull an image, if there is one.
    fn intent(&self, image: &str) -> Result<Option<Marked<()>>, RecordsError>;

    /// Writes an intent: one pull more.
    fn write_intent(&self, image: &str) -> Result<Marked<()>, RecordsError>;

    /// One pull less: takes its intent away, unless there are others that need it.
    fn delete_intent(&self, image: &str) -> Result<(), RecordsError>;

    /// What an intent's mark is now. A store that only one writes to need not have any.
    fn intent_mark(&self, _image: &str) -> RecordMark {
        RecordMark::default()
    }

    /// All records that can be read.
    fn records(&self) -> RecordList<Arc<PulledRecord>>;

    /// The record of an image, by its id. A record that is there and cannot be read is an error.
    fn record(&self, image_ref: &str) -> Result<Option<Marked<Arc<PulledRecord>>>, RecordsError>;

    /// Writes a record in the place of the one there is.
    fn write_record(&self, record: PulledRecord)
    -> Result<Marked<Arc<PulledRecord>>, RecordsError>;

    /// Takes a record away.
    fn delete_record(&self, image_ref: &str) -> Result<(), RecordsError>;

    /// What a record's mark is now.
    fn record_mark(&self, _image_ref: &str) -> RecordMark {
        RecordMark::default()
    }
}

/// What could be read of many.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct RecordList<T> {
    /// In the order in which they are kept.
    pub entries: Vec<Marked<T>>,
    /// Why the rest could not be read.
    pub errors: Vec<RecordsError>,
}

impl<T> RecordList<T> {
    /// The values alone, and the errors.
    pub fn into_parts(self) -> (Vec<T>, Vec<RecordsError>) {
        (self.entries.into_iter().map(|entry| entry.value).collect(), self.errors)
    }
}

/// Something as it was when it was read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct Marked<T> {
    /// The thing itself.
    pub value: T,
    /// The mark that it had.
    pub mark: RecordMark,
}

/// Tells one version of a stored thing from another: while the mark is the same, so is the thing. The default is the mark of
/// what is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordMark(Option<FileState>);

/// A file is never written twice, but replaced; and what replaces it is made while the old one is still there, so it is
/// another file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl RecordMark {
    /// The mark of what cannot be looked at: no other is like it.
    pub(super) const UNKNOWN: Self =
        Self(Some(FileState { device: 0, inode: 0, size: 0, modified: (0, 0), changed: (0, 0) }));

    pub(super) fn of(file: &Metadata) -> Self {
        Self(Some(FileState {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }))
    }

    /// How large the thing is, if its store can tell.
    pub(super) fn size(&self) -> u64 {
        self.0.map_or(0, |file| file.size)
    }

    /// Whether there is nothing.
    pub fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}
