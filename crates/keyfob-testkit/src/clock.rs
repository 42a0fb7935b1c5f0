use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_exec::Clock;

/// A clock that stands still until it is moved. Clones show the same time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<SystemTime>>);

impl ManualClock {
    /// A clock that shows this time.
    pub fn new(now: SystemTime) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// Sets it back.
    pub fn set_back(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= by;
    }
}

impl Default for ManualClock {
    /// Some day in 2030.
    fn default() -> Self {
        Self::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
