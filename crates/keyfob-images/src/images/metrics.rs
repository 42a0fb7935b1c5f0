//! How often images were wanted.
//!
//! Upstream: `pkg/kubelet/images/metrics.go`.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::PullPolicy;

type Labels = [(&'static str, &'static str); 3];

/// `kubelet_image_manager_ensure_image_requests_total`.
#[derive(Clone, Debug, Default)]
pub(super) struct EnsureRequests(Family<Labels, Counter>);

impl EnsureRequests {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "kubelet_image_manager_ensure_image_requests",
            "[ALPHA] Number of ensure-image requests processed by the kubelet",
            self.0.clone(),
        );
    }

    /// A request, counted when it is dropped.
    pub(super) fn begin(&self, policy: PullPolicy) -> EnsureRequest<'_> {
        EnsureRequest { all: self, policy, present_locally: None, pull_required: None }
    }
}

/// What is known of a request so far.
#[derive(Debug)]
pub(super) struct EnsureRequest<'a> {
    all: &'a EnsureRequests,
    policy: PullPolicy,
    pub(super) present_locally: Option<bool>,
    pub(super) pull_required: Option<bool>,
}

impl Drop for EnsureRequest<'_> {
    fn drop(&mut self) {
        let labels = [
            ("present_locally", known(self.present_locally)),
            ("pull_policy", self.policy.label()),
            ("pull_required", known(self.pull_required)),
        ];
        self.all.0.get_or_create(&labels).inc();
    }
}

fn known(fact: Option<bool>) -> &'static str {
    match fact {
        None => "unknown",
        Some(false) => "false",
        Some(true) => "true",
    }
}
