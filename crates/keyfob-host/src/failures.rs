//! What failed a moment ago and is left alone for a while, if the host was asked to do so.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_exec::aging::{make_room, was_set_back};

use crate::{Backoff, CallError};

/// So many questions are remembered, and then the oldest are forgotten.
const REMEMBERED: usize = 4096;

/// The failed questions of one provider.
#[derive(Debug)]
pub(crate) struct Failures {
    backoff: Option<Backoff>,
    by_question: Mutex<HashMap<Box<[u8]>, Failure>>,
}

#[derive(Debug)]
struct Failure {
    in_a_row: u32,
    at: SystemTime,
    /// How long it is left alone.
    length: Duration,
    last: Arc<CallError>,
}

impl Failures {
    pub(crate) fn new(backoff: Option<Backoff>) -> Self {
        Self { backoff, by_question: Mutex::default() }
    }

    /// Why something is not asked now.
    pub(crate) fn hold(&self, question: &[u8], now: SystemTime) -> Option<Arc<CallError>> {
        self.backoff?;
        let by_question = self.lock();
        let failure = by_question.get(question)?;
        let wait = failure.wait(now)?;
        let (failures, last) = (failure.in_a_row, failure.last.clone());
        Some(Arc::new(CallError::BackingOff { wait, failures, last }))
    }

    pub(crate) fn record(&self, question: &[u8], error: &Arc<CallError>, now: SystemTime) {
        let Some(backoff) = self.backoff else { return };
        let mut by_question = self.lock();
        let before = by_question.get(question).map(|failure| failure.in_a_row);
        if before.is_none() {
            make_room(&mut by_question, REMEMBERED, |failure| failure.at);
        }
        let in_a_row = before.unwrap_or_default().saturating_add(1);
        let (length, last) = (backoff.after(in_a_row), error.clone());
        by_question.insert(question.into(), Failure { in_a_row, at: now, length, last });
    }

    pub(crate) fn forget(&self, question: &[u8]) {
        if self.backoff.is_some() {
            self.lock().remove(question);
        }
    }

    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Failure>> {
        self.by_question.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failure {
    /// How long still.
    fn wait(&self, now: SystemTime) -> Option<Duration> {
        if was_set_back(now, self.at) {
            return None;
        }
        let passed = now.duration_since(self.at).unwrap_or_default();
        self.length.checked_sub(passed).filter(|wait| !wait.is_zero())
    }
}
