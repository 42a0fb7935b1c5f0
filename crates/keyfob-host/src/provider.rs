//! One provider: its plugin, what it has answered, and who is waiting for it.
//!
//! Upstream: `pluginProvider.provide` in `pkg/credentialprovider/plugin/plugin.go`.
//! Differs: an answer is stored once, not by every waiter, and before its flight ends. A new leader looks in the cache first, so
//! nobody asks again for what has just been answered.

mod answer;
mod run;
mod run_queue;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{CacheKeyType, SecretSet};
use keyfob_config::{CacheType, ValidProvider, ValidTokenAttributes};
use keyfob_exec::{
    Clock, Invocation, LookupError, Runner,
    single_flight::{Group, Waiter},
};
use keyfob_keyring::{Logins, ServiceAccountCoordinates, Source};
use tokio::{runtime::Handle, task::JoinHandle};

use crate::{
    CachedAnswer, CallError, HostOptions, Identity, KeyTooLong, PluginAttempt, PluginObserver,
    PodIdentity, ProviderOutcome, ProviderReport, Pull, Skipped,
    cache::{Cache, CacheKeys, Hit},
    failures::Failures,
    identity::Identities,
    metrics::{Metrics, PluginMetrics},
    plugin::Plugin,
    question::{HeldQuestion, Question},
};
pub use run::FAILURES_LOG_TARGET;
use run_queue::{QueueInterest, RunQueue};

/// What all providers of a host stand in.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) plugins: Arc<Path>,
    pub(crate) options: HostOptions,
    pub(crate) metrics: Metrics,
    pub(crate) observer: Option<Arc<dyn PluginObserver>>,
    pub(crate) runtime: Option<Handle>,
    pub(crate) identities: Identities,
}

impl Surroundings {
    /// Where plugins run and identities are asked for: the host's own runtime, or the caller's.
    fn runtime(&self) -> Option<Handle> {
        self.runtime.clone().or_else(|| Handle::try_current().ok())
    }
}

/// A provider of a valid configuration.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: Arc<str>,
    source: Source,
    /// Shared with whoever asks for the list of providers.
    pub(crate) config: Arc<ValidProvider>,
    plugin: Plugin,
    cache: Cache,
    runs: Group<RunOutcome>,
    /// The queue for runs of the plugin; `None` if any number may run at once.
    run_queue: Option<Arc<RunQueue>>,
    failures: Failures,
    metrics: PluginMetrics,
    around: Arc<Surroundings>,
    /// What the plugin was given and answered lately: in its next run it may mention it.
    secrets: SecretSet,
}

/// What everybody gets who waited for a run.
pub(crate) type RunOutcome = Result<Obtained, Arc<CallError>>;

/// An answer, new or not.
#[derive(Clone, Debug)]
pub(crate) enum Obtained {
    /// It was stored between the caller's look at the cache and the start of its flight.
    Found(Hit),
    Fetched(Fetched),
}

impl Obtained {
    fn account(&self) -> Option<&Arc<ServiceAccountCoordinates>> {
        let (Self::Found(Hit { logins, .. }) | Self::Fetched(Fetched { logins, .. })) = self;
        logins.source().service_account()
    }
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
pub(crate) enum Step<W> {
    Done(ProviderOutcome),
    Waiting(W),
}

/// What must be waited for.
pub(crate) enum Pending {
    Run(InFlight),
    /// Whose pull it is, and then the rest.
    Identity(JoinHandle<Result<Identity, ProviderOutcome>>),
    /// The answer to a question on behalf of a service account that is already known.
    Identified(Arc<Identity>),
}

/// A question whose run is in flight.
pub(crate) struct InFlight {
    question: Arc<HeldQuestion>,
    waiter: Waiter<RunOutcome>,
    /// Keeps the run in the queue.
    _interest: Option<QueueInterest>,
}

impl Provider {
    pub(crate) fn new(config: ValidProvider, around: Arc<Surroundings>) -> Self {
        let name: Arc<str> = config.name().into();
        let metrics = around.metrics.plugin(&name);
        let options = &around.options;
        Self {
            plugin: Plugin::new(&config, name.clone(), around.plugins.clone(), options),
            cache: Cache::new(around.clock.now(), options.max_cache_entries),
            runs: Group::default(),
            run_queue: options.max_runs_per_provider.map(RunQueue::new),
            failures: Failures::new(options.backoff),
            source: Source::provider(name.clone()),
            name,
            config: Arc::new(config),
            metrics,
            around,
            secrets: SecretSet::default(),
        }
    }

    /// Finds out as whom to ask if the provider wants to know, and otherwise asks. The keys are those of nobody.
    pub(crate) fn ask(
        self: &Arc<Self>,
        pull: &Pull,
        keys: &Result<CacheKeys, KeyTooLong>,
        now: SystemTime,
    ) -> Step<Pending> {
        if pull.is_only_as_pod() && !self.asks_as_pod(pull) {
            return Step::Done(self.skip(pull, Skipped::NotAskedAsPod));
        }
        if let (Some(attributes), Some(token)) = (self.config.token_attributes(), pull.token()) {
            return match token.identity(attributes, now) {
                Ok(identity) => Step::Waiting(Pending::Identified(Arc::new(identity))),
                Err(without) => Step::Done(self.done_without_identity(pull, without)),
            };
        }
        match (self.config.token_attributes(), pull.pod_with_account()) {
            (Some(attributes), Some(pod)) => return self.identify(attributes, pod),
            (Some(attributes), None) if attributes.requires_service_account() => {
                return Step::Done(self.skip(pull, Skipped::NoServiceAccount));
            }
            _ => {}
        }
        let answered = match keys {
            Ok(keys) => self.answer(Question::of_nobody(pull, keys), now),
            Err(error) => Step::Done(self.fail(pull, None, CallError::CacheKey(*error))),
        };
        match answered {
            Step::Done(outcome) => Step::Done(outcome),
            Step::Waiting(run) => Step::Waiting(Pending::Run(run)),
        }
    }

    /// Waits for what was begun.
    pub(crate) async fn wait(self: Arc<Self>, pending: Pending, pull: &Pull) -> ProviderReport {
        let task = match pending {
            Pending::Run(run) => return self.report(self.wait_for_run(run).await),
            Pending::Identified(identity) => return self.ask_as(identity, pull).await,
            Pending::Identity(task) => task,
        };
        let lost = |_| Err(ProviderOutcome::Failed(Arc::new(CallError::Lost)));
        match task.await.unwrap_or_else(lost) {
            Ok(identity) => self.ask_as(Arc::new(identity), pull).await,
            Err(without) => self.report(self.done_without_identity(pull, without)),
        }
    }

    /// What a provider did that was asked as nobody.
    pub(crate) fn report(&self, outcome: ProviderOutcome) -> ProviderReport {
        ProviderReport { provider: self.name.clone(), identity: None, outcome }
    }

    /// What will be run for an image, but for the identity.
    pub(crate) fn invocation(&self, image: &str) -> Result<Invocation, LookupError> {
        self.plugin.invocation(image, None)
    }

    /// Forgets an answer that is still kept; whatever failed since then is asked again too.
    pub(crate) fn forget(&self, logins: &Arc<Logins>) -> bool {
        let forgotten = self.cache.forget(logins);
        if forgotten {
            self.failures.forget_all();
        }
        forgotten
    }

    /// Forgets cached answers, all or those that an image would use, and whatever failed. Returns how many answers.
    pub(crate) fn forget_for(&self, image: Option<&str>) -> usize {
        let bases = image.map(CacheKeys::bases);
        self.failures.forget_all();
        self.cache.forget_under(bases.as_ref().map(<[_; 3]>::as_slice))
    }

    pub(crate) fn cached(&self) -> Vec<CachedAnswer> {
        let answers = self.cache.answers().into_iter();
        let answer = |(key, logins, expires)| {
            let provider = self.name.clone();
            CachedAnswer { provider, key, logins, expires }
        };
        answers.map(answer).collect()
    }

    /// How many answers are in its cache.
    #[cfg(feature = "metrics")]
    pub(crate) fn cached_answers(&self) -> usize {
        self.cache.count()
    }

    /// When the first of the answers in its cache expires.
    #[cfg(feature = "metrics")]
    pub(crate) fn next_expiry(&self, now: SystemTime) -> Option<SystemTime> {
        self.cache.next_expiry(now)
    }

    /// How many callers wait for its plugin.
    #[cfg(feature = "metrics")]
    pub(crate) fn waiters(&self) -> usize {
        self.runs.waiters()
    }

    /// Belongs to no caller, and is done in its time; meanwhile other providers run.
    fn identify(
        self: &Arc<Self>,
        attributes: &ValidTokenAttributes,
        pod: &Arc<PodIdentity>,
    ) -> Step<Pending> {
        let Some(runtime) = self.around.runtime() else {
            return Step::Done(ProviderOutcome::Failed(Arc::new(CallError::NoRuntime)));
        };
        let (around, attributes, pod) = (self.around.clone(), attributes.clone(), pod.clone());
        let identity = async move { around.identities.establish(&attributes, &pod).await };
        Step::Waiting(Pending::Identity(runtime.spawn(identity)))
    }

    async fn ask_as(self: &Arc<Self>, identity: Arc<Identity>, pull: &Pull) -> ProviderReport {
        let by_token = self.is_cached_by_token();
        let question = HeldQuestion::of_somebody(pull, identity.clone(), by_token);
        let outcome = match question {
            Err(error) => self.fail(pull, Some(&identity), error),
            Ok(question) => match self.answer(question.get(), self.around.clock.now()) {
                Step::Done(outcome) => outcome,
                Step::Waiting(run) => self.wait_for_run(run).await,
            },
        };
        ProviderReport { identity: Some(identity), ..self.report(outcome) }
    }

    /// Logs why the provider was not asked: it wants an identity, and there is none.
    fn done_without_identity(&self, pull: &Pull, outcome: ProviderOutcome) -> ProviderOutcome {
        match outcome {
            ProviderOutcome::Skipped(why) => return self.skip(pull, why),
            ProviderOutcome::Failed(ref error) => {
                let pod = pull.pod().and_then(|pod| pod.pod.as_ref());
                self.log(pull.image(), error.account(), pod, error);
                self.observe(pull.image(), None, Err(error));
            }
            ProviderOutcome::Cached { .. } | ProviderOutcome::Ran { .. } => {}
        }
        outcome
    }

    /// Tells the observer, if there is one.
    fn observe(
        &self,
        image: &str,
        took: Option<Duration>,
        result: Result<Option<SystemTime>, &Arc<CallError>>,
    ) {
        if let Some(observer) = &self.around.observer {
            observer.ended(&PluginAttempt { provider: &self.name, image, took, result });
        }
    }

    /// Whether the answer depends on the pod's service account.
    fn asks_as_pod(&self, pull: &Pull) -> bool {
        self.config.token_attributes().is_some() && pull.pod_with_account().is_some()
    }

    /// Whether a cached answer belongs to one token, not to all of its account.
    fn is_cached_by_token(&self) -> bool {
        let attributes = self.config.token_attributes();
        attributes.is_some_and(|attributes| attributes.cache_type() == CacheType::Token)
    }

    /// Not worth more than a line for those who look for it: pods may choose so.
    fn skip(&self, pull: &Pull, why: Skipped) -> ProviderOutcome {
        let (image, pod) = (pull.image(), pull.pod());
        tracing::debug!(provider = %self.name, image, ?pod, %why, "the plugin is not asked");
        ProviderOutcome::Skipped(why)
    }

    fn fail(&self, pull: &Pull, identity: Option<&Identity>, error: CallError) -> ProviderOutcome {
        self.log_as(pull.image(), identity, &error);
        ProviderOutcome::Failed(Arc::new(error))
    }
}
