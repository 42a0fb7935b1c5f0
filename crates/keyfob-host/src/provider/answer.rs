//! A question to a provider: answered from its cache, or by a run that others may wait for too.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_exec::single_flight::Leader;

use super::{InFlight, Obtained, Provider, RunOutcome, Step};
use crate::{
    CallError, ProviderOutcome,
    cache::Hit,
    question::{HeldQuestion, Question},
};

impl Provider {
    /// Answers from the cache, or starts or joins a run. That may be the renewal of a valid answer: see [`Pull::fresh_for`](crate::Pull::fresh_for).
    pub(super) fn answer(
        self: &Arc<Self>,
        question: Question<'_>,
        now: SystemTime,
    ) -> Step<InFlight> {
        let hit = self.cache.get(question.keys, now, self.retry_renewal());
        if let Some(hit) = hit.filter(|hit| !hit.is_too_old(now, question.fresh_for)) {
            self.metrics.found();
            if hit.refresh {
                self.refresh(question, now);
            }
            return Step::Done(hit.into());
        }
        self.metrics.missed();
        let (run, leader) = self.join(question);
        if let Some(leader) = leader {
            self.start(leader, &run.question, now);
        }
        Step::Waiting(run)
    }

    /// Waits for a run. If it was to renew a cached answer and failed, that answer is used while it is valid.
    pub(super) async fn wait_for_run(self: &Arc<Self>, run: InFlight) -> ProviderOutcome {
        let held = run.question.clone();
        let question = held.get();
        let outcome = self.outcome_of_run(question, run).await;
        if question.fresh_for.is_zero() || !matches!(outcome, ProviderOutcome::Failed(_)) {
            return outcome;
        }
        let cached = self.cache.get(question.keys, self.around.clock.now(), None);
        cached.map_or(outcome, ProviderOutcome::from)
    }

    /// A run that was lost with the runtime of whoever asked first is started again, once.
    async fn outcome_of_run(
        self: &Arc<Self>,
        question: Question<'_>,
        run: InFlight,
    ) -> ProviderOutcome {
        if let Some(outcome) = self.outcome_for(run.outcome().await, question) {
            return outcome;
        }
        match self.answer(question, self.around.clock.now()) {
            Step::Done(outcome) => outcome,
            Step::Waiting(run) => {
                let outcome = self.outcome_for(run.outcome().await, question);
                outcome.unwrap_or_else(|| ProviderOutcome::Failed(Arc::new(CallError::Lost)))
            }
        }
    }

    /// Upstream's key of a flight has the token and not the account, so that two accounts with one token share a run.
    /// Each keeps the answer of that run as its own; what one found in the cache is not the other's, who asks again.
    fn outcome_for(
        &self,
        outcome: Option<RunOutcome>,
        question: Question<'_>,
    ) -> Option<ProviderOutcome> {
        let outcome = match outcome? {
            Ok(obtained) if obtained.account() != question.account() => match obtained {
                Obtained::Found(_) => return None,
                Obtained::Fetched(fetched) => {
                    Ok(Obtained::Fetched(self.keep_too(&fetched, question)))
                }
            },
            outcome => outcome,
        };
        Some(outcome.into())
    }

    /// After how long a renewal is tried again: the last one has ended by then. Nothing if answers are not renewed.
    fn retry_renewal(&self) -> Option<Duration> {
        let options = &self.around.options;
        let backoff = options.backoff.unwrap_or_default().initial;
        options.refresh_ahead.and(Some(backoff.max(options.timeout_of(&self.name))))
    }

    /// In the background, and only if nobody is asking already.
    fn refresh(self: &Arc<Self>, question: Question<'_>, now: SystemTime) {
        if self.failures.hold(question.flight_key, now).is_some() {
            return;
        }
        if let (run, Some(leader)) = self.join(question) {
            let question = run.question.clone();
            self.run_plugin(leader, &question, Some(run));
        }
    }

    /// Joins the run that answers a question, or is to start one.
    fn join(&self, question: Question<'_>) -> (InFlight, Option<Leader<RunOutcome>>) {
        let key = question.flight_key;
        // Before the flight is joined, so that its run gets the priority of this caller too.
        let queue = self.run_queue.as_ref();
        let interest = queue.map(|queue| queue.register_interest(key, question.caller));
        let (waiter, leader) = self.runs.join(key);
        (InFlight { question: question.hold(), waiter, _interest: interest }, leader)
    }

    /// Finishes at once if the answer was stored since the caller looked in the cache, or if the question is not to be asked now.
    fn start(
        self: &Arc<Self>,
        leader: Leader<RunOutcome>,
        question: &Arc<HeldQuestion>,
        now: SystemTime,
    ) {
        let asked = question.get();
        if let Some(hit) = self.usable_answer(asked, now) {
            leader.finish(Ok(Obtained::Found(hit)));
        } else if let Some(error) = self.failures.hold(asked.flight_key, now) {
            leader.finish(Err(error));
        } else {
            self.run_plugin(leader, question, None);
        }
    }

    /// The cached answer to a question, if there is one that is valid for long enough.
    pub(super) fn usable_answer(&self, question: Question<'_>, now: SystemTime) -> Option<Hit> {
        let hit = self.cache.get(question.keys, now, None);
        hit.filter(|hit| !hit.is_too_old(now, question.fresh_for))
    }
}

impl InFlight {
    /// Waits for the run. Until it ends, the interest keeps it in the queue.
    async fn outcome(self) -> Option<RunOutcome> {
        let Self { waiter, _interest, .. } = self;
        waiter.outcome().await
    }
}
