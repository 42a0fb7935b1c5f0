//! Which events about handed out credentials say nothing new.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, PoisonError},
};

use super::AuditEvent;
use crate::rate_limit::{CallerKey, RateLimiter};

/// How many events a second are logged for one caller that got what it had got before.
const LOGGED_REPEATS: u32 = 20;
/// How many events a second are logged for one caller because they are new. A user could make up programs without end.
const LOGGED_NEWS: u32 = 50;
/// How many events are known. Beyond that all are forgotten, and are new once more.
const MAX_KNOWN: usize = 16_384;

/// What each caller has been logged with.
#[derive(Debug, Default)]
pub(crate) struct LoggedGrants {
    repeats: RateLimiter,
    news: RateLimiter,
    /// Hashes, whose key nobody knows: a caller cannot make two of them equal.
    known: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl LoggedGrants {
    /// Whether it is logged that a caller got something. What is new has a share of its own: another program, unit or container, or
    /// credentials, a rule or a provider that were not logged for this one. So nobody hides behind the repeats of another process. The
    /// image does not count, because a caller can make up any number of names for which it gets the same.
    pub(crate) fn admit(&self, caller: &CallerKey, event: &AuditEvent) -> bool {
        let process = event.caller.as_ref();
        let process = process.map(|it| (it.uid, &it.executable, &it.unit, &it.container));
        let credentials: Vec<_> =
            event.credentials.iter().map(|each| (&each.provider, &each.hash)).collect();
        let what = (caller, process, event.request, &event.rule, &event.providers, credentials);
        let is_new = self.learn(self.hasher.hash_one(what));
        self.repeats.admit(caller, LOGGED_REPEATS)
            || (is_new && self.news.admit(caller, LOGGED_NEWS))
    }

    fn learn(&self, what: u64) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN && !known.contains(&what) {
            known.clear();
        }
        known.insert(what)
    }
}
