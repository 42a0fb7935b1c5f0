//! How slow a server may be.

use std::{num::NonZeroU32, time::Duration};

use tokio::time::Instant;

/// The least that a server must send of an answer, on average. So the time that an answer may take grows with its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// For how long it may send less.
    pub(super) grace: Duration,
    /// How many bytes it must send in a second.
    pub(super) slowest: NonZeroU32,
}

/// How many times faster than a blob a document must come. Nobody waits an hour for a manifest of 4 MiB.
const DOCUMENTS: NonZeroU32 = NonZeroU32::new(16).unwrap();

impl Default for Pace {
    /// Half a minute, and a kilobyte each second: a modem could do more.
    fn default() -> Self {
        const SLOWEST: NonZeroU32 = NonZeroU32::new(1000).unwrap();
        Self { grace: Duration::from_secs(30), slowest: SLOWEST }
    }
}

impl Pace {
    /// When the next piece must be here, of an answer that began then and has so many bytes by now.
    pub(super) fn deadline(self, began: Instant, bytes: u64) -> Instant {
        let slowest = u64::from(self.slowest.get());
        let rest = u32::try_from(bytes % slowest).unwrap_or_default();
        let due = Duration::from_secs(bytes / slowest)
            + Duration::from_secs(rest.into()) / self.slowest.get();
        began.checked_add(self.grace + due).unwrap_or(began)
    }

    /// How long a document may take in all: a manifest, a token or an error, of the size that the server declared.
    pub(super) fn document(self, size: u64) -> Duration {
        let faster = u64::from(self.slowest.saturating_mul(DOCUMENTS).get());
        self.grace + Duration::from_secs(size.div_ceil(faster))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_that_an_answer_may_take_grows_with_its_bytes() {
        let (pace, began) = (Pace::default(), Instant::now());
        for (bytes, expected) in [(0, 30_000), (1, 30_001), (1500, 31_500), (4 << 20, 4_224_304)] {
            let allowed = pace.deadline(began, bytes) - began;
            assert_eq!(allowed, Duration::from_millis(expected), "{bytes}");
        }
    }

    #[test]
    fn the_time_that_a_document_may_take_grows_with_its_declared_size() {
        for (size, expected) in [(0, 30), (1, 31), (16_000, 31), (4 << 20, 293)] {
            let allowed = Pace::default().document(size);
            assert_eq!(allowed, Duration::from_secs(expected), "{size}");
        }
    }
}
