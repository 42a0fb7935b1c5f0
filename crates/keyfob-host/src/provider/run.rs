//! One run of a provider's plugin, and what becomes of it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{CacheKeyType, Chain, ResponseError};
use keyfob_exec::single_flight::Leader;
use keyfob_keyring::{Logins, ProviderSource, ServiceAccountCoordinates, Source};
use tracing::{Instrument as _, Span, field::Empty, trace_span};

use super::{Fetched, InFlight, Obtained, Provider, RunOutcome, run_queue::Admission};
use crate::{
    CallError, Identity, PodReference,
    cache::Entry,
    plugin::PluginAnswer,
    question::{HeldQuestion, Question},
};

/// The target of log lines about providers that failed, wholly or in part. They are of level error, as a kubelet's are: its
/// operator learns of a failure nowhere else. A program that shows the failures itself may leave these lines out.
pub const FAILURES_LOG_TARGET: &str = "keyfob_host::provider_failures";

impl Provider {
    /// Starts the plugin as soon as the queue permits it. A run belongs to no caller once it has started: all callers may leave, and its
    /// answer is cached. A run that is still queued when its last caller leaves is not started. A renewal has no caller, so `in_queue` keeps
    /// it in the queue. A run that is lost, by a panic or the end of its runtime, loses only its own answer.
    pub(super) fn run_plugin(
        self: &Arc<Self>,
        leader: Leader<RunOutcome>,
        question: &Arc<HeldQuestion>,
        in_queue: Option<InFlight>,
    ) {
        let Some(runtime) = self.around.runtime() else {
            return leader.finish(Err(Arc::new(CallError::NoRuntime)));
        };
        let queue = self.run_queue.as_ref();
        let admission = queue.map(|queue| queue.enqueue(question.get().flight_key));
        let (provider, question) = (self.clone(), question.clone());
        // In the trace of the caller that began it.
        let caller = Span::current();
        runtime.clone().spawn(async move {
            let waited = matches!(admission, Some(Admission::Queued(_)));
            // Held while the plugin runs.
            let _permit = match admission {
                None => None,
                Some(Admission::Granted(permit)) => Some(permit),
                Some(Admission::Queued(permit)) => match permit.await {
                    Ok(permit) => Some(permit),
                    // A caller that asks for many images and leaves must not keep the others waiting.
                    Err(_) => return,
                },
            };
            if waited && !leader.is_awaited() {
                return;
            }
            // A run that ended meanwhile may have answered this question too, such as that of another pod of the same account. A renewal
            // is not answered by what it renews.
            if waited && in_queue.is_none() {
                let now = provider.around.clock.now();
                if let Some(hit) = provider.usable_answer(question.get(), now) {
                    return leader.finish(Ok(Obtained::Found(hit)));
                }
            }
            drop(in_queue);
            let fetching = {
                let (provider, question) = (provider.clone(), question.clone());
                let image = question.get().image;
                let span = trace_span!(parent: &caller, "plugin_run", provider = %provider.name, image, outcome = Empty);
                runtime.spawn(async move { provider.fetch(question.get()).await }.instrument(span))
            };
            let lost = |_| Err(provider.failed(question.get(), CallError::Lost));
            leader.finish(fetching.await.unwrap_or_else(lost));
        });
    }

    async fn fetch(&self, question: Question<'_>) -> RunOutcome {
        let image = question.image;
        tracing::debug!(provider = %self.name, image, "asking the plugin");
        let (took, answer) = self.run(question).await;
        let allowed =
            answer.and_then(|answer| Ok((self.allowed_scope(&answer, question)?, answer)));
        Span::current().record("outcome", if allowed.is_ok() { "answered" } else { "failed" });
        match allowed {
            Ok((scope, answer)) => {
                self.failures.forget(question.flight_key);
                let fetched = self.keep(answer, scope, question, took);
                self.observe(image, Some(took), Ok(fetched.expires));
                Ok(Obtained::Fetched(fetched))
            }
            Err(error) => {
                let error = self.failed(question, error);
                self.observe(image, Some(took), Err(&error));
                Err(error)
            }
        }
    }

    /// A failure is remembered for this question alone.
    fn failed(&self, question: Question<'_>, error: CallError) -> Arc<CallError> {
        self.log_as(question.image, question.identity.map(|identity| &**identity), &error);
        let error = Arc::new(error);
        self.failures.record(question.flight_key, &error, self.around.clock.now());
        error
    }

    pub(super) fn log_as(&self, image: &str, identity: Option<&Identity>, error: &CallError) {
        let account = identity.map(|identity| &*identity.account);
        let pod = identity.and_then(|identity| identity.pod.as_ref());
        self.log(image, account, pod, error);
    }

    /// Every failure is logged here, once.
    pub(super) fn log(
        &self,
        image: &str,
        account: Option<&ServiceAccountCoordinates>,
        pod: Option<&PodReference>,
        error: &CallError,
    ) {
        let service_account = account.map(tracing::field::display);
        let (pod, pod_uid) = (pod.map(|pod| &*pod.name), pod.map(|pod| &*pod.uid));
        tracing::error!(
            target: FAILURES_LOG_TARGET,
            provider = %self.name, image, service_account, pod, pod_uid, error = %Chain(error),
            "the plugin gave no credentials; other providers may"
        );
    }

    async fn run(&self, question: Question<'_>) -> (Duration, Result<PluginAnswer, CallError>) {
        let identity = question.identity.map(|identity| &**identity);
        let runner = &*self.around.runner;
        let known = self.secrets.sent();
        let (took, answer) = self.plugin.ask(question.image, identity, &known, runner).await;
        if let Some(token) = identity.and_then(Identity::some_token) {
            self.secrets.learn(token);
        }
        if let Ok(answer) = &answer {
            answer.teach(&self.secrets);
        }
        self.around.metrics.ran(&self.name, took);
        if answer.as_ref().is_err_and(CallError::is_of_the_run) {
            self.around.metrics.failed(&self.name);
        }
        (took, answer)
    }

    /// For which images an answer may be used again, unless it must be refused. The checks are in upstream's order, which
    /// decides what is said of an answer that fails several.
    fn allowed_scope(
        &self,
        answer: &PluginAnswer,
        question: Question<'_>,
    ) -> Result<CacheKeyType, CallError> {
        let token = question.identity.and_then(|identity| identity.some_token());
        if !self.is_cached_by_token() && token.is_some_and(|token| answer.has_password(token)) {
            return Err(CallError::EchoedToken);
        }
        let scope = answer.scope.map_err(ResponseError::CacheKeyType)?;
        let is_global = scope == CacheKeyType::Global;
        if is_global && self.around.options.global_answers.refused_from(&self.config) {
            return Err(CallError::GlobalAnswer);
        }
        Ok(scope)
    }

    fn keep(
        &self,
        answer: PluginAnswer,
        scope: CacheKeyType,
        question: Question<'_>,
        took: Duration,
    ) -> Fetched {
        let now = self.around.clock.now();
        let default = self.config.default_cache_duration();
        let expires = answer.lifetime.expiry(now, default).filter(|expires| *expires >= now);
        let logins = Arc::new(Logins::new(self.source(question), answer.entries));
        if let [first, rest @ ..] = logins.skipped() {
            let more = rest.len();
            tracing::error!(
                target: FAILURES_LOG_TARGET,
                provider = %self.name, %first, more,
                "keys of the answer are no URLs; left out"
            );
        }
        let fetched = Fetched { logins, scope, expires, took };
        self.store(&fetched, question, now);
        fetched
    }

    /// Keeps the answer of another account's run for this account too.
    pub(super) fn keep_too(&self, fetched: &Fetched, question: Question<'_>) -> Fetched {
        let logins = Arc::new(fetched.logins.as_of(self.source(question)));
        let fetched = Fetched { logins, ..fetched.clone() };
        self.store(&fetched, question, self.around.clock.now());
        fetched
    }

    fn store(&self, fetched: &Fetched, question: Question<'_>, now: SystemTime) {
        if let Some(expires) = fetched.expires {
            let renewal = self.renewal(now, expires);
            let entry = Entry::new(fetched.logins.clone(), [now, expires], renewal);
            self.cache.put(question.keys, fetched.scope, entry);
        }
    }

    /// Without an account, all answers have one source.
    fn source(&self, question: Question<'_>) -> Source {
        let Some(account) = question.account() else { return self.source.clone() };
        let (name, account) = (self.name.clone(), Some(account.clone()));
        Source::Provider(Arc::new(ProviderSource { name, account }))
    }

    /// From when on an answer is renewed, if at all; not in the first half of its life, however short that is.
    fn renewal(&self, now: SystemTime, expires: SystemTime) -> Option<SystemTime> {
        let ahead = self.around.options.refresh_ahead?;
        let life = expires.duration_since(now).unwrap_or_default();
        expires.checked_sub(ahead.min(life / 2))
    }
}
