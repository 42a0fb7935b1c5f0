//! Using what is here, waiting for somebody else, or running the plugin.

use std::{
    io,
    time::{Duration, SystemTime},
};

use keyfob_api::Secret;

use super::{
    ExecCache, ExecCacheError, ExecCacheNotice, ExecQuestion, UNFINISHED, answer,
    askers::{Askers, Given},
    entry::{Entry, Worth},
    key::FileKind,
    lock::Lock,
    record::{Record, RunState},
};

/// After a failed attempt to renew an answer that is still good, nobody tries again for so long.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);

impl ExecCache {
    /// The answer as the plugin would print it: the one that is here, that of a run under way, or that of a run of ours.
    pub async fn fetch(&self, question: &ExecQuestion) -> Result<Secret<Vec<u8>>, ExecCacheError> {
        let found = self.entry(&question.key).filter(|entry| self.worth(entry) != Worth::Over);
        let mut refused = None;
        if let Some(entry) = found {
            match self.give(question, &entry) {
                Some(Given::First) if question.says_refused() => refused = Some(entry.id),
                Some(Given::First) if self.worth(&entry) == Worth::Fresh => {
                    return Ok(answer(&entry));
                }
                Some(Given::First) => return self.renew(question, entry).await,
                Some(Given::Again) | None => refused = Some(entry.id),
            }
        }
        self.wait_or_run(question, refused.as_deref()).await
    }

    /// The next answer while this one is still good, unless somebody is getting it already.
    async fn renew(
        &self,
        question: &ExecQuestion,
        old: Entry,
    ) -> Result<Secret<Vec<u8>>, ExecCacheError> {
        let Ok(Some(lock)) = self.locks.try_take(&question.key) else { return Ok(answer(&old)) };
        if let Some(newer) = self.usable(question, Some(&old.id)) {
            return Ok(answer(&newer));
        }
        let now = self.clock.now();
        if lock.last.as_ref().is_some_and(|last| has_just_failed(last, now)) {
            return Ok(answer(&old));
        }
        match self.run_locked(question, lock).await {
            Ok(new) => Ok(answer(&new)),
            Err(error) => {
                // The run took its time.
                let now = self.clock.now();
                let end = old.end(&self.options).filter(|_| self.worth(&old) != Worth::Over);
                let Some(end) = end else { return Err(error) };
                let left = end.duration_since(now).unwrap_or_default();
                let command = &question.command;
                (self.tell)(&ExecCacheNotice::NotRenewed { command, error: &error, left });
                Ok(answer(&old))
            }
        }
    }

    /// Whoever has the lock runs the plugin; the others wait for that, and use what came of it. What was refused is not used
    /// again.
    async fn wait_or_run(
        &self,
        question: &ExecQuestion,
        refused: Option<&str>,
    ) -> Result<Secret<Vec<u8>>, ExecCacheError> {
        let (key, patience, command) =
            (&question.key, self.options.lock_timeout, &question.command);
        let waits = |other: Option<&Record>| {
            let pid = other.map(|other| other.pid);
            (self.tell)(&ExecCacheNotice::Waiting { command, pid });
        };
        let waited = self.locks.take(key, patience, waits).await;
        let Some(waited) = waited.map_err(|source| lock_error(question, source))? else {
            let pid = self.locks.last(key).map(|last| last.pid);
            let command = command.clone();
            return Err(ExecCacheError::StillWaiting { command, pid, after: patience });
        };
        if let Some(entry) = self.usable(question, refused) {
            return Ok(answer(&entry));
        }
        if refused.is_some() {
            // Whatever becomes of the run, nobody gets it any more.
            self.directory.remove(&key.file(FileKind::Entry)).unwrap_or_default();
        }
        if let Some(Record { pid, text, .. }) = waited.failure().cloned() {
            let command = command.clone();
            return Err(ExecCacheError::OthersFailed { command, pid, text });
        }
        if self.runs_apart(question, &waited.lock) {
            drop(waited);
            return self.run_apart(question).await.map(|entry| answer(&entry));
        }
        self.run_locked(question, waited.lock).await.map(|entry| answer(&entry))
    }

    /// Whether the answer will not be kept either, so that those who wait for it would only wait. Only one may ask a person.
    fn runs_apart(&self, question: &ExecQuestion, lock: &Lock) -> bool {
        let last = lock.last.as_ref().map(|last| last.state);
        last == Some(RunState::NotKept) && self.options.max_age.is_none() && !question.interactive
    }

    async fn run_apart(&self, question: &ExecQuestion) -> Result<Entry, ExecCacheError> {
        let entry = self.run(question).await?;
        // It has an expiry after all: from now on one runs for all.
        if self.worth(&entry) != Worth::Over
            && let Ok(Some(mut lock)) = self.locks.try_take(&question.key)
        {
            let begun = Record::begin(lock.last.as_ref(), self.clock.now());
            self.keep(question, &entry, &mut lock, &begun);
        }
        Ok(entry)
    }

    /// Runs the plugin; those who wait learn what came of it.
    async fn run_locked(
        &self,
        question: &ExecQuestion,
        mut lock: Lock,
    ) -> Result<Entry, ExecCacheError> {
        let begun = Record::begin(lock.last.as_ref(), self.clock.now());
        let was_kept = lock.last.as_ref().is_none_or(|last| last.state != RunState::NotKept);
        lock.note(begun.clone());
        match self.run(question).await {
            Ok(entry) if self.worth(&entry) == Worth::Over => {
                lock.note(begun.ended(RunState::NotKept, "", self.clock.now()));
                // Told once, not at each command.
                if was_kept && entry.end(&self.options).is_none() {
                    (self.tell)(&ExecCacheNotice::NoExpiry { command: &question.command });
                }
                Ok(entry)
            }
            Ok(entry) => {
                self.keep(question, &entry, &mut lock, &begun);
                Ok(entry)
            }
            Err(error) => {
                let text = error.told_to_others();
                lock.note(begun.ended(RunState::Failed, &text, self.clock.now()));
                Err(error)
            }
        }
    }

    /// Writes an answer down. It is known who has it before anybody can find it.
    fn keep(&self, question: &ExecQuestion, entry: &Entry, lock: &mut Lock, begun: &Record) {
        let askers = Askers::new(&self.directory, &question.key);
        let given = question.asker.map_or(Ok(Given::First), |asker| askers.give(asker, &entry.id));
        let text = entry.encode(&question.key);
        let stored = given.and_then(|_| {
            let (name, unfinished) =
                (question.key.file(FileKind::Entry), format!("{UNFINISHED}{}", entry.id));
            self.directory.replace(&name, &unfinished, text.expose().as_bytes())
        });
        let state = if stored.is_ok() { RunState::Kept } else { RunState::NotKept };
        lock.note(begun.ended(state, "", self.clock.now()));
        if let Err(error) = stored {
            (self.tell)(&ExecCacheNotice::NotStored { command: &question.command, error: &error });
        }
        self.sweep(&question.key);
    }
}

fn lock_error(question: &ExecQuestion, source: io::Error) -> ExecCacheError {
    ExecCacheError::Lock { command: question.command.clone(), source }
}

fn has_just_failed(last: &Record, now: SystemTime) -> bool {
    let since = last.at.to_system_time().and_then(|at| now.duration_since(at).ok());
    last.state == RunState::Failed && since.is_some_and(|since| since < RENEWAL_PAUSE)
}
