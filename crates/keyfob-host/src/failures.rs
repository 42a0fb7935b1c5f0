//! What failed a moment ago and is left alone for a while, if the host was asked to do so.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use crate::{Backoff, CallError};

/// More questions than this are not remembered once they may be asked again.
const REMEMBERED: usize = 1024;

/// The failed questions of one provider.
#[derive(Debug)]
pub(crate) struct Failures {
    backoff: Option<Backoff>,
    by_image: Mutex<HashMap<Box<str>, Failure>>,
}

#[derive(Debug)]
struct Failure {
    in_a_row: u32,
    until: SystemTime,
    last: Arc<CallError>,
}

impl Failures {
    pub(crate) fn new(backoff: Option<Backoff>) -> Self {
        Self { backoff, by_image: Mutex::default() }
    }

    /// Why an image is not asked about now.
    pub(crate) fn hold(&self, image: &str, now: SystemTime) -> Option<Arc<CallError>> {
        self.backoff?;
        let by_image = self.lock();
        let failure = by_image.get(image)?;
        let wait = failure.until.duration_since(now).ok().filter(|wait| !wait.is_zero())?;
        let (failures, last) = (failure.in_a_row, failure.last.clone());
        Some(Arc::new(CallError::BackingOff { wait, failures, last }))
    }

    pub(crate) fn record(&self, image: &str, error: &Arc<CallError>, now: SystemTime) {
        let Some(backoff) = self.backoff else { return };
        let mut by_image = self.lock();
        if by_image.len() >= REMEMBERED {
            by_image.retain(|_, failure| failure.until > now);
        }
        let in_a_row = by_image.get(image).map_or(1, |failure| failure.in_a_row.saturating_add(1));
        let until = now.checked_add(backoff.after(in_a_row)).unwrap_or(now);
        by_image.insert(image.into(), Failure { in_a_row, until, last: error.clone() });
    }

    pub(crate) fn forget(&self, image: &str) {
        if self.backoff.is_some() {
            self.lock().remove(image);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Failure>> {
        self.by_image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
