//! The rule as a validating admission webhook, for API servers without it.
//!
//! Every review is answered, and within its time: what the API server cannot be asked about, or not soon enough, is
//! [undecided](OnUndecided), and what comes on top of too many is refused at once, so that a flood opens no door.
//!
//! Differs: it is asked after the API server has put its own audiences in the place of none, so it must know them: they are given
//! with the policy, or [learnt](Health::probe); and of one audience it cannot tell whether the client wrote it.
//!
//! Upstream: `TokenREST.Create` in `pkg/registry/core/serviceaccount/storage`.

mod answer;
mod decision;
mod health;
mod metrics;
mod review;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Query, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use keyfob_api::GoDuration;
use serde::Deserialize;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    facts::{FactSource, judge_into},
    rule::{Asked, Facts, Policy},
};
use answer::{Answer, problem};
use decision::Decision;
pub use health::Health;
use metrics::Metrics;
use review::{Review, Subject};

/// The bytes of a review. A kubelet's has two thousand or so. Whoever reaches the port may send one on each connection: the server's
/// limits see to it that all of them fit into the memory that `deploy/base/deployment.yaml` gives.
pub const BODY_SIZE: usize = 256 << 10;

/// How a webhook answers.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers fill it in, with `..Default::default()` for the rest"
)]
pub struct Options {
    /// The rule's own settings.
    pub policy: Policy,
    /// What happens when it cannot decide.
    pub on_undecided: OnUndecided,
    /// How long a decision may take; less if the API server waits less.
    pub timeout: Duration,
    /// How many decisions may be on their way at once.
    pub at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            on_undecided: OnUndecided::default(),
            timeout: Duration::from_secs(4),
            at_once: 64,
        }
    }
}

/// What happens when the API server cannot be asked, or not soon enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUndecided {
    /// No token is given: pods that need one wait.
    #[default]
    Deny,
    /// The token is given, with a warning: a node may have what the rule forbids.
    Allow,
}

/// The webhook's paths: `/validate`, `/livez`, `/readyz` and `/metrics`.
pub fn router(source: Arc<dyn FactSource>, options: Options, health: Arc<Health>) -> Router {
    let metrics = Metrics::new(&health);
    let free = Semaphore::new(options.at_once);
    Router::new()
        .route("/validate", post(validate))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(count))
        .layer(DefaultBodyLimit::max(BODY_SIZE))
        .with_state(Arc::new(Webhook { source, options, health, metrics, free }))
}

struct Webhook {
    source: Arc<dyn FactSource>,
    options: Options,
    health: Arc<Health>,
    metrics: Metrics,
    free: Semaphore,
}

async fn validate(
    State(webhook): State<Arc<Webhook>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if !is_json(&headers) {
        return problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
    }
    let body = match body {
        Ok(body) => body,
        Err(error) => return problem(error.status(), &error.body_text()),
    };
    match Review::read(&body) {
        Ok(review) => webhook.answer(review, waits(&uri)).await.into_response(),
        Err(error) => problem(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

async fn ready(State(webhook): State<Arc<Webhook>>) -> Response {
    match webhook.health.report() {
        Ok(report) => report.into_response(),
        Err(report) => (StatusCode::SERVICE_UNAVAILABLE, report).into_response(),
    }
}

async fn count(State(webhook): State<Arc<Webhook>>) -> Response {
    const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, TEXT)], webhook.metrics.text()).into_response()
}

impl Webhook {
    async fn answer(&self, review: Review, waits: Option<Duration>) -> Answer {
        match review.subject {
            Subject::Token(asked) => {
                let started = Instant::now();
                let decision = self.decide(&asked, self.budget(waits)).await;
                self.metrics.count(&decision, self.options.on_undecided, started.elapsed());
                decision.log(&review.uid, &asked, self.options.on_undecided);
                decision.answer(review.uid, self.options.on_undecided)
            }
            Subject::Malformed(error) => Answer::malformed(review.uid, error),
            Subject::Another(what) => Answer::not_ours(review.uid, &what),
        }
    }

    async fn decide(&self, asked: &Asked, budget: Duration) -> Decision {
        let Ok(_room) = self.free.try_acquire() else { return Decision::Overloaded };
        let (policy, mut facts) = (self.policy(), Facts::default());
        let judged = judge_into(&mut facts, asked, &policy, &*self.source);
        match tokio::time::timeout(budget, judged).await {
            Err(_) => Decision::TooSlow(budget),
            // What was not answered might have allowed it.
            Ok(verdict) if !verdict.allowed() && !facts.unanswered.is_empty() => {
                Decision::Unanswered(facts.unanswered.join("; "))
            }
            Ok(verdict) if !verdict.allowed() && policy.api_audiences.is_empty() => {
                Decision::Unanswered("its own audiences are not known yet".to_owned())
            }
            Ok(verdict) => Decision::Decided(verdict),
        }
    }

    fn policy(&self) -> Policy {
        let mut policy = self.options.policy.clone();
        if policy.api_audiences.is_empty() {
            policy.api_audiences = self.health.api_audiences();
        }
        policy
    }

    /// A little less than the API server waits, so that it gets an answer and not a closed connection.
    fn budget(&self, waits: Option<Duration>) -> Duration {
        const WAY_BACK: Duration = Duration::from_millis(250);
        let most = waits.map(|waits| waits.saturating_sub(WAY_BACK.min(waits / 4)));
        most.map_or(self.options.timeout, |most| most.min(self.options.timeout))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

/// `?timeout=5s`: how long the API server waits. One that cannot be read says nothing.
fn waits(uri: &Uri) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Asked {
        timeout: String,
    }
    let Query(asked) = Query::<Asked>::try_from_uri(uri).ok()?;
    GoDuration::parse(&asked.timeout).ok()?.to_std()
}
