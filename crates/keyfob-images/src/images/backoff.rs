//! Pulls that failed a while ago and are not tried yet.
//!
//! Upstream: `flowcontrol.Backoff` of client-go, as `pkg/kubelet/images/image_manager.go` uses it.
//! Differs: the number of pulls that are remembered is bounded; a clock that was set back ends a back-off.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use keyfob_exec::{
    Backoff,
    aging::{make_room, was_set_back},
};

use super::{EnsureError, Wanted};

/// So many are remembered, and then the oldest are forgotten.
const REMEMBERED: usize = 4096;

/// The failed pulls, by pod and image.
#[derive(Debug)]
pub(super) struct PullBackoff {
    backoff: Backoff,
    by_pull: Mutex<HashMap<Key, Failure>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    pod_uid: String,
    image: String,
}

#[derive(Debug)]
struct Failure {
    in_a_row: u32,
    at: SystemTime,
    last: EnsureError,
}

impl PullBackoff {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { backoff, by_pull: Mutex::default() }
    }

    /// What a pull that is not tried yet failed for.
    pub(super) fn holds(&self, wanted: &Wanted, now: SystemTime) -> Option<EnsureError> {
        let by_pull = self.lock();
        let failure = by_pull.get(&key(wanted))?;
        let passed = now.duration_since(failure.at).unwrap_or_default();
        let holds = passed < self.backoff.after(failure.in_a_row) && !was_set_back(now, failure.at);
        holds.then(|| failure.last.clone())
    }

    pub(super) fn failed(&self, wanted: &Wanted, last: &EnsureError, now: SystemTime) {
        let mut by_pull = self.lock();
        let before = by_pull.get(&key(wanted));
        if before.is_none() {
            make_room(&mut by_pull, REMEMBERED, |failure| failure.at);
        }
        let before = by_pull.get(&key(wanted)).filter(|failure| !self.is_over(failure, now));
        let in_a_row = before.map_or(0, |failure| failure.in_a_row).saturating_add(1);
        by_pull.insert(key(wanted), Failure { in_a_row, at: now, last: last.clone() });
    }

    /// Forgets those that are long over.
    pub(super) fn tidy(&self, now: SystemTime) {
        self.lock().retain(|_, failure| !self.is_over(failure, now));
    }

    /// After twice the longest back-off, the next failure is a first one.
    fn is_over(&self, failure: &Failure, now: SystemTime) -> bool {
        let passed = now.duration_since(failure.at).unwrap_or_default();
        passed > self.backoff.max.saturating_mul(2) || was_set_back(now, failure.at)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Failure>> {
        self.by_pull.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(wanted: &Wanted) -> Key {
    Key { pod_uid: wanted.pod_uid.clone(), image: wanted.image.clone() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{EnsureReason, PullPolicy};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn wanted(image: &str) -> Wanted {
        Wanted { pod_uid: "u-pod".into(), ..Wanted::new(image, PullPolicy::Always) }
    }

    fn error(message: &str) -> EnsureError {
        EnsureError::new(EnsureReason::ErrImagePull, message)
    }

    fn pulls() -> PullBackoff {
        PullBackoff::new(Backoff::new(Duration::from_secs(10), Duration::from_secs(40)))
    }

    #[test]
    fn each_failure_doubles_the_time_until_the_most() {
        let (pulls, app) = (pulls(), wanted("app"));
        let mut now = 1_000;
        for held in [10, 20, 40, 40] {
            pulls.failed(&app, &error("no"), at(now));
            assert_eq!(pulls.holds(&app, at(now + held - 1)), Some(error("no")), "{held}");
            assert_eq!(pulls.holds(&app, at(now + held)), None, "{held}");
            now += held;
        }
        pulls.failed(&app, &error("again"), at(now + 81));
        assert_eq!(pulls.holds(&app, at(now + 81 + 10)), None, "a first failure again");
    }

    #[test]
    fn another_image_and_another_pod_wait_for_themselves() {
        let pulls = pulls();
        pulls.failed(&wanted("app"), &error("no"), at(1_000));
        let other_pod = Wanted { pod_uid: "u-other".into(), ..wanted("app") };
        assert_eq!(pulls.holds(&wanted("other"), at(1_001)), None);
        assert_eq!(pulls.holds(&other_pod, at(1_001)), None);
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nothing() {
        let (pulls, app) = (pulls(), wanted("app"));
        pulls.failed(&app, &error("no"), at(1_000));
        assert_eq!(pulls.holds(&app, at(900)), None);
    }

    #[test]
    fn what_is_long_over_is_forgotten_and_there_is_an_end_to_the_rest() {
        let pulls = pulls();
        pulls.failed(&wanted("old"), &error("no"), at(1_000));
        pulls.failed(&wanted("new"), &error("no"), at(1_080));
        pulls.tidy(at(1_081));
        assert_eq!(pulls.lock().len(), 1);
        for n in 0..REMEMBERED + 10 {
            pulls.failed(&wanted(&n.to_string()), &error("no"), at(2_000));
        }
        assert!(pulls.lock().len() <= REMEMBERED);
    }
}
