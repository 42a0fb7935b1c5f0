//! What stands in for the counters without the feature `metrics`: the same methods, which do nothing.

use std::{sync::Arc, time::SystemTime};

use keyfob_exec::Finished;

use crate::{AuthError, Identity, authenticator::Outcome};

/// Counts nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(());

#[expect(clippy::unused_self, reason = "the same signatures as with the feature `metrics`")]
impl Metrics {
    pub(crate) fn called(&self, _: &Result<Finished, AuthError>) {}

    pub(crate) fn policy(&self, _: bool) {}

    pub(crate) fn rotated(
        &self,
        _: Option<&Arc<Identity>>,
        _: Option<&Arc<Identity>>,
        _: SystemTime,
    ) {
    }

    pub(crate) fn ran(&self, _: &Outcome) {}

    pub(crate) fn withheld(&self, _: &AuthError) {}

    pub(crate) fn refused(&self) {}

    pub(crate) fn replayed(&self, _: &'static str) {}

    pub(crate) fn refreshed_ahead(&self, _: bool) {}
}
