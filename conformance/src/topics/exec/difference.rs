//! Why two stories differ.

mod words;

use keyfob_api::ClientIdentity;
use keyfob_client::Identity;
use serde_json::Value;

use super::{Question, has_expired};
use crate::topics::stand_ins::PAIRS;

/// The row of `DIFFERENCES.md` that explains it.
pub(super) fn explained(
    question: &Question,
    ours: &Value,
    upstream: &Value,
) -> Option<&'static str> {
    if is_refused_at_once(question, ours, upstream) {
        return Some("token-that-is-no-header");
    }
    words::explained(question, ours, upstream).or_else(|| {
        let (ours, upstream) = (Story::of(ours)?, Story::of(upstream)?);
        if is_run_for_the_handshake(question, &ours, &upstream) {
            Some("exec-run-again-for-the-handshake")
        } else if has_left_its_expiry(question, &ours, &upstream) {
            Some("exec-expiry-left-behind")
        } else {
            None
        }
    })
}

/// What happened, if there was a client.
struct Story<'a> {
    runs: &'a [Value],
    requests: &'a [Value],
    logged: &'a [Value],
}

impl<'a> Story<'a> {
    fn of(answer: &'a Value) -> Option<Self> {
        let list = |name| answer.get(name).and_then(Value::as_array).map(Vec::as_slice);
        Some(Self { runs: list("runs")?, requests: list("requests")?, logged: list("logged")? })
    }
}

/// The user's own token can never be sent. Upstream says so with each request.
fn is_refused_at_once(question: &Question, ours: &Value, upstream: &Value) -> bool {
    let has_token = question.user.get("token").is_some_and(|token| token != "");
    let refusal = "net/http: invalid header field value for \"Authorization\"";
    let is_refused = |request: &Value| {
        let error = request.get("error").and_then(Value::as_str);
        error.is_some_and(|error| error.ends_with(&format!("/version\": {refusal}")))
    };
    has_token
        && ours.get("error") == Some(&Value::from(refusal))
        && Story::of(upstream)
            .is_some_and(|story| story.runs.is_empty() && story.requests.iter().all(is_refused))
}

/// The first answer has expired already, so upstream's handshake has it fetched once more. If the plugin always says the same,
/// nothing else differs; if not, the later requests have later answers.
fn is_run_for_the_handshake(question: &Question, ours: &Story<'_>, upstream: &Story<'_>) -> bool {
    let first = question.answers().next().flatten();
    let same = if question.plugin.len() == 1 { ours.requests.len() } else { 1 };
    question.asks_for_certificates
        && first.is_some_and(has_expired)
        && upstream.runs.len() == ours.runs.len() + 1
        && upstream.runs.starts_with(ours.runs)
        && upstream.logged == ours.logged
        && upstream.requests.get(..same) == ours.requests.get(..same)
}

/// A new answer had a pair that cannot be read. Upstream keeps its expiry, with the old token: everything is the same until
/// then.
fn has_left_its_expiry(question: &Question, ours: &Story<'_>, upstream: &Story<'_>) -> bool {
    let statuses: Vec<_> = question.answers().collect();
    let bad = statuses.iter().position(|status| status.is_some_and(has_bad_pair));
    let some_expire = statuses.iter().flatten().any(|status| has_expired(status));
    bad.is_some_and(|bad| {
        bad > 0
            && some_expire
            && ours.runs.get(..=bad) == upstream.runs.get(..=bad)
            && ours.logged.first() == upstream.logged.first()
            && ours.requests.first() == upstream.requests.first()
    })
}

fn has_bad_pair(status: &Value) -> bool {
    let part =
        |name| status.get(name).and_then(Value::as_str).map(|text| PAIRS.stand_ins.in_plain(text));
    let pair = part("clientCertificateData").zip(part("clientKeyData"));
    pair.is_some_and(|(certificate, key)| {
        let pem = ClientIdentity { certificate_pem: certificate.into(), key_pem: key.into() };
        Identity::parse(pem).is_err()
    })
}
