//! What docker's list is made of: the registries of cached answers, with their user names.
//!
//! To read them means to look at every answer in the caches, so it is done at most once a second, whoever asks, and on a thread of its own.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{MatchTarget, registry_of};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::{
    agent::Shared,
    error::{ApiError, ErrorCode},
    rate_limit::{CallerKey, RateLimiter},
};

/// How often one caller may ask for its list. Each login in it must be compared with the rules.
const LISTS_PER_SECOND: u32 = 10;

/// How long what was read is used.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How images and rules name Docker Hub, and how docker does.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_URL: &str = "https://index.docker.io/v1/";

/// A login of a registry, without its password.
#[derive(Debug)]
pub(crate) struct CachedLogin {
    /// The registry as docker names it.
    pub(crate) url: String,
    /// The registry as rules see it.
    pub(crate) target: MatchTarget,
    pub(crate) provider: Arc<str>,
    pub(crate) username: String,
}

/// What was read, when, and after how many reloads.
type Snapshot = (SystemTime, u64, Arc<[CachedLogin]>);

#[derive(Debug, Default)]
pub(crate) struct CachedLogins {
    latest: Arc<Mutex<Option<Snapshot>>>,
    limiter: RateLimiter,
}

impl CachedLogins {
    /// The logins of at most a second ago and of this configuration, for a caller that has not asked for them too often.
    pub(crate) async fn get(
        &self,
        shared: &Arc<Shared>,
        caller: &CallerKey,
    ) -> Result<Arc<[CachedLogin]>, ApiError> {
        if !self.limiter.admit(caller, LISTS_PER_SECOND) {
            let message = format!("more than {LISTS_PER_SECOND} lists a second");
            return Err(ApiError::new(ErrorCode::RateLimited, message).help("ask less often"));
        }
        let mut latest = self.latest.clone().lock_owned().await;
        let (now, reloads) = (shared.clock.now(), shared.reloads_ended());
        if let Some((time, of, logins)) = &*latest
            && *of == reloads
            && now.duration_since(*time).is_ok_and(|age| age < MAX_AGE)
        {
            return Ok(logins.clone());
        }
        let shared = shared.clone();
        // The thread holds the lock, so that callers who go away do not start another one.
        let reading = spawn_blocking(move || {
            let logins: Arc<[CachedLogin]> = read(&shared, now).into();
            *latest = Some((now, reloads, logins.clone()));
            logins
        });
        let failed = |_| ApiError::new(ErrorCode::Unavailable, "the cache cannot be read");
        reading.await.map_err(failed)
    }
}

/// Each registry, provider and user name once, in the order of the providers.
fn read(shared: &Shared, now: SystemTime) -> Vec<CachedLogin> {
    let mut logins = BTreeMap::new();
    let providers = shared.host.providers();
    for cached in shared.host.cached() {
        // Answers for pods are theirs, and those that have expired are still to be removed.
        if cached.logins.source().service_account().is_some() || cached.expires < now {
            continue;
        }
        let place = providers.iter().position(|provider| provider.name() == &*cached.provider);
        for (key, login) in cached.logins.iter() {
            let key = key.to_string();
            let registry = match registry_of(&key) {
                "index.docker.io" => DOCKER_HUB,
                pattern if pattern.contains('*') => continue,
                registry => registry,
            };
            let Ok(target) = MatchTarget::parse(registry) else { continue };
            let username = login.username.to_string();
            let provider = cached.provider.clone();
            let login = CachedLogin { url: url(registry), target, provider, username };
            let id = (place, registry.to_owned(), login.username.clone());
            logins.entry(id).or_insert(login);
        }
    }
    logins.into_values().collect()
}

fn url(registry: &str) -> String {
    match registry {
        DOCKER_HUB => DOCKER_HUB_URL.to_owned(),
        registry => format!("https://{registry}"),
    }
}
