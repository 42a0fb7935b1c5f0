//! How many pulls at once, and how many a second.
//!
//! Upstream: `pkg/kubelet/images/puller.go` and `helpers.go`; the token bucket of `golang.org/x/time/rate`.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use tokio::sync::{Semaphore, SemaphorePermit};

use keyfob_exec::Backoff;

/// How an image manager pulls. The default is a kubelet's.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ImageOptions {
    /// How many pulls at once: a kubelet's `serializeImagePulls` and `maxParallelImagePulls`.
    pub parallelism: Parallelism,
    /// How many pulls a second: its `registryPullQPS` and `registryBurst`. Nothing is without a limit.
    pub rate: Option<PullRate>,
    /// How long a pull that failed is not tried again.
    pub backoff: Backoff,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            parallelism: Parallelism::Serial,
            rate: Some(PullRate { per_second: 5.0, burst: 10 }),
            backoff: Backoff::default(),
        }
    }
}

/// How many pulls at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parallelism {
    /// One after another, in the order in which they came.
    #[default]
    Serial,
    /// So many.
    AtMost(NonZeroUsize),
    /// As many as there are.
    Unlimited,
}

/// How many pulls a second.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct PullRate {
    /// On average.
    pub per_second: f32,
    /// At once, if there were none for a while.
    pub burst: u32,
}

/// Lets pulls pass.
#[derive(Debug)]
pub(super) struct Gate {
    places: Option<Semaphore>,
    bucket: Option<Bucket>,
}

impl Gate {
    pub(super) fn new(options: &ImageOptions) -> Self {
        let places = match options.parallelism {
            Parallelism::Serial => Some(1),
            Parallelism::AtMost(limit) => Some(limit.get().min(Semaphore::MAX_PERMITS)),
            Parallelism::Unlimited => None,
        };
        Self { places: places.map(Semaphore::new), bucket: options.rate.map(Bucket::new) }
    }

    /// Waits for a place among the pulls. Whoever came first goes first.
    pub(super) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.as_ref()?.acquire().await.ok()
    }

    /// Whether one more pull may be made now.
    pub(super) fn admits(&self, now: SystemTime) -> bool {
        self.bucket.as_ref().is_none_or(|bucket| bucket.take(now))
    }
}

/// Full at first; fills by the rate, and a pull takes one.
#[derive(Debug)]
struct Bucket {
    rate: PullRate,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Option<SystemTime>,
}

impl Bucket {
    fn new(rate: PullRate) -> Self {
        let level = Level { tokens: rate.burst.into(), at: None };
        Self { rate, level: Mutex::new(level) }
    }

    fn take(&self, now: SystemTime) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = level.at.and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
        let per_second = f64::from(self.rate.per_second).max(0.0);
        let tokens = (level.tokens + passed.as_secs_f64() * per_second).min(self.rate.burst.into());
        let admitted = tokens >= 1.0;
        *level = Level { tokens: if admitted { tokens - 1.0 } else { tokens }, at: Some(now) };
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn takes(bucket: &Bucket, milliseconds: &[u64]) -> Vec<bool> {
        let at = |ms: &u64| SystemTime::UNIX_EPOCH + Duration::from_millis(*ms);
        milliseconds.iter().map(|ms| bucket.take(at(ms))).collect()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let bucket = Bucket::new(PullRate { per_second: 2.0, burst: 2 });
        let admitted = takes(&bucket, &[10_000, 10_000, 10_000, 10_499, 10_500, 10_999, 11_000]);
        assert_eq!(admitted, [true, true, false, false, true, false, true]);
        assert_eq!(takes(&bucket, &[99_000, 99_000, 99_000]), [true, true, false], "no more");
    }

    #[test]
    fn a_burst_of_none_admits_nobody_and_a_rate_of_none_only_the_burst() {
        let never = Bucket::new(PullRate { per_second: 1_000.0, burst: 0 });
        assert_eq!(takes(&never, &[0, 5_000]), [false, false]);
        for per_second in [0.0, -1.0, f32::NAN] {
            let once = Bucket::new(PullRate { per_second, burst: 1 });
            assert_eq!(takes(&once, &[0, 5_000]), [true, false], "{per_second}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_gives_nothing_and_takes_nothing() {
        let bucket = Bucket::new(PullRate { per_second: 1.0, burst: 1 });
        assert_eq!(takes(&bucket, &[50_000, 10_000, 11_000]), [true, false, true]);
    }
}
