//! One provider: its plugin, what it has answered, and who is waiting for it.
//!
//! Upstream: `pluginProvider.provide` in `pkg/credentialprovider/plugin/plugin.go`.
//! Differs: an answer is stored once, not by every waiter.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{CacheKeyType, GoDuration};
use keyfob_exec::{Clock, Invocation, LookupError, Runner};

use crate::{
    CallError, Chain, HostOptions, Logins, ProviderConfig, ProviderOutcome, Skipped, Source,
    cache::{Cache, CacheKey, CacheKeys, Hit},
    failures::Failures,
    flight::{Flights, Pilot, Ticket},
    metrics::{Metrics, PluginMetrics},
    plugin::{Plugin, PluginAnswer},
};

/// What all providers of a host stand in.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) plugins: Arc<Path>,
    pub(crate) options: HostOptions,
    pub(crate) metrics: Metrics,
}

/// A provider of a valid configuration.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: Arc<str>,
    pub(crate) config: ProviderConfig,
    plugin: Plugin,
    cache: Cache,
    flights: Flights<Flown>,
    failures: Failures,
    metrics: PluginMetrics,
    around: Arc<Surroundings>,
}

/// What a run brought to everybody who waited for it.
pub(crate) type Flown = Result<Fetched, Arc<CallError>>;

/// A new answer.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(crate) logins: Arc<Logins>,
    pub(crate) scope: CacheKeyType,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) took: Duration,
}

/// How far a question got without waiting.
pub(crate) enum Step {
    Done(ProviderOutcome),
    Waiting(Ticket<Flown>),
}

impl Provider {
    pub(crate) fn new(config: ProviderConfig, around: Arc<Surroundings>) -> Self {
        let name: Arc<str> = config.name.as_str().into();
        let metrics = around.metrics.plugin(&name);
        let options = &around.options;
        Self {
            plugin: Plugin::new(&config, name.clone(), around.plugins.clone(), options),
            cache: Cache::new(
                around.clock.now(),
                options.max_cache_entries,
                metrics.entries.clone(),
            ),
            flights: Flights::new(metrics.waiters.clone()),
            failures: Failures::new(options.backoff),
            name,
            config,
            metrics,
            around,
        }
    }

    /// Answers from the cache, or starts or joins a run.
    pub(crate) fn ask(self: &Arc<Self>, image: &str, keys: &CacheKeys, now: SystemTime) -> Step {
        if let Some(why) = self.skips() {
            return Step::Done(ProviderOutcome::Skipped(why));
        }
        if let Some(hit) = self.cache.get(keys, now, self.retry_renewal()) {
            self.metrics.hits.inc();
            if hit.refresh {
                self.refresh(image, keys);
            }
            return Step::Done(hit.into());
        }
        self.metrics.misses.inc();
        let (ticket, pilot) = self.flights.board(image.as_bytes());
        if let Some(pilot) = pilot {
            self.take_off(pilot, image, keys, now);
        }
        Step::Waiting(ticket)
    }

    /// What will be run for an image.
    pub(crate) fn invocation(&self, image: &str) -> Result<Invocation, LookupError> {
        self.plugin.invocation(image)
    }

    /// Forgets an answer that is still kept.
    pub(crate) fn forget(&self, logins: &Arc<Logins>) -> bool {
        self.cache.forget(logins)
    }

    pub(crate) fn cached(&self) -> Vec<(CacheKey, SystemTime)> {
        self.cache.keys()
    }

    /// A provider for service accounts has nothing to ask with while pulls carry none.
    fn skips(&self) -> Option<Skipped> {
        let attributes = self.config.token_attributes.as_ref()?;
        (attributes.require_service_account == Some(true)).then_some(Skipped::NoServiceAccount)
    }

    /// How long a renewal that failed is not tried again; nothing if answers are not renewed.
    fn retry_renewal(&self) -> Option<Duration> {
        let options = &self.around.options;
        options.refresh_ahead.and(Some(options.backoff.unwrap_or_default().initial))
    }

    /// From when on an answer is renewed, if at all; not in the first half of its life, however short that is.
    fn renewal(&self, now: SystemTime, expires: SystemTime) -> Option<SystemTime> {
        let ahead = self.around.options.refresh_ahead?;
        let life = expires.duration_since(now).unwrap_or_default();
        expires.checked_sub(ahead.min(life / 2))
    }

    /// In the background, and only if nobody is asking already.
    fn refresh(self: &Arc<Self>, image: &str, keys: &CacheKeys) {
        if let (_, Some(pilot)) = self.flights.board(image.as_bytes()) {
            self.fly(pilot, image, keys);
        }
    }

    /// Lands at once if the answer came while the caller was on its way, or if the question is not to be asked now.
    fn take_off(
        self: &Arc<Self>,
        pilot: Pilot<Flown>,
        image: &str,
        keys: &CacheKeys,
        now: SystemTime,
    ) {
        if let Some(Hit { logins, scope, expires, .. }) = self.cache.get(keys, now, None) {
            pilot.land(Ok(Fetched { logins, scope, expires: Some(expires), took: Duration::ZERO }));
        } else if let Some(error) = self.failures.hold(image, now) {
            pilot.land(Err(error));
        } else {
            self.fly(pilot, image, keys);
        }
    }

    /// The run belongs to no caller.
    fn fly(self: &Arc<Self>, pilot: Pilot<Flown>, image: &str, keys: &CacheKeys) {
        let (provider, image, keys) = (self.clone(), image.to_owned(), keys.clone());
        tokio::spawn(async move {
            let flown = provider.fetch(&image, &keys).await;
            pilot.land(flown);
        });
    }

    async fn fetch(&self, image: &str, keys: &CacheKeys) -> Flown {
        tracing::debug!(provider = %self.name, image, "asking the plugin");
        let (took, answer) = self.run(image).await;
        let now = self.around.clock.now();
        match answer {
            Ok(answer) => {
                self.failures.forget(image);
                Ok(self.keep(answer, keys, now, took))
            }
            Err(error) => {
                tracing::warn!(
                    provider = %self.name, image, error = %Chain(&error),
                    "the plugin gave no credentials; other providers may"
                );
                let error = Arc::new(error);
                self.failures.record(image, &error, now);
                Err(error)
            }
        }
    }

    async fn run(&self, image: &str) -> (Duration, Result<PluginAnswer, CallError>) {
        let (took, answer) = self.plugin.ask(image, &*self.around.runner).await;
        self.around.metrics.ran(&self.name, took);
        if answer.as_ref().is_err_and(CallError::is_of_the_run) {
            self.around.metrics.failed(&self.name);
        }
        (took, answer)
    }

    fn keep(
        &self,
        answer: PluginAnswer,
        keys: &CacheKeys,
        now: SystemTime,
        took: Duration,
    ) -> Fetched {
        let default = self.config.default_cache_duration.unwrap_or(GoDuration::ZERO);
        let expires = answer.lifetime.expiry(now, default);
        let logins = Arc::new(Logins::new(Source::Provider(self.name.clone()), answer.entries));
        for error in logins.skipped() {
            tracing::warn!(provider = %self.name, %error, "a key of the answer is no URL; left out");
        }
        if let Some(expires) = expires {
            let key = keys.of(answer.scope);
            self.cache.put(key, logins.clone(), expires, self.renewal(now, expires));
        }
        Fetched { logins, scope: answer.scope, expires, took }
    }
}
