//! What a kubeconfig's user says about its plugin.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use keyfob_api::{ExecVersion, RawJson, Secret};

use crate::PluginPolicy;

/// The `exec` of a user, with what the program around it has to say.
///
/// `Debug` hides arguments, environment and the cluster's extension: all of them may hold secrets. Arguments are plain strings
/// nevertheless, because every process on the machine can read the arguments of another.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "mirrors `exec` of a kubeconfig, and is written out")]
pub struct ExecConfig {
    /// What to run: a name for `PATH`, or a path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables over the host's environment, in order. Any value may be a secret.
    pub env: Vec<(String, Secret<String>)>,
    /// The version of `ExecCredential` to speak: the full name, as it is written.
    ///
    /// A text, because a kubeconfig may have a version that nobody knows until a credential is wanted, as in client-go. Then
    /// [`Authenticators::get`](crate::Authenticators::get) parses it, or refuses it in client-go's words, which quote it.
    pub api_version: String,
    /// What to tell a person whose plugin is not installed.
    pub install_hint: String,
    /// Whether the plugin is told about the cluster.
    pub provide_cluster_info: bool,
    /// Whether the plugin may talk to a person.
    pub interactive_mode: InteractiveMode,
    /// What the cluster's extension holds for the plugin.
    pub config: Option<RawJson>,
    /// Set by a program that reads standard input itself: why the plugin cannot have it. May be empty.
    pub stdin_unavailable: Option<String>,
    /// Which plugins may be run at all.
    pub policy: PluginPolicy,
}

/// Whether a plugin may talk to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InteractiveMode {
    /// Nothing was said: an error of v1, when credentials are wanted.
    #[default]
    Unspecified,
    /// It never gets the terminal.
    Never,
    /// It gets the terminal if there is one.
    IfAvailable,
    /// It is not run without one.
    Always,
    /// Something else was said. The validation of a kubeconfig refuses it; if a program wrote it, it is refused when a credential is
    /// wanted, as in client-go.
    Unknown(String),
}

impl InteractiveMode {
    /// What a kubeconfig means that says nothing: versions before v1 asked if they could, and v1 wants to be told.
    pub fn default_for(api_version: &str) -> Self {
        match api_version.parse() {
            Ok(ExecVersion::V1Beta1 | ExecVersion::V1Alpha1) => Self::IfAvailable,
            _ => Self::Unspecified,
        }
    }

    /// The word of the kubeconfig.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unspecified => "",
            Self::Never => "Never",
            Self::IfAvailable => "IfAvailable",
            Self::Always => "Always",
            Self::Unknown(word) => word,
        }
    }
}

impl From<&str> for InteractiveMode {
    fn from(word: &str) -> Self {
        match word {
            "" => Self::Unspecified,
            "Never" => Self::Never,
            "IfAvailable" => Self::IfAvailable,
            "Always" => Self::Always,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// Equal ones hash alike; what usually differs is enough.
impl Hash for ExecConfig {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.command, &self.args, &self.env, &self.api_version).hash(state);
    }
}

impl fmt::Debug for ExecConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecConfig")
            .field("command", &self.command)
            .field("args", &format_args!("{} hidden", self.args.len()))
            .field("env", &format_args!("{} hidden", self.env.len()))
            .field("api_version", &self.api_version)
            .field("provide_cluster_info", &self.provide_cluster_info)
            .field("interactive_mode", &self.interactive_mode)
            .field("stdin_unavailable", &self.stdin_unavailable)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
