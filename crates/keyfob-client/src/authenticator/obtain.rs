//! How somebody who needs a credential gets one.

use std::{
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use keyfob_api::ExecResponse;
use keyfob_exec::single_flight::{self, Waiter};
use tokio::runtime::Handle;

use super::{AuthError, Authenticator, Outcome, patience::Patience, plugin::Interactivity};
use crate::Credential;

/// How often a run may be lost with its runtime before a caller gives up.
const MOST_LOST: usize = 8;

/// Why a credential is wanted.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// There is none that is good.
    Missing,
    /// The server refused this generation.
    Refused(u64, Option<ExecResponse>),
    /// The current one ends soon.
    Ahead,
}

/// How far a caller got without waiting.
enum Step {
    Ready(Arc<Credential>),
    Waiting(Waiter<Outcome>),
}

impl Authenticator {
    /// Whatever it takes.
    pub(super) async fn obtain(&self, cause: Cause) -> Outcome {
        for _ in 0..MOST_LOST {
            match self.join(&cause)? {
                Step::Ready(credential) => return Ok(credential),
                Step::Waiting(waiter) => {
                    if let Some(outcome) = waiter.outcome().await {
                        return outcome;
                    }
                }
            }
        }
        Err(AuthError::Abandoned)
    }

    /// Returns a credential that has come in the meantime, or joins the run that is in flight, or starts a new one.
    fn join(&self, cause: &Cause) -> Result<Step, AuthError> {
        let inner = &self.inner;
        let mut desk = inner.desk();
        if let Some(credential) = self.serving(cause) {
            return Ok(Step::Ready(credential));
        }
        if let Some(waiter) = &desk.in_flight {
            return Ok(Step::Waiting(waiter.clone()));
        }
        let interactivity =
            inner.plugin.interactivity(&*inner.world.terminal).map_err(AuthError::Interactive)?;
        self.may_run(cause, interactivity, &mut desk.patience)
            .inspect_err(|error| inner.metrics.withheld(error))?;
        let runtime = Handle::try_current().map_err(|_| AuthError::NoRuntime)?;
        let owner = Arc::clone(inner);
        let (leader, waiter) = single_flight::start(move || owner.desk().in_flight = None);
        desk.in_flight = Some(waiter.clone());
        if let Cause::Refused(..) = cause {
            inner.metrics.refused();
        }
        // A runtime that is being shut down drops the run at once, and with it the leader, which takes this lock.
        drop(desk);
        runtime.spawn(Arc::clone(inner).run(leader, cause.clone(), interactivity));
        Ok(Step::Waiting(waiter))
    }

    /// The current credential, if it is what is wanted.
    fn serving(&self, cause: &Cause) -> Option<Arc<Credential>> {
        let current = self.current()?;
        let now = self.inner.world.clock.now();
        let serves = match cause {
            Cause::Missing => true,
            Cause::Refused(generation, _) => current.generation() != *generation,
            Cause::Ahead => false,
        };
        let is_good = current.is_usable(now) && !self.is_invalidated(&current);
        (serves && is_good).then_some(current)
    }

    fn may_run(
        &self,
        cause: &Cause,
        interactivity: Interactivity,
        patience: &mut Patience,
    ) -> Result<(), AuthError> {
        let (now, behaviour) = (self.inner.world.clock.now(), &self.inner.behaviour);
        // If it was replaced already, and its successor has expired without being refused, this is no refusal any more.
        let current = self.current().map_or(0, |current| current.generation());
        let invalidated = self.inner.invalidated.load(Ordering::Relaxed);
        if let Cause::Refused(generation, _) = cause
            && (*generation == current || invalidated >= current)
        {
            let accepted = self.inner.accepted.load(Ordering::Relaxed);
            patience.refused(current, accepted, now, behaviour)?;
        }
        patience.allows(interactivity, now, behaviour)
    }

    /// Starts a run that nobody waits for, if it is time for one and it needs nobody.
    pub(super) fn refresh_ahead(&self, now: SystemTime) {
        let inner = &self.inner;
        // Of several callers one takes it.
        if inner.desk().refresh_from.take_if(|from| *from <= now).is_none() {
            return;
        }
        let quiet = inner.plugin.interactivity(&*inner.world.terminal) == Ok(Interactivity::Quiet);
        if quiet && let Err(AuthError::NoRuntime) = self.join(&Cause::Ahead) {
            // Perhaps the next caller has one.
            inner.desk().refresh_from = Some(now);
        }
    }
}
