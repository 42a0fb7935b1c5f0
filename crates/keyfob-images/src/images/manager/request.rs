//! A request for an image, which is counted when it ends.

use super::super::{PullPolicy, metrics::Metrics};

/// What is known of a request so far.
#[derive(Debug)]
pub(super) struct EnsureRequest<'a> {
    metrics: &'a Metrics,
    policy: PullPolicy,
    pub(super) present_locally: Option<bool>,
    pub(super) pull_required: Option<bool>,
}

impl<'a> EnsureRequest<'a> {
    /// A request of which nothing is known yet.
    pub(super) fn new(metrics: &'a Metrics, policy: PullPolicy) -> Self {
        Self { metrics, policy, present_locally: None, pull_required: None }
    }
}

impl Drop for EnsureRequest<'_> {
    /// However the request ended, also if nobody waited for it.
    fn drop(&mut self) {
        self.metrics.ensured(self.policy, self.present_locally, self.pull_required);
    }
}
