//! The life of a pull: the intent before it, the record behind it.
//!
//! Upstream: `PullManager` in `image_pull_manager.go`.
//! Differs: what a pull did that ended while images were listed is not forgotten by the list (upstream: a record that the pull
//! did not change, or changed in the same second, is deleted).

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_api::{Chain, Timestamp};
use keyfob_exec::Clock;

use super::{
    MemorySizes, PullAccess, PulledRecord, RecordMemory, RecordsError, RunningKubelet,
    VerificationPolicy,
    files::{AbandonedPull, RecordFiles},
    lock::WriteLock,
    metrics::Metrics,
    names::recorded_name,
    store::RecordStore,
};

/// Who may use the images of a node: upstream's `PullManager`.
///
/// All functions wait for files, and some for other processes that write the same: async callers call them where that may take
/// its time.
#[derive(Debug)]
pub struct PullRecords {
    pub(super) files: Arc<RecordFiles>,
    /// Those files, or what is in memory of them.
    pub(super) store: Arc<dyn RecordStore>,
    /// The store, if it keeps records in memory.
    #[cfg(feature = "metrics")]
    pub(super) memory: Option<Arc<RecordMemory>>,
    pub(super) policy: VerificationPolicy,
    clock: Arc<dyn Clock>,
    /// The root directory of a kubelet that has other images.
    pub(super) kubelet_elsewhere: Option<PathBuf>,
    /// Pulls that ended halfway, and whose images were looked for in vain.
    in_vain: Mutex<Vec<AbandonedPull>>,
    pub(super) metrics: Metrics,
}

/// How records are used. The default is a kubelet's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordsOptions {
    /// Whose access is verified.
    pub policy: VerificationPolicy,
    /// How much is kept in memory; nothing reads every file each time.
    pub memory: Option<MemorySizes>,
    /// Whether to write even if a kubelet runs on the directory. It sees nothing of it until it is started again.
    pub beside_running_kubelet: bool,
    /// Whether the images are not those of the kubelet that has the directory, but lie elsewhere. What came of the pulls that
    /// the kubelet did not finish is then left for it to find out.
    pub images_elsewhere: bool,
}

impl Default for RecordsOptions {
    fn default() -> Self {
        let (policy, memory) = (VerificationPolicy::default(), Some(MemorySizes::default()));
        Self { policy, memory, beside_running_kubelet: false, images_elsewhere: false }
    }
}

impl PullRecords {
    /// Opens `image_manager` in a kubelet's root directory, and makes it if it is missing. Files of v1alpha1 are rewritten.
    /// The directory of a kubelet that runs is refused, unless the options say otherwise.
    /// What a process left behind that was killed is not looked into yet: see [`PullRecords::recover`].
    pub fn open(
        root: &Path,
        options: RecordsOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, RecordsError> {
        if !options.beside_running_kubelet
            && let Some(sign) = RunningKubelet::find(root)
        {
            return Err(RecordsError::KubeletRuns { root: root.to_owned(), sign });
        }
        let files = Arc::new(RecordFiles::open(root)?);
        let memory = options.memory.map(|sizes| Arc::new(RecordMemory::new(files.clone(), sizes)));
        let store: Arc<dyn RecordStore> = match &memory {
            Some(memory) => memory.clone(),
            None => files.clone(),
        };
        Ok(Self {
            files,
            store,
            #[cfg(feature = "metrics")]
            memory,
            policy: options.policy,
            clock,
            kubelet_elsewhere: options.images_elsewhere.then(|| root.to_owned()),
            in_vain: Mutex::default(),
            metrics: Metrics::default(),
        })
    }

    /// Says that an image is about to be pulled. Each call that succeeds is followed by one of [`PullRecords::record_pulled`]
    /// or [`PullRecords::record_failed`].
    pub fn record_intent(&self, image: &str) -> Result<(), RecordsError> {
        let lock = self.files.lock()?;
        self.refuse_abandoned(image, &lock)?;
        self.store.write_intent(image)?;
        self.join_other_spellings(image, &lock).inspect_err(|_| self.finish(image, &lock))
    }

    /// Says that an image was pulled, and what gave access to it. Then the intent goes. If it cannot be recorded, the intent
    /// stays, so that the image is not taken for one that was always here: until somebody recovers, every pod must prove
    /// its access.
    pub fn record_pulled(
        &self,
        image: &str,
        image_ref: &str,
        access: Option<&PullAccess>,
    ) -> Result<(), RecordsError> {
        let recorded = self.files.lock().and_then(|lock| {
            self.remember(image, image_ref, access, &lock)?;
            Ok(lock)
        });
        recorded.map(|lock| self.finish(image, &lock))
    }

    /// Says that an image was not pulled. Then the intent goes.
    pub fn record_failed(&self, image: &str) {
        match self.files.lock() {
            Ok(lock) => self.finish(image, &lock),
            Err(error) => {
                tracing::error!(image, error = %Chain(&error), "the intent of a pull that failed stays");
            }
        }
    }

    /// Forgets the images that are gone: those that are not in `present`, which is every image that is still here. `started`
    /// is when they began to be listed; what was recorded since stays.
    pub fn prune(&self, present: &[String], started: SystemTime) {
        let lock = match self.files.lock() {
            Ok(lock) => lock,
            Err(error) => {
                tracing::error!(error = %Chain(&error), "records of images that are gone stay");
                return;
            }
        };
        // Records know whole seconds only.
        let started = Timestamp::from(started).unix_seconds();
        let last_pull = lock.last_pull();
        if last_pull.is_some_and(|time| Timestamp::from(time).unix_seconds() >= started) {
            tracing::debug!(
                "an image was pulled again while images were listed: no record is forgotten"
            );
            self.correct(last_pull, &lock);
            return;
        }
        let present: HashSet<&str> = present.iter().map(String::as_str).collect();
        let (records, errors) = self.store.records().into_parts();
        for error in &errors {
            tracing::warn!(error = %Chain(error), "a file about a pull cannot be used");
        }
        for record in records {
            let updated = record.last_updated_time.map(Timestamp::unix_seconds);
            let is_old = updated.is_none_or(|updated| updated < started);
            if is_old && !present.contains(record.image_ref.as_str()) {
                self.forget(&record.image_ref, &lock);
            }
        }
    }

    /// What gave access to an image by this name, as a pod writes it; nothing if that is not recorded, or cannot be read.
    pub fn access(&self, image: &str, image_ref: &str) -> Option<PullAccess> {
        let record = self.store.record(image_ref).ok()??.value;
        record.credential_mapping.get(&recorded_name(image).ok()?).cloned()
    }

    /// The images of all intents, in the order of their files, and what could not be read.
    pub fn intents(&self) -> (Vec<String>, Vec<RecordsError>) {
        self.store.intents().into_parts()
    }

    /// All records, in the order of their files, and what could not be read.
    pub fn records(&self) -> (Vec<Arc<PulledRecord>>, Vec<RecordsError>) {
        self.store.records().into_parts()
    }

    /// Merges what gave access into the record of an image.
    pub(super) fn remember(
        &self,
        image: &str,
        image_ref: &str,
        access: Option<&PullAccess>,
        lock: &WriteLock,
    ) -> Result<(), RecordsError> {
        let name = recorded_name(image)
            .map_err(|source| RecordsError::Name { image: image.to_owned(), source })?;
        let old = self.store.record(image_ref).unwrap_or_else(|error| {
            tracing::warn!(image, image_ref, error = %Chain(&error), "a record that cannot be read is replaced");
            None
        });
        let now = self.clock.now();
        let record = match old {
            None => Some(PulledRecord::new(image_ref, &name, access, to_the_second(now))),
            Some(old) => old.value.merged(&name, access, to_the_second(now)),
        };
        match record {
            Some(record) => self.store.write_record(record).map(drop),
            None => lock.note_pull(now),
        }
    }

    /// One pull less is in flight.
    fn finish(&self, image: &str, _: &WriteLock) {
        if !self.files.is_pulling(image) {
            // Its intent, if there is one, is of somebody who died.
            return;
        }
        if let Err(error) = self.store.delete_intent(image) {
            tracing::error!(image, error = %Chain(&error), "the intent of a pull that ended stays");
        }
    }

    /// A time that is still to come is of a clock that was set back, and would keep all records for long.
    fn correct(&self, last_pull: Option<SystemTime>, lock: &WriteLock) {
        let now = self.clock.now();
        if last_pull > Some(now)
            && let Err(error) = lock.note_pull(now)
        {
            tracing::error!(error = %Chain(&error), "records of images that are gone stay");
        }
    }

    fn forget(&self, image_ref: &str, _: &WriteLock) {
        if let Err(error) = self.store.delete_record(image_ref) {
            tracing::error!(image_ref, error = %Chain(&error), "the record of an image that is gone stays");
        }
    }

    pub(super) fn in_vain(&self) -> MutexGuard<'_, Vec<AbandonedPull>> {
        self.in_vain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As a record can say it.
fn to_the_second(time: SystemTime) -> Timestamp {
    let exactly = Timestamp::from(time);
    let behind = Duration::from_nanos(exactly.subsec_nanos().into());
    time.checked_sub(behind).map_or(exactly, Timestamp::from)
}
