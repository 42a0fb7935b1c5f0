//! Where "now" comes from.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The wall clock, as an argument: credentials expire by it, and tests turn it by hand.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time.
    fn now(&self) -> SystemTime;

    /// The current time, or one shortly before it, hardly ever by more than a [`TICK`]: for whoever asks very often.
    fn now_roughly(&self) -> SystemTime {
        self.now()
    }
}

/// How far [`Clock::now_roughly`] is behind at most, as a rule: no kernel that anybody builds ticks less often.
pub const TICK: Duration = Duration::from_millis(10);

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the boundary to the system")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// What the kernel wrote down at its last tick: no counter is read.
    fn now_roughly(&self) -> SystemTime {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::RealtimeCoarse);
        let since = u64::try_from(tv_sec).ok().zip(u32::try_from(tv_nsec).ok());
        let since = since.map(|(seconds, nanos)| Duration::new(seconds, nanos));
        since.and_then(|since| UNIX_EPOCH.checked_add(since)).unwrap_or_else(|| self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rough_time_is_behind_and_not_by_much() {
        let before = SystemClock.now();
        let roughly = SystemClock.now_roughly();
        let after = SystemClock.now();

        assert!(before - Duration::from_mins(1) < roughly && roughly <= after);
    }
}
