//! What an authenticator can tell of itself.

use std::{sync::Arc, time::SystemTime};

use super::{AuthError, Authenticator, NotInteractive, plugin::Interactivity};
use crate::Credential;

/// How an authenticator stands, for people who ask.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthenticatorStatus {
    /// The newest credential, good or not.
    pub credential: Option<Arc<Credential>>,
    /// Whether it would be used now.
    pub is_usable: bool,
    /// Whether the plugin is running.
    pub is_running: bool,
    /// The last failure, if nothing went well since.
    pub last_failure: Option<AuthError>,
    /// When the plugin may be run again, if not at once.
    pub next_attempt: Option<SystemTime>,
}

impl Authenticator {
    /// Whether a run would talk to a person now, or why it cannot be run without one.
    pub fn is_interactive(&self) -> Result<bool, NotInteractive> {
        let inner = &self.inner;
        let interactivity = inner.plugin.interactivity(&*inner.world.terminal)?;
        Ok(interactivity == Interactivity::Interactive)
    }

    /// How it stands. Nothing is run.
    pub fn status(&self) -> AuthenticatorStatus {
        let inner = &self.inner;
        let interactivity = inner.plugin.interactivity(&*inner.world.terminal);
        let desk = inner.desk();
        let credential = self.current();
        let now = inner.world.clock.now();
        let allowed = desk.patience.allows(
            interactivity.unwrap_or(Interactivity::Quiet),
            now,
            &inner.behaviour,
        );
        let is_usable = |each: &Arc<Credential>| each.is_usable(now) && !self.is_invalidated(each);
        AuthenticatorStatus {
            is_usable: credential.as_ref().is_some_and(is_usable),
            credential,
            is_running: desk.in_flight.is_some(),
            last_failure: desk.patience.last().cloned(),
            next_attempt: allowed.err().and_then(|error| error.retry_at()),
        }
    }
}
