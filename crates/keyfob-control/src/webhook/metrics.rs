//! What a webhook counts.

use std::time::Duration;

use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::webhook::{Health, OnUndecided, decision::Decision};

type Outcome = [(&'static str, &'static str); 2];

/// The counters, and how they are read.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    decisions: Family<Outcome, Counter>,
    undecided: Family<Outcome, Counter>,
    duration: Histogram,
}

impl Metrics {
    pub(crate) fn new(health: &Health) -> Self {
        let mut registry = Registry::with_prefix("keyfob_audience");
        let (decisions, undecided) = (Family::default(), Family::default());
        let duration =
            Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        registry.register(
            "decisions",
            "Requests for tokens that the rule decided, by clause and outcome",
            Family::clone(&decisions),
        );
        registry.register(
            "undecided",
            "Requests for tokens without a decision, by cause and outcome",
            Family::clone(&undecided),
        );
        registry.register(
            "duration_seconds",
            "How long requests for tokens took, decided or not",
            duration.clone(),
        );
        health.register_metrics(&mut registry);
        Self { registry, decisions, undecided, duration }
    }

    pub(crate) fn count(&self, decision: &Decision, choice: OnUndecided, took: Duration) {
        let outcome = ("outcome", if decision.allows(choice) { "allowed" } else { "refused" });
        let (family, by) = match decision {
            Decision::Decided(_) => (&self.decisions, "clause"),
            _ => (&self.undecided, "cause"),
        };
        family.get_or_create(&[(by, decision.clause()), outcome]).inc();
        self.duration.observe(took.as_secs_f64());
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // A String takes everything.
        text::encode(&mut text, &self.registry).unwrap_or_default();
        text
    }
}
