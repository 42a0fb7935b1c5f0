//! What is told. The JSON of `keyfob kube explain -o json` is this, field by field: names are only ever added.

use serde::Serialize;

use super::super::described::Described;
use crate::page::{Problem, Variable};

/// All there is to say, as far as it could be found out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The answer in a sentence.
    pub(super) verdict: String,
    /// The kubeconfigs, the first to say something first.
    pub(super) files: Vec<File>,
    pub(super) context: Option<Entry>,
    pub(super) cluster: Option<Entry>,
    pub(super) user: Option<Entry>,
    /// The address, without who logs in with it.
    pub(super) server: Option<String>,
    pub(super) namespace: Option<String>,
    /// What the user has of its own, by the names of the fields; then its plugin is not run.
    pub(super) own_credentials: Vec<&'static str>,
    pub(super) plugin: Option<Plugin>,
    /// `null` if nothing was run.
    pub(super) run: Option<Run>,
    pub(super) credential: Option<Described>,
    pub(super) problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) state: FileState,
    /// Fields that mean nothing to a client.
    pub(super) ignored: Vec<String>,
    /// Why it cannot be used.
    pub(super) problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FileState {
    Read,
    Missing,
    Unusable,
}

/// Something by its name, and the file that defines it; none if it was typed, or is not there.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) file: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plugin {
    /// As it is written.
    pub(super) command: String,
    /// What a relative path in it comes to.
    pub(super) resolved: Option<String>,
    #[serde(flatten)]
    pub(super) found: Found,
    pub(super) api_version: String,
    /// How many; they may hold secrets.
    pub(super) arguments: usize,
    /// What is set over the environment of the host.
    pub(super) environment: Vec<Variable>,
    /// `KUBERNETES_EXEC_INFO`.
    pub(super) info: Option<Info>,
    /// The extension of the cluster that is for plugins.
    pub(super) extension: Option<Extension>,
    pub(super) interactive_mode: String,
    /// Whether it would get the terminal now; `null` if it cannot be run without one.
    pub(super) interactive: Option<bool>,
    pub(super) why_interactive: String,
    /// `null` if nobody knows it.
    pub(super) policy: Option<Policy>,
    /// When it is killed if it asks nobody.
    pub(super) deadline: Option<String>,
    /// What it runs itself, if it is `keyfob kube exec-cache`.
    pub(super) wraps: Option<Wrapped>,
    /// Whether it is run at all, and why not.
    pub(super) is_used: bool,
    pub(super) why_not_used: Option<String>,
}

/// Where a command was found, or why it was not.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Found {
    pub(super) program: Option<String>,
    pub(super) not_found: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Info {
    pub(super) bytes: usize,
    /// `null` without `provideClusterInfo`.
    pub(super) cluster: Option<ClusterInfo>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterInfo {
    pub(super) server: String,
    pub(super) certificate_authority_bytes: usize,
    /// Whether there is one.
    pub(super) proxy: bool,
    /// Whether the cluster has an extension for plugins.
    pub(super) config: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Extension {
    pub(super) name: String,
    /// Whether the plugin is told of it.
    pub(super) is_sent: bool,
    /// Why it has no effect, here or with kubectl, and what to do.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Policy {
    /// `AllowAll`, `DenyAll` or `Allowlist`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// The kuberc that says so; `null` if there is none.
    pub(super) file: Option<String>,
    pub(super) allowed: bool,
    /// Why not.
    pub(super) reason: Option<String>,
    /// What stands in the file and means nothing.
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Wrapped {
    pub(super) command: String,
    #[serde(flatten)]
    pub(super) found: Found,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) took_ms: f64,
    pub(super) error: Option<String>,
    /// The end of what it said, without secrets.
    pub(super) stderr: Option<String>,
}
