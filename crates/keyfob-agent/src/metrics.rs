//! What the agent counts. `docs/metrics.md` lists every metric.
//!
//! Labels have few values: paths, outcomes, and names of rules and providers. The names come from the configuration alone, and the series
//! of a name end when a reload removes it (`named_counters`). Numbers that the agent has anyway are read when somebody asks (`gauges`).

mod gauges;
mod named_counters;

use std::{fmt, sync::Arc, time::Duration};

use keyfob_agent_config::AgentConfig;
use keyfob_host::{Host, ProviderOutcome, ProviderReport};
use keyfob_metrics::EncodeAs as _;
use keyfob_net::server::OpenConnections;
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet,
        text::{encode_eof, encode_registry},
    },
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        histogram::Histogram,
    },
    registry::Registry,
};

use self::{gauges::Gauges, named_counters::NamedCounters};
use crate::{
    agent::Shared,
    audit::{AuditEvent, Outcome},
};

/// What a decision is counted under if no rule made it. Prometheus takes an empty label for one that is missing.
const NO_RULE: &str = "";

/// From an answer of the cache to the longest time that a plugin may take by default.
const RESPONSE_BUCKETS: [f64; 13] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 90.0];

/// Everything an agent counts. A clone counts the same.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    responses: Family<ResponseLabels, Histogram, ResponseTimes>,
    decisions: NamedCounters,
    provider_answers: NamedCounters,
    reloads: Family<ResultLabels, Counter>,
    renewals: Family<ResultLabels, Counter>,
    suppressed: Counter,
    connections: Connections,
}

/// The open connections of each listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    pub(crate) agent: OpenConnections,
    pub(crate) admin: OpenConnections,
    pub(crate) http: OpenConnections,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    request: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct ResponseTimes;

impl MetricConstructor<Histogram> for ResponseTimes {
    fn new_metric(&self) -> Histogram {
        Histogram::new(RESPONSE_BUCKETS)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self(Arc::new(Counters {
            responses: Family::new_with_constructor(ResponseTimes),
            decisions: NamedCounters::new("rule", &OUTCOMES),
            provider_answers: NamedCounters::new("plugin_name", &ANSWERS),
            reloads: Family::default(),
            renewals: Family::default(),
            suppressed: Counter::default(),
            connections: Connections::default(),
        }));
        for result in [true, false] {
            // An alert sees an increase only of a series that was there before.
            drop(metrics.0.reloads.get_or_create(&labels(result)));
            drop(metrics.0.renewals.get_or_create(&labels(result)));
        }
        metrics
    }
}

impl Metrics {
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// The rules and providers that are in use now. What others counted is forgotten.
    pub(crate) fn configured(&self, config: &AgentConfig, host: &Host) {
        let rules = config.rules.iter().map(|rule| &*rule.name);
        self.0.decisions.keep_only(rules.chain([NO_RULE]));
        let providers = host.providers();
        self.0.provider_answers.keep_only(providers.iter().map(|provider| provider.name()));
    }

    /// A request was answered, or its client went away.
    pub(crate) fn decided(&self, event: &AuditEvent, took: Duration) {
        let outcome = outcome(event.outcome);
        let labels = ResponseLabels { request: event.request, outcome };
        self.0.responses.get_or_create(&labels).observe(took.as_secs_f64());
        self.0.decisions.increment(event.rule.as_deref().unwrap_or(NO_RULE), outcome);
    }

    /// Providers were asked, for a caller or to stay warm.
    pub(crate) fn answered(&self, reports: &[ProviderReport]) {
        for report in reports {
            let answer = match &report.outcome {
                ProviderOutcome::Cached { .. } => "cached",
                ProviderOutcome::Ran { .. } => "ran",
                ProviderOutcome::Skipped(_) => "skipped",
                // Failed, or something new: nothing that it has is known.
                _ => "failed",
            };
            self.0.provider_answers.increment(&report.provider, answer);
        }
    }

    /// A request is not in the audit log, because its caller got nothing too often.
    pub(crate) fn suppressed(&self) {
        self.0.suppressed.inc();
    }

    pub(crate) fn reloaded(&self, succeeded: bool) {
        self.0.reloads.get_or_create(&labels(succeeded)).inc();
    }

    pub(crate) fn renewed(&self, succeeded: bool) {
        self.0.renewals.get_or_create(&labels(succeeded)).inc();
    }

    /// Where the listeners count their connections.
    pub(crate) fn connections(&self) -> &Connections {
        &self.0.connections
    }
}

const OUTCOMES: [&str; 7] =
    ["abandoned", "allowed", "bad_request", "denied", "empty", "failed", "rate_limited"];
const ANSWERS: [&str; 4] = ["cached", "ran", "skipped", "failed"];

/// One of [`OUTCOMES`].
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed => "allowed",
        Outcome::Abandoned => "abandoned",
        Outcome::BadRequest => "bad_request",
        Outcome::Denied => "denied",
        Outcome::Empty => "empty",
        Outcome::Failed => "failed",
        Outcome::RateLimited => "rate_limited",
    }
}

fn labels(succeeded: bool) -> ResultLabels {
    ResultLabels { result: if succeeded { "success" } else { "failure" } }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Counters {
            responses,
            decisions,
            provider_answers,
            reloads,
            renewals,
            suppressed,
            connections: _,
        } = &*self.0;
        let encoder = &mut encoder;
        responses.encode_as(
            encoder,
            "keyfob_agent_response_duration_seconds",
            "How long requests for credentials took, by path and outcome",
        )?;
        decisions.encode_as(
            encoder,
            "keyfob_agent_decisions",
            "Decisions about requests for credentials, by rule and outcome",
        )?;
        provider_answers.encode_as(
            encoder,
            "keyfob_agent_provider_answers",
            "Answers of providers to callers and to renewals",
        )?;
        reloads.encode_as(encoder, "keyfob_agent_reloads", "Reloads of the configuration")?;
        renewals.encode_as(
            encoder,
            "keyfob_agent_renewals",
            "Requests that the agent made itself to stay warm",
        )?;
        suppressed.encode_as(
            encoder,
            "keyfob_agent_audit_events_suppressed",
            "Requests that are not in the audit log because their callers got nothing, or nothing new, too often",
        )
    }
}

/// The text that a scrape gets.
pub(crate) fn exposition(shared: &Shared) -> String {
    let mut gauges = Registry::default();
    gauges.register_collector(Box::new(Gauges::of(shared)));
    let mut text = String::new();
    // A String takes everything.
    encode_registry(&mut text, &shared.registry)
        .and_then(|()| encode_registry(&mut text, &gauges))
        .and_then(|()| encode_eof(&mut text))
        .unwrap_or_default();
    text
}
