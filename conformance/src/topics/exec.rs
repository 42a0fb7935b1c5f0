//! The whole story of a client with an exec plugin: what the plugin got, what the server got, what a 401 did.
//!
//! Both sides write a kubeconfig, make a client of it as kubectl does, and send its requests to a TLS server of their own.
//! The plugin is the same program, which follows the same steps. Ours behaves as client-go does
//! ([`Behaviour::of_client_go`](keyfob_client::Behaviour::of_client_go)).

mod difference;
mod log;
mod made_up;
mod plugin;
mod stage;
mod story;

use proptest::strategy::BoxedStrategy;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Topic;

pub(crate) struct Exec;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    /// The cluster and the user of a kubeconfig, with words for what is never the same: see `Stage::set`.
    cluster: Map<String, Value>,
    user: Map<String, Value>,
    /// The steps of each run; the last are good for all later runs.
    plugin: Vec<Vec<Value>>,
    /// What the server answers to one request after another.
    statuses: Vec<u16>,
    /// The client's own environment.
    #[serde(default)]
    environment: Vec<String>,
    /// Whether the server asks for certificates.
    #[serde(default)]
    asks_for_certificates: bool,
}

impl Topic for Exec {
    const NAME: &'static str = "exec";
    const QUESTIONS: u32 = 600;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        made_up::questions()
    }

    fn ours(question: &Question) -> Value {
        story::play(question)
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        difference::explained(question, ours, upstream)
    }

    fn sort(upstream: &Value) -> &'static str {
        let runs = upstream.get("runs").and_then(Value::as_array).map(Vec::len);
        match runs {
            None => "build no client",
            Some(0) => "run no plugin",
            Some(1) => "run it once",
            Some(_) => "run it again",
        }
    }
}

impl Question {
    fn wants_plain_http(&self) -> bool {
        self.cluster.get("server").and_then(Value::as_str).is_some_and(|url| url.contains("PLAIN"))
    }

    /// What the plugin prints in each run in which it does nothing else.
    fn outputs(&self) -> impl Iterator<Item = String> {
        self.plugin.iter().filter_map(|steps| steps.iter().map(printed).collect())
    }

    /// The status of each run's answer, if it gives one.
    fn answers(&self) -> impl Iterator<Item = Option<&Value>> {
        self.plugin.iter().map(|steps| steps.iter().find_map(|step| step.pointer("/answer/status")))
    }
}

/// Whether an answer has expired before it is given: then this is its end.
fn has_expired(status: &Value) -> bool {
    status.get("expirationTimestamp").is_some_and(|end| end == "2001-01-01T00:00:00Z")
}

/// What a step prints; `None` if it does something else.
fn printed(step: &Value) -> Option<String> {
    let (name, value) = step.as_object()?.iter().next()?;
    match name.as_str() {
        "print" => value.as_str().map(str::to_owned),
        "answer" => Some(format!("{value}\n")),
        "say" => Some(String::new()),
        _ => None,
    }
}
