//! How long what failed is not tried again.

use std::time::Duration;

/// How long what failed is not tried again: doubled with every failure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// After the first failure.
    pub initial: Duration,
    /// At most.
    pub max: Duration,
}

impl Backoff {
    /// From `initial`, doubled up to `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max }
    }

    /// After so many failures in a row.
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }
}

/// Ten seconds, up to five minutes: a kubelet's own for images.
impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_secs(10), Duration::from_mins(5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_off_doubles_up_to_its_most() {
        let backoff = Backoff::default();
        let seconds = [1, 2, 3, 6, 7, 40].map(|failures| backoff.after(failures).as_secs());
        assert_eq!(seconds, [10, 20, 40, 300, 300, 300]);
    }
}
