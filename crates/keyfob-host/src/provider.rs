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
use tokio::runtime::Handle;

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
    pub(crate) runtime: Option<Handle>,
}

impl Surroundings {
    /// Where plugins run: the host's own runtime, or the caller's.
    fn runtime(&self) -> Option<Handle> {
        self.runtime.clone().or_else(|| Handle::try_current().ok())
    }
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
pub(crate) type Flown = Result<Brought, Arc<CallError>>;

/// An answer, new or not.
#[derive(Clone, Debug)]
pub(crate) enum Brought {
    /// It came while the pilot was on the way.
    Found(Hit),
    Fetched(Fetched),
}

/// A new answer.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(crate) logins: Arc<Logins>,
    pub(crate) scope: CacheKeyType,
    pub(crate) expires: Option<SystemTime>,
    /// How long the plugin ran.
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
                self.refresh(image, keys, now);
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

    /// Waits for a run. One that was lost with the runtime of whoever asked first is started again, once.
    pub(crate) async fn wait(
        self: Arc<Self>,
        ticket: Ticket<Flown>,
        image: &str,
    ) -> ProviderOutcome {
        if let Some(flown) = ticket.redeem().await {
            return flown.into();
        }
        let again = match CacheKeys::new(image, &[]) {
            Ok(keys) => self.ask(image, &keys, self.around.clock.now()),
            Err(error) => Step::Done(ProviderOutcome::Failed(self.failed(image, error.into()))),
        };
        match again {
            Step::Done(outcome) => outcome,
            Step::Waiting(ticket) => match ticket.redeem().await {
                Some(flown) => flown.into(),
                None => ProviderOutcome::Failed(Arc::new(CallError::Lost)),
            },
        }
    }

    /// What will be run for an image.
    pub(crate) fn invocation(&self, image: &str) -> Result<Invocation, LookupError> {
        self.plugin.invocation(image)
    }

    /// Forgets an answer that is still kept; whatever failed since then is asked again too.
    pub(crate) fn forget(&self, logins: &Arc<Logins>) -> bool {
        let forgotten = self.cache.forget(logins);
        if forgotten {
            self.failures.forget_all();
        }
        forgotten
    }

    pub(crate) fn cached(&self) -> Vec<(CacheKey, SystemTime)> {
        self.cache.keys()
    }

    /// A provider for service accounts has nothing to ask with while pulls carry none.
    fn skips(&self) -> Option<Skipped> {
        let attributes = self.config.token_attributes.as_ref()?;
        (attributes.require_service_account == Some(true)).then_some(Skipped::NoServiceAccount)
    }

    /// After how long a renewal is tried again: the last one has ended by then. Nothing if answers are not renewed.
    fn retry_renewal(&self) -> Option<Duration> {
        let options = &self.around.options;
        let backoff = options.backoff.unwrap_or_default().initial;
        options.refresh_ahead.and(Some(backoff.max(options.timeout_of(&self.name))))
    }

    /// From when on an answer is renewed, if at all; not in the first half of its life, however short that is.
    fn renewal(&self, now: SystemTime, expires: SystemTime) -> Option<SystemTime> {
        let ahead = self.around.options.refresh_ahead?;
        let life = expires.duration_since(now).unwrap_or_default();
        expires.checked_sub(ahead.min(life / 2))
    }

    /// In the background, and only if nobody is asking already.
    fn refresh(self: &Arc<Self>, image: &str, keys: &CacheKeys, now: SystemTime) {
        if self.failures.hold(image, now).is_some() {
            return;
        }
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
        if let Some(hit) = self.cache.get(keys, now, None) {
            pilot.land(Ok(Brought::Found(hit)));
        } else if let Some(error) = self.failures.hold(image, now) {
            pilot.land(Err(error));
        } else {
            self.fly(pilot, image, keys);
        }
    }

    /// The run belongs to no caller. What is lost with it, by a panic or the end of its runtime, is only its answer.
    fn fly(self: &Arc<Self>, pilot: Pilot<Flown>, image: &str, keys: &CacheKeys) {
        let Some(runtime) = self.around.runtime() else {
            return pilot.land(Err(Arc::new(CallError::NoRuntime)));
        };
        let (provider, image, keys) = (self.clone(), image.to_owned(), keys.clone());
        runtime.clone().spawn(async move {
            let fetching = {
                let (provider, image) = (provider.clone(), image.clone());
                runtime.spawn(async move { provider.fetch(&image, &keys).await })
            };
            let flown = fetching.await;
            pilot.land(flown.unwrap_or_else(|_| Err(provider.failed(&image, CallError::Lost))));
        });
    }

    async fn fetch(&self, image: &str, keys: &CacheKeys) -> Flown {
        tracing::debug!(provider = %self.name, image, "asking the plugin");
        let (took, answer) = self.run(image).await;
        let now = self.around.clock.now();
        match answer {
            Ok(answer) => {
                self.failures.forget(image);
                Ok(Brought::Fetched(self.keep(answer, keys, now, took)))
            }
            Err(error) => Err(self.failed(image, error)),
        }
    }

    /// Every failure is logged here, once, and remembered.
    pub(crate) fn failed(&self, image: &str, error: CallError) -> Arc<CallError> {
        tracing::warn!(
            provider = %self.name, image, error = %Chain(&error),
            "the plugin gave no credentials; other providers may"
        );
        let error = Arc::new(error);
        self.failures.record(image, &error, self.around.clock.now());
        error
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
        let expires = answer.lifetime.expiry(now, default).filter(|expires| *expires >= now);
        let logins = Arc::new(Logins::new(Source::Provider(self.name.clone()), answer.entries));
        if let [first, rest @ ..] = logins.skipped() {
            let more = rest.len();
            tracing::warn!(provider = %self.name, %first, more, "keys of the answer are no URLs; left out");
        }
        if let Some(expires) = expires {
            let (key, renewal) = (keys.of(answer.scope), self.renewal(now, expires));
            self.cache.put(key, logins.clone(), [now, expires], renewal);
        }
        Fetched { logins, scope: answer.scope, expires, took }
    }
}
