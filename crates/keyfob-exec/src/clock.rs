//! Where "now" comes from.

use std::{fmt, time::SystemTime};

/// The wall clock, as an argument: credentials expire by it, and tests turn it by hand.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time.
    fn now(&self) -> SystemTime;
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "has no fields, and callers name it as a value")]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the boundary to the system")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
