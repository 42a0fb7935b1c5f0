//! The answer in a sentence.

use keyfob_host::{ProviderOutcome, Skipped};
use keyfob_keyring::Credential;

use crate::{
    agent_source::AgentAnswer,
    identity_args::{Finding, Puller, Standing},
    lookup::Found,
    match_images::shown,
};

/// What the pull gets, or why it gets nothing.
pub(super) fn sentence(found: &Found, puller: Option<&Puller>) -> String {
    let outcomes = || found.reports.iter().map(|report| &report.outcome);
    let refused = puller.and_then(refused);
    let why = match found.credentials.as_slice() {
        [only] => return format!("1 credential: {}", user(only)),
        [first, ..] => {
            let count = found.credentials.len();
            return format!("{count} credentials; the first that will be tried is {}", user(first));
        }
        [] if found.agent.is_some() => return without_agent(found),
        [] if found.reports.is_empty() => "no pattern of a provider and no key of a file matches",
        [] if passed_over(found).next().is_some() => return unknown(found),
        [] if refused.is_some() => refused.as_deref().unwrap_or_default(),
        [] if outcomes().all(|outcome| matches!(outcome, ProviderOutcome::Failed(_))) => {
            "every provider that matches failed"
        }
        [] if outcomes().all(|outcome| matches!(outcome, ProviderOutcome::Skipped(_))) => {
            "every provider that matches is passed over"
        }
        [] => "no answer of a provider is for this image",
    };
    format!("no credentials: {why}; the pull would be anonymous{}", failures(found))
}

/// Why the agent gave nothing. Whether a pull would be anonymous depends on who pulls.
fn without_agent(found: &Found) -> String {
    let cause = found.agent.as_ref().and_then(AgentAnswer::cause);
    format!("no credentials: {}", cause.as_deref().unwrap_or("the agent has none for this image"))
}

/// Why the pod's node gets no token.
fn refused(puller: &Puller) -> Option<String> {
    let findings = puller.findings();
    let refused = findings.iter().find(|each| matches!(each.standing, Standing::Refused(_)));
    refused.map(Finding::sentence)
}

/// Whether the pull would be tried without credentials. Nobody can tell if a provider was passed over and the others gave
/// nothing, or if the agent gave nothing: that is about whoever asks, and another may pull.
pub(super) fn is_anonymous(found: &Found) -> Option<bool> {
    let is_empty = found.credentials.is_empty();
    let is_known = found.agent.is_none() && passed_over(found).next().is_none();
    (!is_empty || is_known).then_some(is_empty)
}

/// Who logs in, and who says so.
fn user(credential: &Credential) -> String {
    let source = credential.source().to_string();
    format!("{} from {}", shown(credential.username()), shown(&source))
}

/// A kubelet knows the pod.
fn unknown(found: &Found) -> String {
    let names: Vec<_> = passed_over(found).map(shown).collect();
    let are_asked = match names.as_slice() {
        [one] => format!("provider {one} is asked"),
        _ => format!("providers {} are asked", names.join(", ")),
    };
    format!(
        "unknown here: {are_asked} with the pod's service account, which was not given{}",
        failures(found)
    )
}

/// The providers that cannot be asked here. One whose annotation is missing would not be asked by a kubelet either.
fn passed_over(found: &Found) -> impl Iterator<Item = &str> {
    let reports = found.reports.iter();
    let skipped = reports
        .filter(|each| matches!(each.outcome, ProviderOutcome::Skipped(Skipped::NoServiceAccount)));
    skipped.map(|report| &*report.provider)
}

/// That some failed, if the others did not; nothing if all did, which is said already.
fn failures(found: &Found) -> String {
    let failed = found.errors().count();
    match failed {
        0 => String::new(),
        _ if failed == found.reports.len() => String::new(),
        1 => "; 1 provider failed".to_owned(),
        _ => format!("; {failed} providers failed"),
    }
}
