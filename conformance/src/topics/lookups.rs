//! What comes of lookups one after the other, by pods of this account or that, while time passes between them?
#![expect(clippy::indexing_slicing, reason = "what a JSON value does not have is null")]

mod accounts;
mod made_up;
mod stage;

use std::time::{Duration, SystemTime};

use keyfob_api::{Chain, GoDuration};
use keyfob_exec::Clock as _;
use keyfob_host::{Answer, CallError, Host, Pull};
use keyfob_keyring::Credential;
use keyfob_testkit::{ManualClock, Script};
use proptest::strategy::BoxedStrategy;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Topic;
use accounts::{Account, Pod};
use stage::Stage;

pub(crate) struct Lookups;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    providers: Vec<Provider>,
    #[serde(default)]
    accounts: Vec<Account>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    name: String,
    match_images: Vec<String>,
    default_cache_duration: String,
    api_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_attributes: Option<Value>,
    /// Behind the first, which is the plugin's script.
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    /// What its plugin does, one after the other, and then from the first again.
    answers: Vec<Script>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Advance(String),
    LookUp(String),
    LookUpFor {
        image: String,
        pod: Pod,
    },
    /// From now on it is like this.
    Account(Account),
}

impl Step {
    /// The image that is looked up, and for which pod.
    fn lookup(&self) -> Option<(&str, Option<&Pod>)> {
        match self {
            Self::LookUp(image) => Some((image, None)),
            Self::LookUpFor { image, pod } => Some((image, Some(pod))),
            Self::Advance(_) | Self::Account(_) => None,
        }
    }
}

impl Topic for Lookups {
    const NAME: &'static str = "lookups";
    const QUESTIONS: u32 = 1_500;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        made_up::questions()
    }

    fn ours(question: &Question) -> Value {
        let mut stage = Stage::new(&question.providers, &question.accounts);
        match stage.host() {
            Ok(host) => sequence(&mut stage, &host, &question.steps),
            Err(error) => json!({ "error": error }),
        }
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let lookups = upstream["lookups"].as_array()?;
        let at = first_that_differs(ours, upstream);
        let (many, few) = match at {
            Some(at) => (&ours["lookups"][at]["asked"], &lookups[at]["asked"]),
            None => (&upstream["kept"], &ours["kept"]),
        };
        let before = lookups.get(..at.unwrap_or(lookups.len()))?;
        // Whose pull it is has nothing to do with the clock.
        if at.is_some_and(|at| ours["lookups"][at]["identity"] != lookups[at]["identity"]) {
            return None;
        }
        if let (Some(at), true) = (at, many == few) {
            // Something wider was still kept, which upstream finds only if there is nothing narrower.
            let mut providers = question.providers.iter().map(|provider| provider.name.as_str());
            let forgotten = providers.any(|provider| question.was_set_back_for(provider, before));
            let as_many_failed = ours["lookups"][at]["failed"] == lookups[at]["failed"];
            return (forgotten && as_many_failed).then_some("clock-set-back");
        }
        let mut differ = providers_with_more(many, few)?;
        let forgotten = differ.all(|provider| question.was_set_back_for(provider, before));
        forgotten.then_some("clock-set-back")
    }

    fn sort(upstream: &Value) -> &'static str {
        let Some(lookups) = upstream["lookups"].as_array() else { return "refused" };
        let is_empty = |value: &Value| {
            value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(Map::is_empty)
        };
        let failed = lookups.iter().any(|lookup| !is_empty(&lookup["failed"]));
        let found = lookups.iter().any(|lookup| !is_empty(&lookup["credentials"]));
        let is_kept =
            |lookup: &&Value| is_empty(&lookup["asked"]) && !is_empty(&lookup["credentials"]);
        let mut kept = lookups.iter().filter(is_kept);
        if kept.any(|lookup| !lookup["credentials"][0]["serviceAccount"].is_null()) {
            return "kept for an account";
        }
        let kept = lookups.iter().any(|lookup| is_kept(&lookup));
        match (found, kept, failed) {
            (false, _, false) => "found nothing",
            (false, _, true) => "only failed",
            (true, false, false) => "always ran",
            (true, false, true) => "ran and failed",
            (true, true, false) => "ran and kept",
            (true, true, true) => "ran, kept and failed",
        }
    }
}

fn sequence(stage: &mut Stage, host: &Host, steps: &[Step]) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let start = stage.clock.now();
    let mut lookups = Vec::new();
    for step in steps {
        match step {
            Step::Advance(by) => advance(&stage.clock, GoDuration::parse(by).expect("a duration")),
            Step::Account(account) => stage.accounts.set(account),
            Step::LookUp(_) | Step::LookUpFor { .. } => {}
        }
        let Some((image, pod)) = step.lookup() else { continue };
        let pull = match Pull::parse(image) {
            Ok(pull) => pull,
            Err(error) => return json!({ "error": error.to_string() }),
        };
        let pull = pod.map(Pod::identity).into_iter().fold(pull, Pull::with_pod);
        let answer = runtime.block_on(host.credentials(&pull));
        lookups.push(found(&answer, stage));
    }
    let (kept, errors, started) = (stage.kept(host, start), stage.errors(), stage.started());
    json!({ "lookups": lookups, "kept": kept, "errors": errors, "started": started })
}

fn advance(clock: &ManualClock, by: GoDuration) {
    let length = Duration::from_nanos(by.as_nanos().unsigned_abs());
    if by.is_negative() { clock.set_back(length) } else { clock.advance(length) }
}

fn found(answer: &Answer, stage: &mut Stage) -> Value {
    let credentials: Vec<Value> = answer.credentials.iter().map(shown).collect();
    let failed: Vec<&str> = answer.errors().map(|(provider, _)| provider).collect();
    let mut found =
        json!({ "credentials": credentials, "failed": failed, "asked": stage.new_requests() });
    let why: Map<String, Value> = answer.errors().filter_map(why).collect();
    if !why.is_empty() {
        found["why"] = why.into();
    }
    if let Some(requests) = stage.accounts.new_requests() {
        found["identity"] = requests;
    }
    found
}

fn shown(credential: &Credential) -> Value {
    let mut shown = json!({
        "username": credential.username(),
        "password": credential.password().expose(),
        "hash": credential.hash(),
    });
    if let Some(account) = credential.service_account() {
        let [namespace, name, uid] = [&account.namespace, &account.name, &account.uid];
        shown["serviceAccount"] = json!({ "namespace": namespace, "name": name, "uid": uid });
    }
    shown
}

/// Why a provider failed, where we say it in upstream's words: whatever is about the service account.
fn why((provider, error): (&str, &CallError)) -> Option<(String, Value)> {
    let is_said_alike = matches!(
        error,
        CallError::Identity { .. }
            | CallError::CacheKey(_)
            | CallError::ServiceAccountKey(_)
            | CallError::EchoedToken
    );
    is_said_alike.then(|| (provider.to_owned(), json!(Chain(error).to_string())))
}

/// The first lookup that two answers do not have in common.
fn first_that_differs(ours: &Value, upstream: &Value) -> Option<usize> {
    let (ours, upstream) = (ours["lookups"].as_array()?, upstream["lookups"].as_array()?);
    ours.iter().zip(upstream).position(|(one, other)| one != other)
}

/// The providers of which `many` has more, if it has all that is in `few` and is not the same.
fn providers_with_more<'a>(
    many: &'a Value,
    few: &'a Value,
) -> Option<impl Iterator<Item = &'a str>> {
    let contains = |many: Option<&Value>, few: &Value| match (many, few) {
        (Some(Value::Object(many)), Value::Object(few)) => {
            few.iter().all(|(key, expires)| many.get(key) == Some(expires))
        }
        (many, few) => many == Some(few),
    };
    let (many, few) = (many.as_object()?, few.as_object()?);
    let all = many != few && few.iter().all(|(name, value)| contains(many.get(name), value));
    let more = many.iter().filter(|(name, value)| few.get(*name) != Some(value));
    all.then(|| more.map(|(name, _)| name.as_str()))
}

impl Question {
    /// Whether a provider was asked in one of the lookups before, and at a later one, up to the next, the clock was behind
    /// that: by more than the minute that is overlooked or, if its answers may have expired before they came, at all.
    fn was_set_back_for(&self, provider: &str, before: &[Value]) -> bool {
        let mut named = self.providers.iter().filter(|each| each.name == provider);
        let overlooked =
            if named.any(Provider::answers_what_has_expired) { 0 } else { 60_000_000_000 };
        let (mut latest, mut times) = (i64::MIN, self.times().into_iter());
        for (lookup, time) in before.iter().zip(&mut times) {
            if latest.saturating_sub(overlooked) > time {
                return true;
            }
            if lookup["asked"].get(provider).is_some() {
                latest = latest.max(time);
            }
        }
        times.next().is_some_and(|time| latest.saturating_sub(overlooked) > time)
    }

    /// What the clock shows at each lookup, and at the end.
    fn times(&self) -> Vec<i64> {
        let (mut now, mut times) = (0, Vec::new());
        for step in &self.steps {
            match step {
                Step::Advance(by) => now += GoDuration::parse(by).map_or(0, GoDuration::as_nanos),
                Step::LookUp(_) | Step::LookUpFor { .. } => times.push(now),
                Step::Account(_) => {}
            }
        }
        times.push(now);
        times
    }
}

impl Provider {
    fn answers_what_has_expired(&self) -> bool {
        json!(self.answers).to_string().contains(r#""cacheDuration":"-"#)
    }
}

fn since(start: SystemTime, time: SystemTime) -> GoDuration {
    let nanoseconds = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
    GoDuration::from_nanos(match time.duration_since(start) {
        Ok(length) => nanoseconds(length),
        Err(before) => -nanoseconds(before.duration()),
    })
}
