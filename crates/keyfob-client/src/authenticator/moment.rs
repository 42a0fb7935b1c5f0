//! A point in time that several threads may set and take.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

/// Nanoseconds since 1970.
#[derive(Debug)]
pub(super) struct AtomicMoment(AtomicU64);

/// Later than everything.
const NEVER: u64 = u64::MAX;

impl AtomicMoment {
    /// Whether it is now, or was.
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        self.0.load(Ordering::Relaxed) <= nanos(now)
    }

    /// Makes it never; whether it was not. One of several gets to hear so.
    pub(super) fn take(&self) -> bool {
        self.0.swap(NEVER, Ordering::Relaxed) != NEVER
    }

    /// Makes it another; `None` is never.
    pub(super) fn set(&self, time: Option<SystemTime>) {
        self.0.store(time.map_or(NEVER, nanos), Ordering::Relaxed);
    }
}

impl Default for AtomicMoment {
    /// Never.
    fn default() -> Self {
        Self(AtomicU64::new(NEVER))
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(NEVER - 1).min(NEVER - 1)
}
