//! How often one caller may ask, and how much at the same time.
//!
//! Each caller has a token bucket: it refills at the configured rate and holds two seconds' worth. So one caller in a loop is refused,
//! and others do not notice.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;

/// How many callers are told apart. Beyond that, those who have not asked for the longest time are forgotten.
const MAX_CALLERS: usize = 4096;

/// How many seconds' worth of requests a caller may make at once.
const BURST_SECONDS: f64 = 2.0;

/// Who counts as one caller: nothing that a caller can choose itself, such as the name of its cgroup. In user namespaces, a user may have
/// 65,536 user ids (`/etc/subuid`), so user ids tell only processes on the host apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallerKey {
    /// A user's processes on the host.
    User(u32),
    /// A pod, by its uid.
    Pod(String),
    /// All processes in containers that are no pods.
    Container,
    /// All processes in pods that are being looked up.
    UnknownPod,
    /// All processes that could not be attested.
    Unattested,
}

impl CallerKey {
    /// What plugin runs for it are queued under.
    pub(crate) fn queue_name(&self) -> String {
        match self {
            Self::User(uid) => format!("user:{uid}"),
            Self::Pod(uid) => format!("pod:{uid}"),
            Self::Container => "container".to_owned(),
            Self::UnknownPod => "unknown-pod".to_owned(),
            Self::Unattested => "unattested".to_owned(),
        }
    }

    /// Whose share of the log a request takes. Container, unknown-pod and unattested callers share one bucket, because a user can start any
    /// number of them.
    pub(crate) fn for_log(self) -> Self {
        match self {
            Self::Container | Self::UnknownPod | Self::Unattested => Self::Unattested,
            key @ (Self::User(_) | Self::Pod(_)) => key,
        }
    }
}

/// The requests that are under way, by caller.
#[derive(Debug, Default)]
pub(crate) struct ActiveRequests {
    counts: Arc<Mutex<ActiveCounts>>,
}

#[derive(Debug, Default)]
struct ActiveCounts {
    by_caller: HashMap<CallerKey, usize>,
    all: usize,
}

/// How many requests may be under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveLimits {
    /// Of one caller.
    pub(crate) caller: usize,
    /// Of all callers that are counted.
    pub(crate) all: usize,
}

/// Why one more request may not be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooManyActive {
    /// The caller has as many as one caller may have.
    #[error("more than {0} requests at the same time")]
    OfCaller(usize),
    /// All callers together have as many as they may have.
    #[error("more than {0} requests of all callers at the same time")]
    OfAll(usize),
}

/// One request that is under way, as long as this lives.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    counts: Arc<Mutex<ActiveCounts>>,
    caller: CallerKey,
}

impl ActiveRequests {
    /// Counts a request, unless there are too many already.
    pub(crate) fn enter(
        &self,
        caller: &CallerKey,
        limits: ActiveLimits,
    ) -> Result<ActiveRequest, TooManyActive> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.all >= limits.all {
            return Err(TooManyActive::OfAll(limits.all));
        }
        let count = counts.by_caller.entry(caller.clone()).or_default();
        if *count >= limits.caller {
            return Err(TooManyActive::OfCaller(limits.caller));
        }
        *count += 1;
        counts.all += 1;
        Ok(ActiveRequest { counts: self.counts.clone(), caller: caller.clone() })
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        if let Some(count) = counts.by_caller.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.by_caller.remove(&self.caller);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    buckets: Mutex<HashMap<CallerKey, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    requests: f64,
    at: Instant,
}

impl RateLimiter {
    /// Whether the caller may make one more request now.
    pub(crate) fn admit(&self, caller: &CallerKey, per_second: u32) -> bool {
        self.admit_at(caller, per_second, Instant::now())
    }

    fn admit_at(&self, caller: &CallerKey, per_second: u32, now: Instant) -> bool {
        let rate = f64::from(per_second);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_CALLERS && !buckets.contains_key(caller) {
            forget_oldest(&mut buckets);
        }
        let full = rate * BURST_SECONDS;
        let bucket = buckets.entry(caller.clone()).or_insert(Bucket { requests: full, at: now });
        let waited = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.requests = waited.mul_add(rate, bucket.requests).min(full);
        bucket.at = now;
        if bucket.requests < 1.0 {
            return false;
        }
        bucket.requests -= 1.0;
        true
    }
}

fn forget_oldest(buckets: &mut HashMap<CallerKey, Bucket>) {
    let mut times: Vec<Instant> = buckets.values().map(|bucket| bucket.at).collect();
    times.sort_unstable();
    if let Some(middle) = times.get(times.len() / 2) {
        buckets.retain(|_, bucket| bucket.at > *middle);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_caller_in_a_loop_is_refused_and_others_are_not() {
        let (limiter, now) = (RateLimiter::default(), Instant::now());
        let greedy = CallerKey::User(1000);
        let admitted = (0..100).filter(|_| limiter.admit_at(&greedy, 10, now)).count();
        assert_eq!(admitted, 20, "a burst of two seconds");
        assert!(limiter.admit_at(&CallerKey::User(1001), 10, now));
        assert!(limiter.admit_at(&CallerKey::Pod("uid".to_owned()), 10, now));
        assert!(!limiter.admit_at(&greedy, 10, now + Duration::from_millis(50)));
        assert!(limiter.admit_at(&greedy, 10, now + Duration::from_millis(200)));
    }

    #[test]
    fn a_caller_has_a_share_of_the_requests_under_way() {
        let (active, caller) = (ActiveRequests::default(), CallerKey::User(0));
        let limits = ActiveLimits { caller: 2, all: 3 };
        let first = active.enter(&caller, limits);
        let second = active.enter(&caller, limits);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(active.enter(&caller, limits).unwrap_err(), TooManyActive::OfCaller(2));
        let third = active.enter(&CallerKey::Container, limits).unwrap();
        let another = active.enter(&CallerKey::User(1), limits);
        assert_eq!(another.unwrap_err(), TooManyActive::OfAll(3), "all callers share one limit");
        drop(first);
        assert!(active.enter(&CallerKey::User(1), limits).is_ok());
        drop((second, third));
        let counts = active.counts.lock().unwrap();
        assert!(counts.by_caller.is_empty() && counts.all == 0);
    }

    #[test]
    fn callers_that_may_have_many_user_ids_share_one_part_of_the_log() {
        let shared = CallerKey::Container.for_log();
        assert_eq!(CallerKey::UnknownPod.for_log(), shared);
        assert_eq!(CallerKey::Unattested.for_log(), shared);
        assert_eq!(CallerKey::User(1000).for_log(), CallerKey::User(1000));
    }

    #[test]
    fn many_callers_take_bounded_memory() {
        let (limiter, now) = (RateLimiter::default(), Instant::now());
        for uid in 0..20_000 {
            let now = now + Duration::from_millis(uid.into());
            assert!(limiter.admit_at(&CallerKey::User(uid), 1, now));
        }
        assert!(limiter.buckets.lock().unwrap().len() <= MAX_CALLERS);
    }
}
