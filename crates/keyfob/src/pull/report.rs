//! The answer, in its documented shape.

use std::{sync::Arc, time::Duration};

use indicatif::HumanBytes;
use keyfob_api::Chain;
use keyfob_host::{ProviderOutcome, ProviderReport};
use keyfob_images::{Attempt, Ensured, FailedAttempt, PlaceAnswer, PullAccess, Pulled};
use serde::Serialize;

use super::{
    access,
    failure::Failure,
    order::{Done, Order},
    screen::verb,
};
use crate::{
    agent_source::{AgentAnswer, AgentReport},
    match_images::shown,
};

/// What there is to say about a pull.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    image: &'a str,
    name: String,
    policy: &'static str,
    layout: String,
    records: Option<String>,
    result: Outcome,
    image_id: Option<String>,
    digest: Option<String>,
    manifest: Option<String>,
    platform: Option<String>,
    size: Option<u64>,
    from: Option<String>,
    source: Option<String>,
    username: Option<String>,
    took_ms: Option<u64>,
    note: Option<String>,
    attempts: Vec<Tried>,
    providers: Vec<Asked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentReport>,
    error: Option<Error<'a>>,
    /// Who may use it from now on; nothing if that is not recorded.
    #[serde(skip)]
    access: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Pulled,
    Present,
    Failed,
}

/// One attempt.
#[derive(Debug, Serialize)]
struct Tried {
    from: String,
    source: Option<String>,
    username: Option<String>,
    result: &'static str,
    message: Option<String>,
}

/// A provider that matches.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Asked {
    provider: String,
    repository: String,
    result: &'static str,
    message: Option<String>,
}

#[derive(Debug, Serialize)]
struct Error<'a> {
    reason: &'static str,
    message: &'a str,
    why: Option<&'a str>,
    advice: Option<&'a str>,
}

impl<'a> Report<'a> {
    pub(super) fn new(order: &'a Order, done: &Done, failure: Option<&'a Failure>) -> Self {
        let ensured = done.ensured.as_ref().ok();
        let pulled = ensured.and_then(|ensured| ensured.pulled.as_ref());
        let stored = ensured.and(done.stored.as_ref());
        let credential = pulled.and_then(|pulled| pulled.attempt.credential.as_ref());
        let is_recorded = |pulled: &Pulled| order.records.is_some() && pulled.unrecorded.is_none();
        let was_recorded = pulled.is_some_and(is_recorded);
        Self {
            image: &order.wanted.image,
            name: order.image.to_string(),
            policy: order.wanted.policy.as_str(),
            layout: order.layout.path().display().to_string(),
            records: order.records.as_ref().map(|records| records.root.display().to_string()),
            result: Outcome::of(ensured),
            image_id: ensured.map(|ensured| ensured.image_id.clone()),
            digest: stored.map(|image| image.pulled.to_string()),
            manifest: stored.map(|image| image.manifest.to_string()),
            platform: stored.and_then(|image| Some(image.platform.as_ref()?.to_string())),
            size: stored.map(|image| image.size),
            from: pulled.map(|pulled| pulled.attempt.from.to_string()),
            source: credential.map(|login| login.source().to_string()),
            username: credential.map(|login| login.username().to_owned()),
            took_ms: pulled
                .map(|pulled| u64::try_from(pulled.took.as_millis()).unwrap_or(u64::MAX)),
            note: pulled.and_then(|_| recreated(done)),
            attempts: attempts(done, pulled),
            providers: providers(&done.answers),
            agent: done.agent.as_ref().map(AgentAnswer::report),
            error: failure.map(|failure| Error {
                reason: failure.reason,
                message: &failure.message,
                why: failure.why.as_deref(),
                advice: failure.advice.as_deref(),
            }),
            access: was_recorded.then(|| access::summary(&PullAccess::of(credential))),
        }
    }

    pub(super) fn json(&self) -> String {
        crate::page::json(self)
    }

    /// Nothing at all if the image cannot be used.
    pub(super) fn table(&self) -> String {
        let headline = match (self.result, self.took_ms) {
            (Outcome::Failed, _) => return String::new(),
            (Outcome::Pulled, took) => {
                let took = Duration::from_millis(took.unwrap_or_default()).as_secs_f64();
                let but =
                    if self.error.is_some() { ", and did not record who may use it" } else { "" };
                format!("pulled {} in {took:.1} s{but}", self.name)
            }
            (Outcome::Present, _) => format!("present {}, and may be used", self.name),
        };
        let with = match (&self.source, &self.username) {
            (Some(source), Some(user)) => Some(format!("{} as {}", shown(source), shown(user))),
            _ => self.from.as_ref().map(|_| "no credentials".to_owned()),
        };
        let lines = [
            ("image id", self.image_id.clone()),
            ("digest", self.digest.clone()),
            ("platform", self.platform.as_deref().map(|platform| shown(platform).into_owned())),
            ("size", self.size.map(|size| HumanBytes(size).to_string())),
            ("from", self.from.clone()),
            ("with", with),
            ("for", self.access.as_deref().map(keyfob_exec::on_one_line)),
            ("note", self.note.as_deref().map(keyfob_exec::on_one_line)),
            ("layout", Some(shown(&self.layout).into_owned())),
        ];
        let line =
            |(label, text): (&str, Option<String>)| Some(format!("  {label:<9} {}\n", text?));
        format!("{headline}\n") + &lines.into_iter().filter_map(line).collect::<String>()
    }
}

impl Outcome {
    fn of(ensured: Option<&Ensured>) -> Self {
        match ensured {
            None => Self::Failed,
            Some(Ensured { pulled: Some(_), .. }) => Self::Pulled,
            Some(_) => Self::Present,
        }
    }
}

/// Why an image that was here was pulled for an account that is on record, as it seems. It is said only to whoever has proved
/// access: a refusal does not tell whom an image is for.
fn recreated(done: &Done) -> Option<String> {
    let account = done.account.as_ref()?;
    let uids: Vec<&str> = done.earlier.iter().map(|each| each.uid.as_str()).collect();
    (!uids.is_empty()).then(|| {
        format!(
            "service account {account} was recorded with uid {} and has uid {} now: it was deleted and recreated, so access had \
             to be proved again",
            uids.join(", "),
            account.uid
        )
    })
}

/// Those that failed, and the one that did not.
fn attempts(done: &Done, pulled: Option<&Pulled>) -> Vec<Tried> {
    let failed = match (&done.ensured, pulled) {
        (Err(error), _) => error.attempts.as_slice(),
        (Ok(_), Some(pulled)) => &pulled.failed,
        (Ok(_), None) => &[],
    };
    let tried = failed.iter().map(Tried::failed);
    tried.chain(pulled.map(|pulled| Tried::succeeded(&pulled.attempt))).collect()
}

impl Tried {
    fn failed(attempt: &FailedAttempt) -> Self {
        let with = attempt.with.as_ref();
        Self {
            from: attempt.from.to_string(),
            source: with.map(|login| login.source.to_string()),
            username: with.map(|login| login.username.clone()),
            result: verb(attempt.kind),
            message: Some(attempt.message.clone()),
        }
    }

    fn succeeded(Attempt { from, credential }: &Attempt) -> Self {
        Self {
            from: from.to_string(),
            source: credential.as_ref().map(|login| login.source().to_string()),
            username: credential.as_ref().map(|login| login.username().to_owned()),
            result: "pulled",
            message: None,
        }
    }
}

/// What each provider did for each place. That it was asked again and had the same is not worth telling.
fn providers(answers: &[Arc<PlaceAnswer>]) -> Vec<Asked> {
    let mut told: Vec<Asked> = Vec::new();
    for new in answers.iter().flat_map(|place| asked(place)) {
        let is_same = |old: &Asked| {
            (&old.provider, &old.repository) == (&new.provider, &new.repository)
                && (new.result == "cached" || *old == new)
        };
        if !told.iter().any(is_same) {
            told.push(new);
        }
    }
    told
}

fn asked(place: &PlaceAnswer) -> Vec<Asked> {
    let repository = place.from.repository();
    let one = |report: &ProviderReport| {
        let (result, message) = match &report.outcome {
            ProviderOutcome::Ran { .. } => ("ran", None),
            ProviderOutcome::Cached { .. } => ("cached", None),
            ProviderOutcome::Skipped(why) => ("skipped", Some(why.to_string())),
            ProviderOutcome::Failed(error) => ("failed", Some(Chain(&**error).to_string())),
            _ => ("other", None),
        };
        let (provider, repository) = (report.provider.to_string(), repository.to_owned());
        Asked { provider, repository, result, message }
    };
    place.answer.reports.iter().map(one).collect()
}
