//! Intents and records in the files of a kubelet.
//!
//! Reading needs no lock. Whoever writes has the [`WriteLock`].
//!
//! Upstream: `fsPullRecordsAccessor` in `fs_pullrecords.go`.
//! Differs: a file whose name does not belong to what it holds is an error of a list, and is not migrated (upstream: it counts
//! as what it holds).

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use keyfob_api::Chain;

use super::{
    PulledRecord, RecordsError,
    claims::{Claims, Holders, holders, note_another},
    folder::{Contents, Folder, ManagerFolder},
    lock::{ReadLock, WriteLock},
    store::{Marked, RecordList, RecordMark, RecordStore},
    wire::{self, DecodeError, Decoded, Version},
};

/// `image_manager` in a kubelet's root directory.
#[derive(Debug)]
pub(super) struct RecordFiles {
    manager: ManagerFolder,
    pulling: Folder,
    pulled: Folder,
    claims: Claims,
}

impl RecordFiles {
    /// Makes what is missing, clears away what was not finished, and rewrites what is of an older version.
    pub(super) fn open(root: &Path) -> Result<Self, RecordsError> {
        let files = Self::at(root);
        let _lock = files.lock()?;
        for folder in [&files.pulling, &files.pulled] {
            folder.make()?;
            folder.sweep()?;
        }
        files.migrate();
        Ok(files)
    }

    /// The files as they are: nothing is made, written or locked until it is asked for.
    pub(super) fn at(root: &Path) -> Self {
        let manager = ManagerFolder::new(root);
        let [pulling, pulled] = ["pulling", "pulled"].map(|name| Folder::new(&manager, name));
        Self { manager, pulling, pulled, claims: Claims::default() }
    }

    /// Whether there is a directory for them.
    pub(super) fn exist(&self) -> io::Result<bool> {
        match self.manager.open() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.manager.path()
    }

    pub(super) fn lock(&self) -> Result<WriteLock, RecordsError> {
        WriteLock::of(&self.manager)
    }

    /// Keeps others from writing; nothing if somebody does.
    pub(super) fn try_lock_to_read(&self) -> io::Result<Option<ReadLock>> {
        ReadLock::try_of(&self.manager)
    }

    /// How many intents and records there are.
    #[cfg(feature = "metrics")]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.pulling.count(), self.pulled.count())
    }

    /// Whether this process has a pull of an image in flight.
    pub(super) fn is_pulling(&self, image: &str) -> bool {
        self.claims.has(image)
    }

    /// The pulls that no process has in flight any more. What cannot be told is left alone.
    pub(super) fn abandoned(&self) -> Vec<AbandonedPull> {
        let intents = self.intents().entries.into_iter();
        let abandoned = intents.filter_map(|intent| match holders(&self.pulling, &intent.value) {
            Ok(Holders::Dead { were_several, written_by_kubelet }) => {
                Some(AbandonedPull { intent, were_several, written_by_kubelet })
            }
            _ => None,
        });
        abandoned.collect()
    }

    /// Remembers that there is another intent for the same image.
    pub(super) fn note_another(&self, image: &str) -> Result<(), RecordsError> {
        note_another(&self.pulling, image)
    }

    /// What cannot be migrated is told, and left alone.
    fn migrate(&self) {
        let intents = INTENTS.all_in(&self.pulling).map(|intent| match intent? {
            Decoded { version: Version::Current, .. } => Ok(()),
            Decoded { value, .. } => self.put_intent(&value.value).map(drop),
        });
        let records = RECORDS.all_in(&self.pulled).map(|record| match record? {
            Decoded { version: Version::Current, .. } => Ok(()),
            Decoded { value, .. } => self.write_record(value.value).map(drop),
        });
        for error in intents.chain(records).filter_map(Result::err) {
            tracing::warn!(error = %Chain(&error), "a file about a pull cannot be used");
        }
    }

    /// An older version is nobody's in flight: we write the current one.
    fn put_intent(&self, image: &str) -> Result<File, RecordsError> {
        self.pulling.write(image, &wire::encode_intent(image), |_| Ok(()))
    }
}

impl RecordStore for RecordFiles {
    fn intents(&self) -> RecordList<String> {
        listed(INTENTS.all_in(&self.pulling), |image| image)
    }

    fn intent(&self, image: &str) -> Result<Option<Marked<()>>, RecordsError> {
        let intent = INTENTS.one_in(&self.pulling, image)?;
        Ok(intent.map(|intent| Marked { value: (), mark: intent.mark }))
    }

    fn write_intent(&self, image: &str) -> Result<Marked<()>, RecordsError> {
        Ok(Marked { value: (), mark: self.claims.claim(&self.pulling, image)? })
    }

    fn delete_intent(&self, image: &str) -> Result<(), RecordsError> {
        self.claims.release(&self.pulling, image)
    }

    fn intent_mark(&self, image: &str) -> RecordMark {
        self.pulling.mark(image)
    }

    fn records(&self) -> RecordList<Arc<PulledRecord>> {
        listed(RECORDS.all_in(&self.pulled), Arc::new)
    }

    fn record(&self, image_ref: &str) -> Result<Option<Marked<Arc<PulledRecord>>>, RecordsError> {
        let record = RECORDS.one_in(&self.pulled, image_ref)?;
        Ok(record.map(|Marked { value, mark }| Marked { value: Arc::new(value), mark }))
    }

    fn write_record(
        &self,
        record: PulledRecord,
    ) -> Result<Marked<Arc<PulledRecord>>, RecordsError> {
        let text = wire::encode_record(&record);
        let file = self.pulled.write(&record.image_ref, &text, |_| Ok(()))?;
        let unread = RecordsError::io("read", self.pulled.path_of(&record.image_ref));
        let metadata = file.metadata().map_err(unread)?;
        Ok(Marked { value: Arc::new(record), mark: RecordMark::of(&metadata) })
    }

    fn delete_record(&self, image_ref: &str) -> Result<(), RecordsError> {
        self.pulled.remove(image_ref)
    }

    fn record_mark(&self, image_ref: &str) -> RecordMark {
        self.pulled.mark(image_ref)
    }
}

/// A pull, or several of the same, that nobody will finish.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AbandonedPull {
    pub(super) intent: Marked<String>,
    /// Whether there may have been several.
    pub(super) were_several: bool,
    /// When a kubelet wrote the intent; nothing if it is one of ours.
    pub(super) written_by_kubelet: Option<SystemTime>,
}

/// One of the two kinds of files.
struct Kind<T> {
    name: &'static str,
    decode: fn(&[u8]) -> Result<Decoded<T>, DecodeError>,
    /// What a file is about, which gives it its name.
    subject: fn(&T) -> &str,
}

const INTENTS: Kind<String> =
    Kind { name: wire::INTENT, decode: wire::decode_intent, subject: |image| image };
const RECORDS: Kind<PulledRecord> =
    Kind { name: wire::RECORD, decode: wire::decode_record, subject: |record| &record.image_ref };

impl<T> Kind<T> {
    /// What is there about something. A file that is about something else is not.
    fn one_in(&self, folder: &Folder, subject: &str) -> Result<Option<Marked<T>>, RecordsError> {
        let Some(contents) = folder.read(subject)? else { return Ok(None) };
        let found = self.decoded(contents)?.value;
        Ok(((self.subject)(&found.value) == subject).then_some(found))
    }

    fn all_in(
        &self,
        folder: &Folder,
    ) -> impl Iterator<Item = Result<Decoded<Marked<T>>, RecordsError>> {
        folder.read_all().into_iter().map(move |contents| {
            let contents = contents?;
            let path = contents.path.clone();
            let found = self.decoded(contents)?;
            let subject = (self.subject)(&found.value.value);
            if folder.path_of(subject) == path {
                Ok(found)
            } else {
                Err(RecordsError::Misnamed { path })
            }
        })
    }

    fn decoded(&self, contents: Contents) -> Result<Decoded<Marked<T>>, RecordsError> {
        let Contents { path, bytes, mark } = contents;
        match (self.decode)(bytes.expose()) {
            Ok(Decoded { value, version }) => {
                Ok(Decoded { value: Marked { value, mark }, version })
            }
            Err(error) => {
                let source = Box::new(error);
                Err(RecordsError::Undecodable { path, kind: self.name, source })
            }
        }
    }
}

fn listed<T, U>(
    files: impl Iterator<Item = Result<Decoded<Marked<T>>, RecordsError>>,
    value_of: impl Fn(T) -> U,
) -> RecordList<U> {
    let mut list = RecordList { entries: Vec::new(), errors: Vec::new() };
    for file in files {
        match file {
            Ok(Decoded { value: Marked { value, mark }, .. }) => {
                list.entries.push(Marked { value: value_of(value), mark });
            }
            Err(error) => list.errors.push(error),
        }
    }
    list
}
