//! The agent's file: `/etc/keyfob/agent.yaml`.
//!
//! [`AgentConfig::parse`] is the only way from a text to a configuration. It reports all problems at once, each with its line and
//! column. One table of fields (`fields`) says what the file may contain: the types are checked by it, and the JSON schema for
//! editors is generated from it.

mod fields;
mod reader;
mod schema;
mod unknown_providers;

use std::{
    fmt, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyfob_api::document::Position;
use keyfob_exec::read_bounded;

use self::reader::Reader;
pub use self::schema::agent_config_schema;
use crate::rules::AccessRule;

/// The `apiVersion` of an agent's file.
pub const AGENT_API_VERSION: &str = "keyfob.dev/v1alpha1";
/// The `kind` of an agent's file.
pub const AGENT_KIND: &str = "AgentConfiguration";

/// A valid configuration of the agent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The kubelet's provider configuration: a file, or a directory of files.
    pub provider_config: PathBuf,
    /// The directory of the plugins.
    pub plugin_directory: PathBuf,
    /// How the agent learns which pods run on this node; without it, no caller is recognised as a pod.
    pub cluster: Option<ClusterConfig>,
    /// Where the agent remembers images across restarts; without it, it remembers nothing.
    pub state_directory: Option<PathBuf>,
    /// The socket for credentials.
    pub agent_socket: SocketConfig,
    /// The socket for administrators.
    pub admin_socket: Option<SocketConfig>,
    /// The loopback address on which metrics and the state of the agent are served, to every user of the node.
    pub http_address: Option<SocketAddr>,
    /// The socket on which they are served, to whoever may open it.
    pub http_socket: Option<SocketConfig>,
    /// What the status page shows.
    pub status_detail: StatusDetail,
    /// The pull records that the status shows: a kubelet's root directory.
    pub pull_records: Option<PathBuf>,
    /// Where decisions are logged.
    pub audit: AuditConfig,
    /// Who may request what: the first rule that matches decides.
    pub rules: Vec<AccessRule>,
    /// What callers may cost.
    pub limits: AgentLimits,
    /// How answers are kept fresh.
    pub warm: WarmConfig,
}

/// The cluster that the node belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterConfig {
    /// The node's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The name of this node, unless whoever starts the agent knows it.
    pub node_name: Option<String>,
}

/// A unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a socket has a path and permissions")]
pub struct SocketConfig {
    /// Its path.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
}

/// What the status page shows. A loopback address can be read by every process of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusDetail {
    /// How providers, cache and configuration are doing, without names of images and callers, and without quoting a file.
    #[default]
    Summary,
    /// Also who asked for which image, what is cached, the pull records, and why a configuration was rejected.
    Full,
}

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever logs must know every place")]
pub enum AuditConfig {
    /// Nowhere; `keyfob agent status` and the stream of the admin socket still show decisions.
    None,
    /// To stdout, one JSON object a line.
    Stdout,
    /// To systemd's journal.
    Journald,
    /// To a file that is rotated.
    File {
        /// The file; older ones have `.1`, `.2`, … appended.
        path: PathBuf,
        /// The size after which a new file is begun.
        max_bytes: u64,
        /// How many older files are kept.
        keep: u32,
    },
}

/// What callers may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentLimits {
    /// Connections at the same time.
    pub connections: u32,
    /// Requests a second of one caller, on average; bursts of twice that are served.
    pub requests_per_second: u32,
    /// Bytes of a request's body.
    pub body_bytes: u32,
    /// Processes of one plugin at the same time.
    pub plugin_runs_per_provider: u32,
    /// How long one request may take.
    pub request_timeout: Duration,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            requests_per_second: 1000,
            body_bytes: 64 << 10,
            plugin_runs_per_provider: 4,
            request_timeout: Duration::from_secs(90),
        }
    }
}

/// How answers are kept fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmConfig {
    /// How long before its expiry an answer is renewed.
    pub refresh_ahead: Duration,
    /// How many image names are remembered.
    pub remembered_images: u32,
    /// How long a credential must still be valid when it is given to a client that caches it, such as docker.
    pub cached_client_lifetime: Duration,
}

impl Default for WarmConfig {
    fn default() -> Self {
        Self {
            refresh_ahead: Duration::from_mins(5),
            remembered_images: 500,
            cached_client_lifetime: Duration::from_mins(15),
        }
    }
}

impl AgentConfig {
    /// The largest file that is read.
    pub const MAX_BYTES: u64 = 1 << 20;

    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, AgentConfigError> {
        let name: Arc<str> = path.to_string_lossy().into();
        let text = read_bounded(path, Self::MAX_BYTES)
            .map_err(|error| AgentConfigError::unreadable(&name, &error))?;
        Self::parse(&name, text.expose())
    }

    /// Checks a text; `file` is the name that errors mention.
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, AgentConfigError> {
        let file: Arc<str> = file.into();
        let mut reader = Reader::new(file.clone());
        let config = reader.read(text);
        match (config, reader.into_problems()) {
            (Some(config), problems) if problems.is_empty() => Ok(config),
            (_, problems) => Err(AgentConfigError { problems }),
        }
    }

    /// The names under `rules[].providers` that none of these providers has. They are no errors, because a provider may be added later, but a
    /// rule that names no other provider does nothing until then.
    pub fn unknown_providers(
        file: &str,
        text: &[u8],
        providers: &[&str],
    ) -> Vec<AgentConfigProblem> {
        unknown_providers::unknown_providers(&file.into(), text, providers)
    }

    /// Whether a text looks like an agent's file, so that `keyfob validate` can tell it from other kinds: by its kind, or, if that is
    /// misspelt or the text cannot be parsed, by the group of its version.
    pub fn is_agent_config(text: &[u8]) -> bool {
        let group: &[u8] = b"keyfob.dev/";
        let is_of_group = |text: &[u8]| text.windows(group.len()).any(|part| part == group);
        reader::kind_of(text).is_some_and(|kind| kind == AGENT_KIND) || is_of_group(text)
    }
}

/// Everything that is wrong with an agent's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfigError {
    problems: Vec<AgentConfigProblem>,
}

impl AgentConfigError {
    /// The problems, in the order of the file.
    pub fn problems(&self) -> &[AgentConfigProblem] {
        &self.problems
    }

    fn unreadable(file: &Arc<str>, error: &io::Error) -> Self {
        let help = match error.kind() {
            io::ErrorKind::NotFound => {
                Some("create it, or name another file with --config".to_owned())
            }
            _ => None,
        };
        let message = format!("cannot be read: {error}");
        let problem =
            AgentConfigProblem { file: file.clone(), at: None, path: String::new(), message, help };
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for AgentConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for AgentConfigError {}

/// One thing that is wrong with an agent's file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentConfigProblem {
    /// The file.
    pub file: Arc<str>,
    /// Line and column, if the file could be read.
    pub at: Option<Position>,
    /// The field, such as `rules[0].callers`; empty for the whole file.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl AgentConfigProblem {
    /// A problem of a field as a whole.
    pub fn new(file: &Path, field: &str, message: String, help: &str) -> Self {
        let file = file.to_string_lossy().into();
        Self { file, at: None, path: field.to_owned(), message, help: Some(help.to_owned()) }
    }
}

impl fmt::Display for AgentConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(at) = self.at {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests;
