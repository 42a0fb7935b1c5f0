//! The whole story of a client with an exec plugin: what the plugin got, what the server got, what a 401 did.
//!
//! Keyfob has no client yet. What it can say of the story is what `keyfob-api` knows: the text that the plugin finds in
//! `KUBERNETES_EXEC_INFO`, and what the plugin's first answer makes of the first request. Everything else that upstream
//! says waits: when a plugin is run, its arguments and the rest of its environment, its stdin, later requests, the
//! errors of configurations and of plugins that fail, and the log.

mod made_up;

use keyfob_api::{ExecCredentialSpec, ExecVersion};
use proptest::strategy::BoxedStrategy;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::exec_answer::{decoded, reason, with_pairs};
use crate::Topic;

pub(crate) struct Exec;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    /// The cluster and the user of a kubeconfig. `SERVER`, `CADATA64`, `PLUGIN` and `SCRIPT` stand for the oracle's own.
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
    const QUESTIONS: u32 = 300;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        made_up::questions()
    }

    fn ours(question: &Question) -> Value {
        json!({ "info": question.info().map(|info| [info]), "firstRequest": question.first_request() })
    }

    /// What did not happen cannot be compared: then upstream is taken to agree.
    fn comparable(ours: &Value, upstream: &Value) -> Option<Value> {
        let infos = upstream.pointer("/runs").and_then(Value::as_array);
        let mut infos: Vec<_> =
            infos.into_iter().flatten().filter_map(|run| run.get("info")).collect();
        infos.dedup();
        let info = match infos.as_slice() {
            [] => ours.get("info").cloned(),
            [one] => Some((*one).clone()),
            several => Some(json!(several)),
        };
        let ran = !infos.is_empty() && ours.get("firstRequest") != Some(&Value::Null);
        let first = upstream.pointer("/requests/0").filter(|_| ran).and_then(|request| {
            match request.get("error").and_then(Value::as_str) {
                // Any other error is of the client's own making.
                Some(error) => {
                    let (_, error) = error.split_once("getting credentials: ")?;
                    Some(json!({ "error": error }))
                }
                None => Some(json!({
                    "authorization": request.get("authorization"),
                    "certificates": request.get("certificates"),
                })),
            }
        });
        let first = first.or_else(|| ours.get("firstRequest").cloned());
        Some(json!({ "info": info, "firstRequest": first }))
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let comparable = Self::comparable(ours, upstream)?;
        if ours.get("info") != comparable.get("info") {
            return None;
        }
        let error =
            |answer: &Value| answer.pointer("/firstRequest/error")?.as_str().map(str::to_owned);
        let stdout = question.first_output()?;
        reason::explained(stdout.as_bytes(), &error(ours)?, &error(&comparable)?)
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
    fn exec(&self, field: &str) -> Option<&Value> {
        self.user.get("exec")?.get(field)
    }

    fn version(&self) -> Option<ExecVersion> {
        let version = self.exec("apiVersion")?.as_str()?.parse().ok();
        version.filter(|&version| version != ExecVersion::V1Alpha1)
    }

    /// The text that a plugin gets, if it is run. A kubeconfig is YAML, and its cluster has the names that the text has.
    fn info(&self) -> Option<String> {
        let version = self.version()?;
        let mut spec = json!({"interactive": false});
        if self.exec("provideClusterInfo") == Some(&json!(true)) {
            let mut cluster = self.cluster.clone();
            if let Some(Value::Array(extensions)) = cluster.remove("extensions") {
                let named = |extension: &&Value| {
                    extension.get("name") == Some(&json!("client.authentication.k8s.io/exec"))
                };
                let config = extensions.iter().find(named).and_then(|one| one.get("extension"));
                cluster.extend(config.map(|config| ("config".to_owned(), config.clone())));
            }
            spec = json!({"interactive": false, "cluster": cluster});
        }
        let head =
            json!({"apiVersion": version.api_version(), "kind": "ExecCredential", "spec": spec});
        let (_, spec) = ExecCredentialSpec::decode(format!("---\n{head}").as_bytes()).ok()?;
        Some(String::from_utf8_lossy(spec.encode(version).expose()).into_owned())
    }

    /// What the plugin prints first, if it does nothing but print.
    fn first_output(&self) -> Option<String> {
        let stdout: Option<String> = self.plugin.first()?.iter().map(printed).collect();
        stdout.map(|stdout| with_pairs(&stdout))
    }

    /// What the first request carries, if the plugin is run for it.
    fn first_request(&self) -> Option<Value> {
        let answer = decoded(self.first_output()?.as_bytes(), self.version()?);
        let Some(token) = answer.get("token").and_then(Value::as_str) else { return Some(answer) };
        let header = (!token.is_empty()).then(|| format!("Bearer {token}"));
        let certificates = answer.get("certificates").filter(|_| self.asks_for_certificates);
        Some(json!({
            "authorization": Vec::from_iter(header),
            "certificates": certificates.unwrap_or(&json!([])),
        }))
    }
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
