//! Intents and records in memory, in front of where they are kept.
//!
//! What is in memory is believed only while its mark is that of the stored thing, and so is what is not there: others may write
//! at any time, a kubelet too.
//!
//! Upstream: `mem_pullrecords.go`.
//! Differs: another process's changes are seen at once (upstream: never).

mod lru;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keyfob_api::Chain;

use self::lru::Lru;
use super::{
    LockStripes, PulledRecord, RecordsError,
    store::{Marked, RecordList, RecordMark, RecordStore},
};

/// How much is kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemorySizes {
    /// So many intents; at most 1024.
    pub intents: usize,
    /// So many records; at most 2000.
    pub records: usize,
    /// With so many locks; at least one, at most 31.
    pub stripes: i32,
}

impl MemorySizes {
    /// What a kubelet has for so many pods and pulls at a time; zero for pulls is no limit.
    pub fn of_node(max_pods: usize, max_parallel_pulls: usize) -> Self {
        Self {
            intents: max_pods.max(max_parallel_pulls).saturating_mul(2),
            records: max_pods.saturating_mul(5),
            stripes: i32::try_from(max_parallel_pulls).unwrap_or(i32::MAX),
        }
    }
}

impl Default for MemorySizes {
    /// Of a node with 110 pods, as most are.
    fn default() -> Self {
        Self::of_node(110, 0)
    }
}

/// A store with a memory.
#[derive(Debug)]
pub struct RecordMemory {
    store: Arc<dyn RecordStore>,
    intents: Shelf<()>,
    records: Shelf<Arc<PulledRecord>>,
}

impl RecordMemory {
    /// Reads the whole store once, as far as it fits.
    pub fn new(store: Arc<dyn RecordStore>, sizes: MemorySizes) -> Self {
        let memory = Self {
            store,
            intents: Shelf::new(sizes.intents.min(1024), sizes.stripes),
            records: Shelf::new(sizes.records.min(2000), sizes.stripes),
        };
        let errors = (memory.intents().errors.into_iter()).chain(memory.records().errors);
        for error in errors {
            tracing::debug!(error = %Chain(&error), "a file about a pull is left out of memory");
        }
        memory
    }

    /// How full the memory is with intents and with records, in percent.
    pub fn usage(&self) -> (usize, usize) {
        (self.intents.usage(), self.records.usage())
    }
}

impl RecordStore for RecordMemory {
    fn intents(&self) -> RecordList<String> {
        let as_intent = |stored: &Marked<String>| {
            (stored.value.clone(), Marked { value: (), mark: stored.mark })
        };
        self.intents.list(|| self.store.intents(), as_intent)
    }

    fn intent(&self, image: &str) -> Result<Option<Marked<()>>, RecordsError> {
        let mark = || self.store.intent_mark(image);
        self.intents.find(image, mark, || self.store.intent(image))
    }

    fn write_intent(&self, image: &str) -> Result<Marked<()>, RecordsError> {
        self.intents.write(image, || self.store.write_intent(image))
    }

    fn delete_intent(&self, image: &str) -> Result<(), RecordsError> {
        self.intents.delete(image, || self.store.delete_intent(image))
    }

    fn intent_mark(&self, image: &str) -> RecordMark {
        self.store.intent_mark(image)
    }

    fn records(&self) -> RecordList<Arc<PulledRecord>> {
        let as_record =
            |stored: &Marked<Arc<PulledRecord>>| (stored.value.image_ref.clone(), stored.clone());
        self.records.list(|| self.store.records(), as_record)
    }

    fn record(&self, image_ref: &str) -> Result<Option<Marked<Arc<PulledRecord>>>, RecordsError> {
        let mark = || self.store.record_mark(image_ref);
        self.records.find(image_ref, mark, || self.store.record(image_ref))
    }

    fn write_record(
        &self,
        record: PulledRecord,
    ) -> Result<Marked<Arc<PulledRecord>>, RecordsError> {
        let image_ref = record.image_ref.clone();
        self.records.write(&image_ref, || self.store.write_record(record))
    }

    fn delete_record(&self, image_ref: &str) -> Result<(), RecordsError> {
        self.records.delete(image_ref, || self.store.delete_record(image_ref))
    }

    fn record_mark(&self, image_ref: &str) -> RecordMark {
        self.store.record_mark(image_ref)
    }
}

/// What is larger is read each time: all that is in memory must have an end.
const LARGEST_KEPT: u64 = 64 << 10;

impl<V: Clone> Lru<Marked<V>> {
    fn keep(&mut self, name: &str, thing: &Marked<V>) {
        if thing.mark.size() <= LARGEST_KEPT {
            self.set(name, thing.clone());
        } else {
            self.delete(name);
        }
    }
}

/// The memory of one kind of things.
#[derive(Debug)]
struct Shelf<V> {
    stripes: LockStripes,
    things: Mutex<Lru<Marked<V>>>,
}

impl<V: Clone> Shelf<V> {
    fn new(most: usize, stripes: i32) -> Self {
        Self { stripes: LockStripes::new(stripes), things: Mutex::new(Lru::new(most)) }
    }

    fn find(
        &self,
        name: &str,
        mark: impl Fn() -> RecordMark,
        fetch: impl FnOnce() -> Result<Option<Marked<V>>, RecordsError>,
    ) -> Result<Option<Marked<V>>, RecordsError> {
        let still_true = || {
            let known = self.things().get(name)?;
            (known.mark == mark()).then_some(known)
        };
        if let Some(known) = still_true() {
            return Ok(Some(known));
        }
        let _lock = self.stripes.lock(name);
        // Whoever had the lock may have fetched it.
        if let Some(known) = still_true() {
            return Ok(Some(known));
        }
        if self.things().is_authoritative && mark().is_absent() {
            self.things().delete(name);
            return Ok(None);
        }
        let found = fetch()?;
        match &found {
            Some(thing) => self.things().keep(name, thing),
            None => self.things().delete(name),
        }
        Ok(found)
    }

    fn write(
        &self,
        name: &str,
        write: impl FnOnce() -> Result<Marked<V>, RecordsError>,
    ) -> Result<Marked<V>, RecordsError> {
        let _lock = self.stripes.lock(name);
        let written = write()?;
        self.things().keep(name, &written);
        Ok(written)
    }

    fn delete(
        &self,
        name: &str,
        delete: impl FnOnce() -> Result<(), RecordsError>,
    ) -> Result<(), RecordsError> {
        let _lock = self.stripes.lock(name);
        delete()?;
        self.things().delete(name);
        Ok(())
    }

    /// Always asks the store. A whole list that fits is remembered as all there is.
    fn list<T>(
        &self,
        fetch: impl FnOnce() -> RecordList<T>,
        as_thing: impl Fn(&Marked<T>) -> (String, Marked<V>),
    ) -> RecordList<T> {
        if self.things().is_authoritative {
            return fetch();
        }
        let _locks = self.stripes.lock_all();
        let listed = fetch();
        let mut things = self.things();
        let is_all = listed.errors.is_empty() && listed.entries.len() < things.most();
        if is_all || things.len() == 0 {
            things.clear();
            for entry in listed.entries.iter().take(things.most()) {
                let (name, thing) = as_thing(entry);
                things.keep(&name, &thing);
            }
            things.is_authoritative = is_all;
        }
        drop(things);
        listed
    }

    fn usage(&self) -> usize {
        let things = self.things();
        things.len() * 100 / things.most()
    }

    fn things(&self) -> MutexGuard<'_, Lru<Marked<V>>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
