//! One run, from its start to what it changes.

use std::sync::{Arc, Weak};

use keyfob_api::ExecCredentialStatus;
use keyfob_exec::single_flight::Leader;

use super::{
    AuthError, Inner, Outcome,
    obtain::Cause,
    plugin::{Around, Interactivity},
};
use crate::{Credential, Identity};

impl Inner {
    /// Runs the plugin, and tells everybody.
    pub(super) async fn run(
        self: Arc<Self>,
        leader: Leader<Outcome>,
        cause: Cause,
        interactivity: Interactivity,
    ) {
        let response = match &cause {
            Cause::Refused(_, response) => response.clone(),
            Cause::Missing | Cause::Ahead => None,
        };
        let Self { world, behaviour, metrics, .. } = &*self;
        let around = Around { world, behaviour, metrics };
        let asked = self.plugin.ask(interactivity, response, around).await;
        let outcome = match asked.and_then(with_identity) {
            Ok((status, identity)) => Ok(self.store(status, identity)),
            Err(error) => Err(self.failed(error, interactivity)),
        };
        self.metrics.ran(&outcome);
        self.report(&cause, &outcome);
        // The slot was emptied with the change that the outcome made, and may already have a new run in it.
        leader.finish_released(outcome);
    }

    /// Everything of an answer becomes current at once.
    fn store(&self, status: ExecCredentialStatus, identity: Option<Identity>) -> Arc<Credential> {
        let now = self.world.clock.now();
        let mut desk = self.desk();
        let old = self.current.load_full();
        let old_identity = old.as_ref().and_then(|old| old.identity());
        let identity = identity.map(|new| match old_identity {
            Some(old) if old.is_same(&new) => Arc::clone(old),
            _ => Arc::new(new),
        });
        self.metrics.rotated(old_identity, identity.as_ref(), now);
        let generation = old.as_ref().map_or(0, |old| old.generation()) + 1;
        let credential = Credential::new(generation, status, identity, now, &self.behaviour);
        let credential = Arc::new(credential);
        self.current.store(Some(Arc::clone(&credential)));
        desk.refresh_from = self.behaviour.refresh_ahead.then_some(now);
        desk.patience.succeeded();
        desk.refusal = None;
        desk.in_flight = None;
        drop(desk);
        if old_identity.map(Arc::as_ptr) != credential.identity().map(Arc::as_ptr) {
            self.tell_observers(credential.identity());
        }
        credential
    }

    fn tell_observers(&self, identity: Option<&Arc<Identity>>) {
        let observers = self.observers().clone();
        for observer in observers.iter().filter_map(Weak::upgrade) {
            observer.identity_changed(identity);
        }
    }

    /// The old credential stays as it is.
    fn failed(&self, error: AuthError, interactivity: Interactivity) -> AuthError {
        let now = self.world.clock.now();
        let mut desk = self.desk();
        let next = desk.patience.failed(&error, interactivity, now, &self.behaviour);
        desk.refresh_from = self.behaviour.refresh_ahead.then_some(next);
        desk.in_flight = None;
        error
    }

    /// What nobody waits for is logged; every other failure reaches its callers.
    fn report(&self, cause: &Cause, outcome: &Outcome) {
        let command = self.plugin.command();
        match (cause, outcome) {
            (Cause::Ahead, Err(error)) => {
                self.metrics.refreshed_ahead(false);
                let stderr = error.stderr().map(tracing::field::display);
                tracing::warn!(
                    command,
                    %error,
                    stderr,
                    "credential could not be refreshed ahead of its end; the old one is still used"
                );
            }
            (Cause::Ahead, Ok(_)) => self.metrics.refreshed_ahead(true),
            _ => {}
        }
        if let Ok(credential) = outcome {
            tracing::debug!(
                command,
                generation = credential.generation(),
                expiration = credential.expiration().map(tracing::field::display),
                "credential fetched"
            );
        }
    }
}

/// Reads the pair of an answer.
fn with_identity(
    status: ExecCredentialStatus,
) -> Result<(ExecCredentialStatus, Option<Identity>), AuthError> {
    let identity = status.identity.clone().map(Identity::parse).transpose();
    Ok((status, identity.map_err(AuthError::Pair)?))
}
