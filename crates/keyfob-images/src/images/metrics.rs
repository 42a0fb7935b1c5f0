//! How often images were wanted. Compiled with the feature `metrics` only; without it `metrics/disabled.rs` is used.
//!
//! Upstream: `pkg/kubelet/images/metrics.go`.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{ImageManager, PullPolicy};

type Labels = [(&'static str, &'static str); 3];

/// `kubelet_image_manager_ensure_image_requests_total`. A clone counts the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics(Family<Labels, Counter>);

impl Metrics {
    /// A request ended.
    pub(super) fn ensured(
        &self,
        policy: PullPolicy,
        present_locally: Option<bool>,
        pull_required: Option<bool>,
    ) {
        let policy = match policy {
            PullPolicy::Always => "always",
            PullPolicy::IfNotPresent => "ifnotpresent",
            PullPolicy::Never => "never",
        };
        let labels = [
            ("present_locally", known(present_locally)),
            ("pull_policy", policy),
            ("pull_required", known(pull_required)),
        ];
        self.0.get_or_create(&labels).inc();
    }
}

fn known(fact: Option<bool>) -> &'static str {
    match fact {
        None => "unknown",
        Some(false) => "false",
        Some(true) => "true",
    }
}

impl ImageManager {
    /// Adds what the manager counts to a registry, also what it has counted before. Needs the feature `metrics`.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register(
            "kubelet_image_manager_ensure_image_requests",
            "[ALPHA] Number of ensure-image requests processed by the kubelet",
            self.metrics.0.clone(),
        );
    }
}
