//! What one provider has answered, for as long as it may be kept.
//!
//! Upstream: the expiring store of `pkg/credentialprovider/plugin/plugin.go`: an entry is good up to and at its expiry, an
//! expired one goes when it is read, and all of them at most every 15 minutes, from inside a lookup.
//! Differs: the number of entries can be bounded; a refused credential can be forgotten; a clock that is set back ends
//! what was kept (upstream's clock cannot be).

mod account_key;
mod key;

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use keyfob_api::CacheKeyType;

pub use account_key::ServiceAccountKey;
pub(crate) use account_key::{flight_key, token_hash};
pub(crate) use key::CacheKeys;
pub use key::{CacheKey, KeyTooLong};

use keyfob_exec::aging::{make_room, was_set_back};
use keyfob_keyring::Logins;

const SWEEP_EVERY: Duration = Duration::from_mins(15);

/// The answers of one provider.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: RwLock<HashMap<CacheKey, Entry>>,
    /// The last sweep, in nanoseconds since 1970.
    swept: AtomicU64,
    limit: Option<NonZeroUsize>,
}

/// An answer that is kept.
#[derive(Debug)]
pub(crate) struct Entry {
    logins: Arc<Logins>,
    kept: SystemTime,
    expires: SystemTime,
    /// From when on a reader should ask for a newer answer, in nanoseconds since 1970.
    refresh: AtomicU64,
}

/// An answer that was found.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) logins: Arc<Logins>,
    pub(crate) scope: CacheKeyType,
    pub(crate) kept: SystemTime,
    pub(crate) expires: SystemTime,
    /// Whether this reader should ask for a newer one.
    pub(crate) refresh: bool,
}

impl Hit {
    /// Whether it must be renewed for a reader who wants it to be valid for so long. It is not in the first half of its
    /// lifetime: if all answers are short-lived, a new one would be no better.
    pub(crate) fn is_too_old(&self, now: SystemTime, wanted: Duration) -> bool {
        let between =
            |from: SystemTime, to: SystemTime| to.duration_since(from).unwrap_or_default();
        !wanted.is_zero()
            && between(now, self.expires) < wanted
            && between(self.kept, now) >= between(self.kept, self.expires) / 2
    }
}

impl Cache {
    pub(crate) fn new(now: SystemTime, limit: Option<NonZeroUsize>) -> Self {
        let swept = AtomicU64::new(nanoseconds(now));
        Self { entries: RwLock::default(), swept, limit }
    }

    /// The answer under the first of the keys that has one. If it is due to be renewed, one reader who is ready to do so
    /// is told, and then nobody until it may be tried again.
    pub(crate) fn get(
        &self,
        keys: &CacheKeys,
        now: SystemTime,
        retry_renewal: Option<Duration>,
    ) -> Option<Hit> {
        self.sweep_if_due(now);
        let mut expired = false;
        let hit = {
            let entries = self.read();
            keys.each().into_iter().find_map(|(scope, key)| {
                let entry = entries.get(key)?;
                let is_expired = entry.is_expired(now);
                expired |= is_expired;
                (!is_expired).then(|| entry.hit(scope, now, retry_renewal))
            })
        };
        if expired {
            self.forget_expired(keys, now);
        }
        hit
    }

    /// Keeps an answer from now until it expires. Older answers that would be found before it go: a renewed answer may have
    /// another scope than the one that it replaces.
    pub(crate) fn put(&self, keys: &CacheKeys, scope: CacheKeyType, entry: Entry) {
        let key = keys.of(scope);
        let mut entries = self.write();
        for (_, before) in keys.each().into_iter().take_while(|(each, _)| *each != scope) {
            entries.remove(before);
        }
        if let Some(limit) = self.limit
            && !entries.contains_key(&key)
        {
            make_room(&mut entries, limit.get(), |entry| entry.expires);
        }
        entries.insert(key, entry);
    }

    /// Forgets an answer, if it is still the one kept.
    pub(crate) fn forget(&self, logins: &Arc<Logins>) -> bool {
        let mut entries = self.write();
        let before = entries.len();
        entries.retain(|_, entry| !Arc::ptr_eq(&entry.logins, logins));
        entries.len() < before
    }

    /// Forgets the answers whose key has one of these bases, whoever they are for, or all of them. Returns how many.
    pub(crate) fn forget_under(&self, bases: Option<&[&str]>) -> usize {
        let mut entries = self.write();
        let before = entries.len();
        entries.retain(|key, _| bases.is_some_and(|bases| !bases.contains(&key.base())));
        before - entries.len()
    }

    /// Every key with its answer and when that expires, expired ones not yet swept too.
    pub(crate) fn answers(&self) -> Vec<(CacheKey, Arc<Logins>, SystemTime)> {
        let answer =
            |(key, entry): (&CacheKey, &Entry)| (key.clone(), entry.logins.clone(), entry.expires);
        self.read().iter().map(answer).collect()
    }

    /// When the first of the answers expires that have not expired yet.
    #[cfg(feature = "metrics")]
    pub(crate) fn next_expiry(&self, now: SystemTime) -> Option<SystemTime> {
        let entries = self.read();
        let valid = entries.values().filter(|entry| !entry.is_expired(now));
        valid.map(|entry| entry.expires).min()
    }

    /// How many answers there are, expired ones not yet swept too.
    #[cfg(feature = "metrics")]
    pub(crate) fn count(&self) -> usize {
        self.read().len()
    }

    fn sweep_if_due(&self, now: SystemTime) {
        let (last, at) = (self.swept.load(Ordering::Relaxed), nanoseconds(now));
        if at.abs_diff(last) <= nanoseconds_of(SWEEP_EVERY) {
            return;
        }
        if self.swept.compare_exchange(last, at, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.write().retain(|_, entry| !entry.is_expired(now));
        }
    }

    fn forget_expired(&self, keys: &CacheKeys, now: SystemTime) {
        let mut entries = self.write();
        for (_, key) in keys.each() {
            if entries.get(key).is_some_and(|entry| entry.is_expired(now)) {
                entries.remove(key);
            }
        }
    }

    /// Nobody leaves the map half changed, so a panic elsewhere does not spoil it.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<CacheKey, Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<CacheKey, Entry>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// An answer that is kept from the first of the times until the second, and is renewed from `refresh` on.
    pub(crate) fn new(
        logins: Arc<Logins>,
        [kept, expires]: [SystemTime; 2],
        refresh: Option<SystemTime>,
    ) -> Self {
        let refresh = AtomicU64::new(refresh.map_or(u64::MAX, nanoseconds));
        Self { logins, kept, expires, refresh }
    }

    fn is_expired(&self, now: SystemTime) -> bool {
        now > self.expires || was_set_back(now, self.kept)
    }

    fn hit(&self, scope: CacheKeyType, now: SystemTime, retry_renewal: Option<Duration>) -> Hit {
        let refresh = retry_renewal.is_some_and(|retry| self.claims_refresh(now, retry));
        let (kept, expires) = (self.kept, self.expires);
        Hit { logins: self.logins.clone(), scope, kept, expires, refresh }
    }

    fn claims_refresh(&self, now: SystemTime, retry: Duration) -> bool {
        let (due, now) = (self.refresh.load(Ordering::Relaxed), nanoseconds(now));
        let next = now.saturating_add(nanoseconds_of(retry));
        now >= due
            && self
                .refresh
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// Since 1970; a time before that counts as 1970.
fn nanoseconds(time: SystemTime) -> u64 {
    nanoseconds_of(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn nanoseconds_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
