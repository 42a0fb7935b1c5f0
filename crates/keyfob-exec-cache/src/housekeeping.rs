//! What is kept, told and forgotten.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use keyfob_api::Timestamp;

use super::{
    ExecCache, ExecQuestion, UNFINISHED,
    entry::Worth,
    key::{CacheKey, FileKind},
    record::RunState,
};

/// What nobody has changed for so long is thrown away.
const OLDEST: Duration = Duration::from_hours(30 * 24);
/// Nobody writes a file for so long.
const LONGEST_WRITE: Duration = Duration::from_hours(1);
/// So many are looked at when an answer is kept.
const MOST: usize = 1_000;

/// What there is for a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The file of the answer, which may not be there.
    pub file: PathBuf,
    /// What is in it.
    pub state: EntryState,
    /// The last run of the plugin for this question.
    pub last_run: Option<LastRun>,
    /// The files of answers for the same command and arguments under other keys, and what is in them.
    pub others: Vec<(PathBuf, EntryState)>,
}

/// What there is of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryState {
    /// None that can be used.
    None,
    /// One that is good, and who wrote it when.
    Fresh {
        /// When it is not used any more.
        until: Timestamp,
        /// When it came.
        stored: Timestamp,
        /// Which process wrote it.
        pid: i32,
    },
    /// One that is good, and which the next who asks tries to renew.
    NearEnd {
        /// When it is not used any more.
        until: Timestamp,
        /// When it came.
        stored: Timestamp,
        /// Which process wrote it.
        pid: i32,
    },
    /// One that is not used any more.
    Over {
        /// When it came.
        stored: Timestamp,
    },
}

/// A run of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastRun {
    /// Who ran it.
    pub pid: i32,
    /// When it began, or when it ended.
    pub at: Timestamp,
    /// How it went, in a word: `running`, `kept`, `not kept`, `failed`.
    pub state: &'static str,
    /// Why it failed.
    pub failure: Option<String>,
}

impl ExecCache {
    /// Where a question's answer is, and what there is of it. Nothing is run or changed.
    pub fn explain(&self, question: &ExecQuestion) -> Explanation {
        let ExecQuestion { key, command, args, .. } = question;
        let others =
            self.keys().into_iter().filter(|other| other != key && other.is_of(command, args));
        let others = others.map(|other| (self.path_of(&other), self.state_of(&other)));
        let last = self.locks.last(key).map(|last| LastRun {
            pid: last.pid,
            at: last.at,
            state: match last.state {
                RunState::Running => "running",
                RunState::Kept => "kept",
                RunState::NotKept => "not kept",
                RunState::Failed => "failed",
            },
            failure: Some(last.text).filter(|text| !text.is_empty()),
        });
        Explanation {
            file: self.path_of(key),
            state: self.state_of(key),
            last_run: last,
            others: others.filter(|(_, state)| *state != EntryState::None).collect(),
        }
    }

    fn path_of(&self, key: &CacheKey) -> PathBuf {
        self.directory.path().join(key.file(FileKind::Entry))
    }

    fn state_of(&self, key: &CacheKey) -> EntryState {
        let Some(entry) = self.entry(key) else { return EntryState::None };
        let (stored, pid) = (entry.stored.into(), entry.pid);
        let until = entry.end(&self.options).map_or(stored, Timestamp::from);
        match self.worth(&entry) {
            Worth::Fresh => EntryState::Fresh { until, stored, pid },
            Worth::NearEnd => EntryState::NearEnd { until, stored, pid },
            Worth::Over => EntryState::Over { stored },
        }
    }

    /// Forgets the answers of a command with these arguments, whatever else they depend on, or all; tells how many there were.
    /// A run that is under way is not stopped, and its answer is kept.
    pub fn clear(&self, command: Option<(&str, &[OsString])>) -> io::Result<usize> {
        let mut cleared = 0;
        for key in self.keys() {
            if command.is_none_or(|(command, args)| key.is_of(command, args)) {
                cleared += usize::from(self.directory.remove(&key.file(FileKind::Entry))?);
                self.tidy(&key);
            }
        }
        Ok(cleared)
    }

    /// Throws away what has expired, what is old, and what others began to write and did not live to end.
    pub(super) fn sweep(&self, own: &CacheKey) {
        let now = self.clock.now();
        let is_older = |name: &str, age| {
            let modified = self.directory.modified(name);
            modified.is_some_and(|at| now.duration_since(at).is_ok_and(|since| since > age))
        };
        let names = self.directory.names().unwrap_or_default();
        for name in names
            .iter()
            .filter(|name| name.starts_with(UNFINISHED) && is_older(name, LONGEST_WRITE))
        {
            self.directory.remove(name).unwrap_or_default();
        }
        for key in self.keys().into_iter().filter(|key| key != own).take(MOST) {
            let is_old = FileKind::ALL.iter().all(|kind| {
                let name = key.file(*kind);
                is_older(&name, OLDEST) || self.directory.modified(&name).is_none()
            });
            if (is_old || self.has_expired(&key, now))
                && let Ok(Some(lock)) = self.locks.try_take(&key)
                // Somebody may have renewed it before it was locked.
                && (is_old || self.has_expired(&key, now))
            {
                self.directory.remove(&key.file(FileKind::Entry)).unwrap_or_default();
                self.directory.remove(&key.file(FileKind::Askers)).unwrap_or_default();
                self.locks.discard(&key, lock).unwrap_or_default();
            }
        }
    }

    fn has_expired(&self, key: &CacheKey, now: SystemTime) -> bool {
        let expiration =
            self.entry(key).and_then(|entry| entry.status.expiration?.to_system_time());
        expiration.is_some_and(|expiration| expiration <= now)
    }

    /// What goes with an answer that is gone, unless somebody is just getting another.
    fn tidy(&self, key: &CacheKey) {
        if let Ok(Some(lock)) = self.locks.try_take(key) {
            self.directory.remove(&key.file(FileKind::Askers)).unwrap_or_default();
            self.locks.discard(key, lock).unwrap_or_default();
        }
    }

    fn keys(&self) -> BTreeSet<CacheKey> {
        let names = self.directory.names().unwrap_or_default();
        names.iter().filter_map(|name| CacheKey::of_file(name)).collect()
    }
}
