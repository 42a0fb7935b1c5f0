//! Credentials that a server refused and that nobody has needed a replacement for yet.

use std::sync::{Arc, atomic::Ordering};

use keyfob_api::ExecResponse;

use super::{AuthError, Authenticator};
use crate::Credential;

impl Authenticator {
    /// The server refused a credential with 401, and nothing is sent again now: whoever needs a credential next has the
    /// plugin run. Nothing is run here.
    pub fn invalidate(&self, generation: u64) {
        self.invalidate_with(generation, None);
    }

    /// The same, with the server's answer.
    pub(crate) fn invalidate_with(&self, generation: u64, response: Option<ExecResponse>) {
        let mut desk = self.inner.desk();
        let before = self.inner.invalidated.fetch_max(generation, Ordering::Relaxed);
        if before < generation {
            desk.refusal = response;
        }
    }

    /// The server accepted a credential. If it was invalidated and used again for want of another, it is good after all.
    pub(super) fn revalidate(&self, generation: u64) {
        let invalidated = &self.inner.invalidated;
        if invalidated.load(Ordering::Relaxed) == generation {
            let before = generation.saturating_sub(1);
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            // If it fails, a newer one was invalidated.
            let _is_done = invalidated.compare_exchange(generation, before, success, failure);
        }
    }

    /// The current credential, if it was invalidated and has not expired, and what the server answered to it.
    pub(super) fn invalidated(&self) -> Option<(Arc<Credential>, Option<ExecResponse>)> {
        let desk = self.inner.desk();
        let now = self.inner.world.clock.now();
        let current = self.current()?;
        let is_left = self.is_invalidated(&current) && current.is_usable(now);
        is_left.then(|| (current, desk.refusal.clone()))
    }

    /// Whether a server refused it for good, so that a new one is fetched before it is used again.
    pub(super) fn is_invalidated(&self, credential: &Credential) -> bool {
        credential.generation() <= self.inner.invalidated.load(Ordering::Relaxed)
    }

    /// A refused credential could not be replaced. Whoever sent the request gets the server's 401, so only the log says why.
    pub(crate) fn log_not_replaced(&self, error: &AuthError) {
        let command = self.command();
        let stderr = error.stderr().map(tracing::field::display);
        if error.retry_at().is_some() {
            tracing::debug!(command, %error, stderr, "credentials not refreshed after a 401");
        } else {
            tracing::warn!(command, %error, stderr, "refreshing credentials after a 401 failed");
        }
    }
}
