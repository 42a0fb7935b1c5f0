//! A question to a provider: answered from its cache, or by a run that others may wait for too.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{Boarded, Brought, Flown, Provider, Step};
use crate::{
    CallError, ProviderOutcome,
    flight::Pilot,
    question::{HeldQuestion, Question},
};

impl Provider {
    /// Answers from the cache, or starts or joins a run.
    pub(super) fn answer(
        self: &Arc<Self>,
        question: Question<'_>,
        now: SystemTime,
    ) -> Step<Boarded> {
        if let Some(hit) = self.cache.get(question.keys, now, self.retry_renewal()) {
            self.metrics.hits.inc();
            if hit.refresh {
                self.refresh(question, now);
            }
            return Step::Done(hit.into());
        }
        self.metrics.misses.inc();
        let (ticket, pilot) = self.flights.board(question.flight);
        let question = question.hold();
        if let Some(pilot) = pilot {
            self.take_off(pilot, &question, now);
        }
        Step::Waiting(Boarded { question, ticket })
    }

    /// Waits for a run. One that was lost with the runtime of whoever asked first is started again, once.
    pub(super) async fn arrive(self: &Arc<Self>, boarded: Boarded) -> ProviderOutcome {
        let Boarded { question, ticket } = boarded;
        let question = question.get();
        if let Some(outcome) = self.claim(ticket.redeem().await, question) {
            return outcome;
        }
        match self.answer(question, self.around.clock.now()) {
            Step::Done(outcome) => outcome,
            Step::Waiting(Boarded { ticket, .. }) => {
                let outcome = self.claim(ticket.redeem().await, question);
                outcome.unwrap_or_else(|| ProviderOutcome::Failed(Arc::new(CallError::Lost)))
            }
        }
    }

    /// Upstream's key of a flight has the token and not the account, so that two accounts with one token fly together.
    /// Each keeps what their run brought as its own; what one found in the cache is not the other's, who asks again.
    fn claim(&self, flown: Option<Flown>, question: Question<'_>) -> Option<ProviderOutcome> {
        let flown = match flown? {
            Ok(brought) if brought.account() != question.account() => match brought {
                Brought::Found(_) => return None,
                Brought::Fetched(fetched) => {
                    Ok(Brought::Fetched(self.keep_too(&fetched, question)))
                }
            },
            flown => flown,
        };
        Some(flown.into())
    }

    /// After how long a renewal is tried again: the last one has ended by then. Nothing if answers are not renewed.
    fn retry_renewal(&self) -> Option<Duration> {
        let options = &self.around.options;
        let backoff = options.backoff.unwrap_or_default().initial;
        options.refresh_ahead.and(Some(backoff.max(options.timeout_of(&self.name))))
    }

    /// In the background, and only if nobody is asking already.
    fn refresh(self: &Arc<Self>, question: Question<'_>, now: SystemTime) {
        if self.failures.hold(question.flight, now).is_some() {
            return;
        }
        if let (_, Some(pilot)) = self.flights.board(question.flight) {
            self.fly(pilot, &question.hold());
        }
    }

    /// Lands at once if the answer came while the caller was on its way, or if the question is not to be asked now.
    fn take_off(
        self: &Arc<Self>,
        pilot: Pilot<Flown>,
        question: &Arc<HeldQuestion>,
        now: SystemTime,
    ) {
        if let Some(hit) = self.cache.get(question.get().keys, now, None) {
            pilot.land(Ok(Brought::Found(hit)));
        } else if let Some(error) = self.failures.hold(question.get().flight, now) {
            pilot.land(Err(error));
        } else {
            self.fly(pilot, question);
        }
    }
}
