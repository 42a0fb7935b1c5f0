//! One run for many: a lock on a file for each key, and in it what became of the last run.
//!
//! The kernel releases the lock of a process that is gone, so what stands in the file decides nothing: it tells those who
//! wait whom they wait for, and how that ended.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::FileExt as _,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    directory::PrivateDirectory,
    key::{CacheKey, FileKind},
    record::{Record, RunState},
};

/// After how long somebody who waits is told for whom.
const QUIET: Duration = Duration::from_secs(2);

/// The locks of a directory.
#[derive(Debug, Clone)]
pub(super) struct Locks(Arc<PrivateDirectory>);

/// A lock that is ours until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// What became of the run before.
    pub(super) last: Option<Record>,
}

/// A lock that may have been waited for.
#[derive(Debug)]
pub(super) struct Waited {
    pub(super) lock: Lock,
    before: Before,
}

/// What stood in a lock when the waiting for it began.
#[derive(Debug)]
enum Before {
    /// It was not waited for.
    Free,
    /// Whoever had it was about to write.
    Nothing,
    /// This, of the run under way or of the one before.
    Record(Record),
}

impl Waited {
    /// How the run that was waited for failed, if it did.
    pub(super) fn failure(&self) -> Option<&Record> {
        let last = self.lock.last.as_ref().filter(|last| last.state == RunState::Failed)?;
        let is_new = match &self.before {
            Before::Free => false,
            Before::Nothing => true,
            Before::Record(before) => last.run != before.run || before.state == RunState::Running,
        };
        is_new.then_some(last)
    }
}

impl Locks {
    pub(super) fn new(directory: Arc<PrivateDirectory>) -> Self {
        Self(directory)
    }

    /// The lock, unless somebody has it.
    pub(super) fn try_take(&self, key: &CacheKey) -> io::Result<Option<Lock>> {
        loop {
            let file = self.open(key)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if let Some(lock) = self.hold(key, file) {
                return Ok(Some(lock));
            }
        }
    }

    /// The lock, when whoever has it is done, or nothing if that takes too long. `waits` is called if it takes a while.
    pub(super) async fn take(
        &self,
        key: &CacheKey,
        patience: Duration,
        waits: impl FnOnce(Option<&Record>),
    ) -> io::Result<Option<Waited>> {
        if let Some(lock) = self.try_take(key)? {
            return Ok(Some(Waited { lock, before: Before::Free }));
        }
        let before = self.last(key).map_or(Before::Nothing, Before::Record);
        let mut taken = pin!(timeout(patience, self.take_when_free(key)?));
        let taken = tokio::select! {
            biased;
            taken = &mut taken => taken,
            () = sleep(QUIET) => {
                // Whoever had it has written its number since.
                waits(self.last(key).as_ref());
                taken.await
            }
        };
        match taken {
            Err(_) => Ok(None),
            Ok(Ok(lock)) => Ok(Some(Waited { lock: lock?, before })),
            Ok(Err(_)) => Err(io::Error::other("the thread that waited for it is gone")),
        }
    }

    /// What stands in a lock that may be another's.
    pub(super) fn last(&self, key: &CacheKey) -> Option<Record> {
        Record::decode(self.0.read(&key.file(FileKind::Lock))?.expose())
    }

    /// Throws a lock away. Those who wait for it find out, and take another.
    pub(super) fn discard(&self, key: &CacheKey, lock: Lock) -> io::Result<()> {
        self.0.remove(&key.file(FileKind::Lock))?;
        drop(lock);
        Ok(())
    }

    /// The kernel knows no waiting with an end, so a thread waits. If nobody wants the lock any more when it has it, the lock
    /// is dropped.
    fn take_when_free(&self, key: &CacheKey) -> io::Result<oneshot::Receiver<io::Result<Lock>>> {
        let (sender, receiver) = oneshot::channel();
        let (locks, key) = (self.clone(), key.clone());
        let wait = move || drop(sender.send(locks.take_blocking(&key)));
        std::thread::Builder::new().name("keyfob-lock".into()).stack_size(128 << 10).spawn(wait)?;
        Ok(receiver)
    }

    fn take_blocking(&self, key: &CacheKey) -> io::Result<Lock> {
        loop {
            let file = self.open(key)?;
            file.lock()?;
            if let Some(lock) = self.hold(key, file) {
                return Ok(lock);
            }
        }
    }

    fn open(&self, key: &CacheKey) -> io::Result<File> {
        self.0.open_to_write(&key.file(FileKind::Lock))
    }

    /// Nothing, if the file was thrown away before it was locked.
    fn hold(&self, key: &CacheKey, file: File) -> Option<Lock> {
        if !self.0.has(&key.file(FileKind::Lock), &file) {
            return None;
        }
        Some(Lock { last: self.last(key), file })
    }
}

impl Lock {
    /// Writes down what becomes of the run. If that cannot be, others wait a little longer, or run the plugin themselves.
    pub(super) fn note(&mut self, record: Record) {
        let text = record.encode();
        let written =
            self.file.set_len(0).and_then(|()| self.file.write_all_at(text.as_bytes(), 0));
        if let Err(error) = written {
            tracing::debug!(%error, "what became of a run could not be written down");
        }
        self.last = Some(record);
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::{super::key::KeyPart, *};

    fn key() -> CacheKey {
        CacheKey::new("plugin", &[], &[KeyPart::new("uid", "0")])
    }

    fn record(run: i32, state: RunState) -> Record {
        Record { run, state, ..Record::begin(None, SystemTime::UNIX_EPOCH) }
    }

    fn locks() -> (tempfile::TempDir, Locks) {
        let folder = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(&folder.path().join("cache")).unwrap();
        (folder, Locks::new(Arc::new(directory)))
    }

    #[test]
    fn a_failure_is_told_to_those_who_waited_for_it_and_to_nobody_else() {
        use RunState::{Failed, Kept, Running};
        let (_folder, locks) = locks();
        let stood = |run, state| Before::Record(record(run, state));
        let rows = [
            (stood(7, Running), Some((7, Failed)), true),
            (stood(7, Running), Some((8, Failed)), true),
            (stood(6, Kept), Some((7, Failed)), true),
            (stood(6, Failed), Some((6, Failed)), false),
            (stood(7, Running), Some((7, Running)), false),
            (stood(7, Running), Some((7, Kept)), false),
            (stood(7, Running), None, false),
            (Before::Nothing, Some((1, Failed)), true),
            (Before::Nothing, Some((1, Running)), false),
            (Before::Nothing, None, false),
            (Before::Free, Some((7, Failed)), false),
        ];
        for (before, last, told) in rows {
            let mut lock = locks.try_take(&key()).unwrap().unwrap();
            lock.last = last.map(|(run, state)| record(run, state));
            let waited = Waited { lock, before };
            assert_eq!(waited.failure().is_some(), told, "{waited:?}");
        }
    }

    #[tokio::test]
    async fn one_has_it_and_the_next_gets_it_with_what_was_written() {
        let (_folder, locks) = locks();
        let mut held = locks.try_take(&key()).unwrap().unwrap();
        held.note(record(1, RunState::Running));
        assert!(locks.try_take(&key()).unwrap().is_none());

        let key = key();
        let waiting = locks.take(&key, Duration::from_mins(1), |_| {});
        let holding = async {
            held.note(record(1, RunState::Failed));
            drop(held);
        };
        let (waited, ()) = tokio::join!(waiting, holding);

        let waited = waited.unwrap().unwrap();
        assert_eq!(waited.lock.last.as_ref().map(|last| last.state), Some(RunState::Failed));
        assert!(waited.failure().is_some());
    }

    #[tokio::test]
    async fn who_waits_too_long_gets_nothing_and_keeps_nothing() {
        let (_folder, locks) = locks();
        let held = locks.try_take(&key()).unwrap().unwrap();

        let waited = locks.take(&key(), Duration::from_millis(10), |_| {}).await.unwrap();

        assert!(waited.is_none());
        drop(held);
        // The thread that still waits drops it as soon as it has it.
        let last = locks.take(&key(), Duration::from_mins(1), |_| {}).await.unwrap();
        assert!(last.is_some());
    }

    #[tokio::test]
    async fn a_lock_that_is_thrown_away_leaves_nobody_waiting_nor_two_with_one() {
        let (_folder, locks) = locks();
        let held = locks.try_take(&key()).unwrap().unwrap();
        let key = key();
        let waiting = locks.take(&key, Duration::from_mins(1), |_| {});
        let discarding = async { locks.discard(&key, held).unwrap() };

        let (waited, ()) = tokio::join!(waiting, discarding);

        let waited = waited.unwrap().unwrap();
        assert!(locks.try_take(&key).unwrap().is_none());
        drop(waited);
        assert!(locks.try_take(&key).unwrap().is_some());
    }
}
