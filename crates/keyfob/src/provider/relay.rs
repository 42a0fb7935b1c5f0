//! `keyfob provider install --agent`: the kubelet's side of the node agent.
//!
//! The kubelet gets one provider, whose plugin is the relay. Which providers there really are is up to the agent, so that they can
//! change without a restart of the kubelet.

use std::{
    collections::BTreeSet,
    env,
    path::{self, Path, PathBuf},
};

use clap::Args;
use keyfob_agent_config::{AgentConfig, AgentConfigError};
use keyfob_api::{FeatureGates, GoDuration, ProviderVersion};
use keyfob_config::{Config, Invalid, ProviderConfig, ReadError, TokenAttributes};
use thiserror::Error;

use super::{
    config::Audience,
    fallback::{Fallback, FallbackError},
};
use crate::agent::AGENT_SOCKET;

/// The relay, as the kubelet knows it.
pub(super) const PLUGIN: &str = "keyfob-credential-provider";
/// The relay's own file name.
pub(super) const RELAY: &str = "keyfob-relay";

/// Kubelet patterns have no catch-all: a `*` stands for one label of a host name. Amazon's longest have seven.
const MOST_LABELS: usize = 8;

/// What concerns the relay alone.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// Install the relay instead of the plugins: one provider, keyfob-credential-provider, that asks the node agent
    /// (`keyfob serve`).
    #[arg(long, conflicts_with_all = ["providers", "match_images", "args"], help_heading = "Node agent")]
    pub(super) agent: bool,
    /// The agent's file. The kubelet asks about the images that the providers of the agent match, unless --match or
    /// --any-registry is given, and on the socket of the agent.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/keyfob/agent.yaml",
        requires = "agent",
        help_heading = "Node agent"
    )]
    agent_file: PathBuf,
    /// A pattern for the images that the kubelet asks about. May be repeated. `*` stands for one label of a host name, and never
    /// for a port: `*.*` matches `quay.io` and neither `eu.gcr.io` nor `quay.io:5000`.
    #[arg(long = "match", value_name = "PATTERN", requires = "agent", help_heading = "Node agent")]
    patterns: Vec<String>,
    /// Ask about every registry whose host name has two to eight labels and no port (`*.*`, `*.*.*` …), so that a provider
    /// that is added to the agent's needs no restart of the kubelet. A registry with a port needs a pattern of its own: --match, or the agent's.
    #[arg(long, requires = "agent", help_heading = "Node agent")]
    any_registry: bool,
    /// The agent's socket. Without it: the one in the agent's file.
    #[arg(long, value_name = "PATH", requires = "agent", help_heading = "Node agent")]
    socket: Option<PathBuf>,
    /// The relay to install. Without it: keyfob-relay beside this program.
    #[arg(long, value_name = "FILE", requires = "agent", help_heading = "Node agent")]
    relay: Option<PathBuf>,
    /// If the agent does not run, or hangs for 20 seconds, run this plugin of one of the agent's providers. That provider's images,
    /// arguments, variables and token settings are copied now: install again after changing them. Without it: the pull fails with
    /// the reason. A name is looked for in DIR.
    #[arg(
        long,
        num_args = 2,
        value_names = ["run", "PLUGIN"],
        requires = "agent",
        help_heading = "Node agent"
    )]
    if_down: Vec<String>,
}

/// Why the relay cannot be installed.
#[derive(Debug, Error)]
pub(super) enum RelayError {
    #[error(
        "there is no relay at {}\nbuild it with `cargo build --release -p keyfob-relay` and put it there, or name it with --relay FILE",
        .0.display()
    )]
    NoRelay(PathBuf),
    #[error("{}\n{help}", problems(error))]
    AgentFile { error: AgentConfigError, help: &'static str },
    #[error("the agent's provider configuration cannot be read: {}\n{help}", unread(error))]
    Providers { error: ReadError, help: &'static str },
    #[error("--if-down {0} …: write --if-down run PLUGIN, or leave it out to refuse")]
    IfDown(String),
    #[error(transparent)]
    Fallback(#[from] FallbackError),
    #[error(
        "--token-audience says for which plugin the token is: with --agent it is for the agent, so write the audience alone"
    )]
    NamedAudience,
    #[error("--token-audience is there twice: a kubelet sends a token for one audience")]
    TwoAudiences,
    #[error("a kubelet would not start with this: {0}")]
    Invalid(#[from] Invalid),
}

/// All problems of the agent's file, on a line.
fn problems(error: &AgentConfigError) -> String {
    let problems: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    problems.join("; ")
}

fn unread(error: &ReadError) -> String {
    let errors: Vec<_> = error.errors().iter().map(ToString::to_string).collect();
    errors.join("; ")
}

/// What the agent's files say, as far as it is needed.
struct AgentFiles {
    socket: PathBuf,
    /// Where the configuration of the providers is.
    path: PathBuf,
    config: Config,
}

impl RelayArgs {
    /// The configuration of the kubelet, valid.
    pub(super) fn config(
        &self,
        directory: &Path,
        audiences: &[Audience],
    ) -> Result<Config, RelayError> {
        let files = self.agent_files()?;
        let files = files.as_ref();
        let token_attributes = token_attributes(audiences, files)?;
        let audience = token_attributes.as_ref().map(|each| &*each.service_account_token_audience);
        let fallback = self.fallback(directory, files, audience)?;
        let fallback = fallback.as_ref();
        let version = fallback.map_or(ProviderVersion::V1, Fallback::version);
        let mut match_images = self.patterns.clone();
        if self.any_registry {
            match_images.extend((2..=MOST_LABELS).map(|labels| vec!["*"; labels].join(".")));
        }
        let provider = ProviderConfig {
            name: PLUGIN.to_owned(),
            match_images: match_images.into_iter().chain(self.patterns_of(files)).collect(),
            default_cache_duration: GoDuration::parse("0s").ok(),
            api_version: version.api_version().to_owned(),
            args: self.arguments(files, fallback),
            env: fallback.map(|fallback| fallback.env().to_vec()).unwrap_or_default(),
            token_attributes,
            ..ProviderConfig::default()
        };
        let config = Config::new([provider]);
        config.validate(FeatureGates::default())?;
        Ok(config)
    }

    /// The relay, from the root.
    pub(super) fn program(&self) -> Result<PathBuf, RelayError> {
        let beside = || Some(env::current_exe().ok()?.with_file_name(RELAY));
        let relay = self.relay.clone().or_else(beside).unwrap_or_else(|| RELAY.into());
        let relay = path::absolute(&relay).unwrap_or(relay);
        if relay.is_file() { Ok(relay) } else { Err(RelayError::NoRelay(relay)) }
    }

    /// The agent's files may be missing if the flags say everything.
    fn agent_files(&self) -> Result<Option<AgentFiles>, RelayError> {
        let help = if !self.if_down.is_empty() {
            "--if-down run reads the plugin's provider from the agent's files: name the agent's file with --agent-file"
        } else if self.patterns.is_empty() && !self.any_registry {
            "name the images with --match PATTERN or --any-registry, or the agent's file with --agent-file"
        } else {
            return Ok(self.read_agent_files("").ok());
        };
        self.read_agent_files(help).map(Some)
    }

    fn read_agent_files(&self, help: &'static str) -> Result<AgentFiles, RelayError> {
        let agent = AgentConfig::read(&self.agent_file)
            .map_err(|error| RelayError::AgentFile { error, help })?;
        let config = Config::read(&agent.provider_config)
            .map_err(|error| RelayError::Providers { error, help })?;
        Ok(AgentFiles { socket: agent.agent_socket.path, path: agent.provider_config, config })
    }

    /// The patterns of all providers, each once; none if --match says which.
    fn patterns_of(&self, files: Option<&AgentFiles>) -> Vec<String> {
        let mut patterns: Vec<String> = Vec::new();
        let all = files.iter().flat_map(|files| &files.config.providers);
        for pattern in all.flat_map(|provider| &provider.match_images) {
            // A pattern without a port is covered by the stars.
            let is_covered = self.any_registry && !pattern.contains(':');
            if self.patterns.is_empty() && !is_covered && !patterns.contains(pattern) {
                patterns.push(pattern.clone());
            }
        }
        patterns
    }

    fn fallback(
        &self,
        directory: &Path,
        files: Option<&AgentFiles>,
        audience: Option<&str>,
    ) -> Result<Option<Fallback>, RelayError> {
        let plugin = match (self.if_down.as_slice(), files) {
            ([run, plugin], Some(files)) if run == "run" => Some((plugin, files)),
            ([other, ..], _) => return Err(RelayError::IfDown(other.clone())),
            ([], _) => None,
        };
        let Some((plugin, AgentFiles { path, config, .. })) = plugin else { return Ok(None) };
        let program = directory.join(plugin);
        let program = path::absolute(&program).unwrap_or(program);
        Ok(Some(Fallback::new(program, (path, config), audience)?))
    }

    fn arguments(&self, files: Option<&AgentFiles>, fallback: Option<&Fallback>) -> Vec<String> {
        let socket = self.socket.clone().or_else(|| Some(files?.socket.clone()));
        let socket = socket.unwrap_or_else(|| AGENT_SOCKET.into());
        let socket = ["--socket".to_owned(), socket.display().to_string()];
        socket.into_iter().chain(fallback.map(Fallback::arguments).unwrap_or_default()).collect()
    }
}

/// The agent may do without a token. Answers differ by token, so the kubelet must not keep them for longer than that. The kubelet sends the
/// annotations that any provider of the agent wants, as far as they are there; the agent passes to each provider its own, and does not ask
/// one whose required annotations are missing.
fn token_attributes(
    audiences: &[Audience],
    files: Option<&AgentFiles>,
) -> Result<Option<TokenAttributes>, RelayError> {
    let audience = match audiences {
        [] => return Ok(None),
        [audience] => audience.of_nobody().ok_or(RelayError::NamedAudience)?,
        _ => return Err(RelayError::TwoAudiences),
    };
    Ok(Some(TokenAttributes {
        service_account_token_audience: audience.to_owned(),
        cache_type: "Token".to_owned(),
        require_service_account: Some(false),
        optional_service_account_annotation_keys: annotation_keys(files),
        ..TokenAttributes::default()
    }))
}

/// The keys of the annotations that the providers of the agent want, each once.
fn annotation_keys(files: Option<&AgentFiles>) -> Vec<String> {
    let providers = files.iter().flat_map(|files| &files.config.providers);
    let attributes = providers.filter_map(|provider| provider.token_attributes.as_ref());
    let keys = attributes.flat_map(|attributes| {
        let TokenAttributes {
            required_service_account_annotation_keys: required,
            optional_service_account_annotation_keys: optional,
            ..
        } = attributes;
        required.iter().chain(optional).cloned()
    });
    keys.collect::<BTreeSet<_>>().into_iter().collect()
}
