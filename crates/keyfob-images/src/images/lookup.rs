//! Credentials, asked for when they are needed and not twice.

use keyfob_api::Chain;

use super::{Attempt, EnsureError, EnsureReason, PullCredentials};

/// What may be tried, once it is known.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    pub(super) credentials: &'a dyn PullCredentials,
    found: Option<Vec<Attempt>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(credentials: &'a dyn PullCredentials) -> Self {
        Self { credentials, found: None }
    }

    /// The attempts, asked for unless that was done before.
    pub(super) async fn attempts(&mut self) -> Result<&[Attempt], EnsureError> {
        let found = match self.found.take() {
            Some(found) => found,
            None => self.credentials.attempts().await.map_err(|error| {
                let message = Chain(&error).to_string();
                EnsureError::new(EnsureReason::CredentialLookupFailed, message)
                    .caused_by(error.into_inner())
            })?,
        };
        Ok(self.found.insert(found))
    }
}
