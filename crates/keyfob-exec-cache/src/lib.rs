#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - `directory`: the files, their owner's alone. `key`, `question`, `variables`: which answers are the same
//!   ([`ExecQuestion::parts`] lists what counts).
//! - `entry`: an answer and its end. `lock`, `record`: one run for many. `askers`, `parent`: who was refused.
//! - `fetch`: the decisions. `run`: the plugin. `housekeeping`: what is forgotten.
//!
//! Differs: upstream keeps an answer as long as one process lives, and each kubectl runs the plugin anew.

mod askers;
mod directory;
mod entry;
mod error;
mod fetch;
mod housekeeping;
mod key;
mod lock;
mod parent;
mod question;
mod record;
mod run;
mod variables;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use keyfob_api::Secret;
use keyfob_exec::{Clock, Runner};

use self::{
    askers::{Askers, Given},
    directory::PrivateDirectory,
    entry::{Entry, Worth},
    key::{CacheKey, FileKind},
    lock::Locks,
};
pub use self::{
    directory::{DirectoryFlaw, UnsafeDirectory},
    error::{ExecCacheError, ExecCacheNotice},
    housekeeping::{EntryState, Explanation, LastRun},
    key::KeyPart,
    parent::{AskerId, ParentProcess},
    question::{ExecQuestion, QuestionError, Surroundings},
    variables::{IDENTITY_VARIABLES, InvalidVariablePattern, VariablePattern},
};

/// Answers of plugins, in files that all processes of a user share.
#[derive(Clone)]
pub struct ExecCache {
    directory: Arc<PrivateDirectory>,
    locks: Locks,
    options: ExecCacheOptions,
    clock: Arc<dyn Clock>,
    runner: Arc<dyn Runner>,
    tell: Tell,
}

/// How the names of files begin that are being written.
const UNFINISHED: &str = ".unfinished-";

/// Told what people should see.
pub type Tell = Arc<dyn Fn(&ExecCacheNotice<'_>) + Send + Sync>;

/// How long things are kept, and waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever wants others fills it in")]
pub struct ExecCacheOptions {
    /// After how long an answer is not used any more, whatever its expiry. Without, an answer that has no expiry is not kept.
    pub max_age: Option<Duration>,
    /// How long before its end an answer is renewed, but never in the first half of its life; `None` is a fifth of its life,
    /// and five minutes at most.
    pub refresh_ahead: Option<Duration>,
    /// How long somebody else's run is waited for.
    pub lock_timeout: Duration,
    /// After how long a run that cannot ask anybody is killed.
    pub deadline: Duration,
}

impl Default for ExecCacheOptions {
    /// Whoever waits outlasts a run that is killed, and so learns of it.
    fn default() -> Self {
        Self {
            max_age: None,
            refresh_ahead: None,
            lock_timeout: Duration::from_mins(3),
            deadline: Duration::from_mins(2),
        }
    }
}

impl ExecCache {
    /// The answers in a directory, which is made if it is not there, and refused if others can reach it.
    pub fn open(
        directory: &Path,
        options: ExecCacheOptions,
        clock: Arc<dyn Clock>,
        runner: Arc<dyn Runner>,
        tell: Tell,
    ) -> Result<Self, UnsafeDirectory> {
        let directory = Arc::new(PrivateDirectory::open(directory)?);
        let locks = Locks::new(Arc::clone(&directory));
        Ok(Self { directory, locks, options, clock, runner, tell })
    }

    /// The answer as the plugin would print it, if it is here and good for a while.
    pub fn ready(&self, question: &ExecQuestion) -> Option<Secret<Vec<u8>>> {
        let entry = self.entry(&question.key)?;
        let is_fresh = self.worth(&entry) == Worth::Fresh && !question.says_refused();
        (is_fresh && self.give(question, &entry) == Some(Given::First)).then(|| answer(&entry))
    }

    /// What is here now, if it is good and not what was refused. Whoever waited may be one of several that a client started
    /// at once, and have it already.
    fn usable(&self, question: &ExecQuestion, refused: Option<&str>) -> Option<Entry> {
        let entry = self.entry(&question.key)?;
        let is_good = self.worth(&entry) != Worth::Over && refused != Some(entry.id.as_str());
        (is_good && self.give(question, &entry).is_some()).then_some(entry)
    }

    fn entry(&self, key: &CacheKey) -> Option<Entry> {
        let text = self.directory.read(&key.file(FileKind::Entry))?;
        Entry::decode(text.expose(), key)
    }

    fn worth(&self, entry: &Entry) -> Worth {
        entry.worth(self.clock.now(), &self.options)
    }

    /// Remembers who is given an answer. Nothing if that is impossible: then it is not given, or a refusal would go unnoticed
    /// for as long as it lives.
    fn give(&self, question: &ExecQuestion, entry: &Entry) -> Option<Given> {
        let Some(asker) = question.asker else { return Some(Given::First) };
        Askers::new(&self.directory, &question.key).give(asker, &entry.id).ok()
    }
}

impl fmt::Debug for ExecCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecCache")
            .field("directory", &self.directory)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn answer(entry: &Entry) -> Secret<Vec<u8>> {
    entry.status.encode(entry.version)
}
