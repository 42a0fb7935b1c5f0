//! What is told. The JSON of `keyfob explain -o json` is this, field by field: names are only ever added.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::agent_source::AgentReport;
pub(super) use crate::page::{Problem, Variable};

/// All there is to say about one image.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The image as it was typed.
    pub(super) image: String,
    /// What patterns and keys are compared with, and plugins are asked about.
    pub(super) repository: String,
    /// The answer in a sentence.
    pub(super) verdict: String,
    /// Whether the pull would be tried without credentials; absent if that depends on the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) anonymous: Option<bool>,
    /// The agent, with the rule that allowed the image or the reason why there are no credentials; absent if it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<AgentReport>,
    /// Which rule of the agent decides about each provider, and why the rules before it do not apply; absent if the agent did not
    /// say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rules: Option<Value>,
    /// Whoever pulls; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<Puller>,
    /// The tokens of the service account that are needed, as whom they are requested, and whether the pod's node may request
    /// them; absent if none is needed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) token_requests: Vec<TokenRequest>,
    /// The credentials, in the order in which they are tried.
    pub(super) credentials: Vec<Credential>,
    /// Who has proved access to the image; absent if no directory of records was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records: Option<Vec<Record>>,
    /// Pull secrets and the docker configuration, in order.
    pub(super) files: Vec<File>,
    /// The providers, in the order of the configuration.
    pub(super) providers: Vec<Provider>,
    /// What is wrong beyond single files and providers.
    pub(super) problems: Vec<Problem>,
}

/// A pod's service account.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Puller {
    /// `NAMESPACE/NAME`.
    pub(super) service_account: String,
    /// The pod's name, if it was given.
    pub(super) pod: Option<String>,
    /// Where the account is known: a server's address, a directory, or `embedded`.
    pub(super) source: String,
}

/// A request for a token, and what the pod's node may do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenRequest {
    pub(super) audience: String,
    /// The user of the kubeconfig, as the API server knows it; `null` if the token is taken from a file.
    pub(super) user: Option<String>,
    /// The user's groups.
    pub(super) groups: Vec<String>,
    /// The node that a kubelet would request it as; `null` if that is not known.
    pub(super) node: Option<String>,
    /// Whether that node may request it; `null` if that was not checked, or was for the API server to say.
    pub(super) node_may: Option<bool>,
    /// What was found out, in a sentence.
    pub(super) finding: String,
    /// Whether a node requested it.
    #[serde(skip)]
    pub(super) is_node: bool,
}

/// A login, without its password.
#[derive(Debug, Serialize)]
pub(super) struct Credential {
    /// A provider's name, `pull-secret:NAME` or `docker-config:PATH`.
    pub(super) source: String,
    pub(super) key: String,
    pub(super) username: String,
}

/// A record of pulls of the image.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The id of the image that was pulled by this name.
    pub(super) image_id: String,
    /// Whose pods may use it, in words, with the uids of service accounts.
    #[serde(rename = "for")]
    pub(super) who: String,
}

/// A source that is not asked but read.
#[derive(Debug, Serialize)]
pub(super) struct File {
    /// `pull-secret:NAME` or `docker-config:PATH`.
    pub(super) source: String,
    pub(super) keys: Vec<Compared>,
    pub(super) problems: Vec<Problem>,
}

/// A pattern or a key, and whether the image matches.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    /// The pattern or the key.
    pub(super) text: String,
    pub(super) matches: bool,
    /// Why it does or does not.
    pub(super) reason: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Provider {
    pub(super) name: String,
    /// Whether one of the patterns matches.
    pub(super) matches: bool,
    pub(super) patterns: Vec<Compared>,
    /// As whom it is asked; absent if without a service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<Identity>,
    /// Whether it may answer for every image; absent if it does not match, or uses no service accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) global_answers: Option<GlobalAnswers>,
    /// What is run to ask it; `null` if it does not match or there is nothing to run.
    pub(super) command: Option<Command>,
    pub(super) result: ProviderResult,
    /// How long the plugin ran; `null` if it did not, or nobody knows.
    pub(super) took_ms: Option<f64>,
    /// What the cache did; `null` if there was no answer.
    pub(super) cache: Option<Cache>,
    /// The keys of its answer; empty without one.
    pub(super) keys: Vec<Compared>,
    /// Why it gave nothing.
    pub(super) error: Option<String>,
    /// What would be different in a kubelet, though nothing is wrong.
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<Problem>,
}

/// Whether answers with `cacheKeyType: Global` are used.
#[derive(Debug, Serialize)]
pub(super) struct GlobalAnswers {
    pub(super) allowed: bool,
    /// Why, in a few words.
    pub(super) reason: &'static str,
}

/// A service account and its token, without the token.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    /// `NAMESPACE/NAME`.
    pub(super) service_account: String,
    /// Its uid; `null` if it was not found.
    pub(super) uid: Option<String>,
    /// For whom the token is.
    pub(super) audience: String,
    /// The annotations that the plugin gets.
    pub(super) annotations: BTreeMap<String, String>,
    /// What the token says of itself, which nobody verified; `null` without one, or if it is no JSON web token.
    pub(super) claims: Option<Claims>,
    /// When the token ends; `null` without one.
    pub(super) expires: Option<String>,
    /// How much longer it lives, as Go writes it.
    #[serde(rename = "for")]
    pub(super) lifetime: Option<String>,
    /// The role that is missing, if the audience was refused.
    pub(super) grant: Option<Grant>,
}

#[derive(Debug, Serialize)]
pub(super) struct Claims {
    pub(super) issuer: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) audiences: Vec<String>,
    /// What it is bound to.
    pub(super) pod: Option<Object>,
    pub(super) node: Option<Object>,
}

#[derive(Debug, Serialize)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) uid: String,
}

/// What would allow the audience.
#[derive(Debug, Serialize)]
pub(super) struct Grant {
    /// The clause of the rule that refused it.
    pub(super) clause: String,
    /// The verb that no role grants on the audience.
    pub(super) verb: String,
    /// The role that does, and its binding.
    pub(super) yaml: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ProviderResult {
    /// None of its patterns match.
    NotAsked,
    /// It matches, but was passed over.
    Skipped,
    /// Its plugin ran and answered.
    Ran,
    /// It had answered before.
    Cached,
    /// It gave nothing.
    Failed,
}

/// The run of a plugin, without secrets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Command {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    /// What is set over the environment of the host.
    pub(super) environment: Vec<Variable>,
    /// When the plugin is killed, as Go writes it: `1m0s`.
    pub(super) deadline: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Cache {
    /// Whether the answer came from it, is now in it, or may not be kept.
    pub(super) state: CacheState,
    /// `Image`, `Registry` or `Global`: for which images the answer may be used again.
    pub(super) scope: String,
    /// Under what it is kept; `null` if it is not.
    pub(super) key: Option<String>,
    /// Until when; `null` if it is not.
    pub(super) until: Option<String>,
    /// How much longer, as Go writes it.
    #[serde(rename = "for")]
    pub(super) lifetime: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CacheState {
    Hit,
    Stored,
    NotKept,
}
