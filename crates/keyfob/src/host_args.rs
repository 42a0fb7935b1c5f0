//! The flags that say where credentials are looked for, and what is opened with them.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use keyfob_api::{Chain, FeatureGates, GoDuration, KubernetesComponent, Secret};
use keyfob_config::{Config, ConfigError, Invalid, ReadError};
use keyfob_exec::{SystemClock, SystemEnvironment};
use keyfob_host::{BuildError, GlobalAnswers, Host, HostOptions, MissingPlugins};
use keyfob_keyring::{
    DockerConfigFileError, Logins, NodeDockerConfig, PullSecret, PullSecretError,
    PullSecretFileError,
};
use thiserror::Error;

use crate::{
    Outcome, Verdict,
    agent_source::{AgentAndSources, AgentArg},
    cli::HostArgs,
    gates_args::RemovedGates,
    identity_args::{IdentityArgs, IdentityArgsError},
    logging::LogArgs,
    lookup::{Providers, Sources},
    signals::Workers,
};

/// Where credentials are looked for: pull secrets, then a docker configuration, then providers.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    host: HostArgs,
    /// A pull secret of the pod: what `kubectl get secret NAME -o yaml` prints, or a docker `config.json`. May be repeated.
    #[arg(long, value_name = "FILE")]
    pull_secret: Vec<PathBuf>,
    /// The node's docker configuration: a `config.json` or a `.dockercfg`.
    #[arg(long, value_name = "FILE")]
    docker_config: Option<PathBuf>,
    /// How long each plugin may take, such as `30s`, and each answer of an API server. A kubelet waits a minute for a
    /// plugin; an API server has ten seconds if this is not given.
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,
    /// Whether a provider with tokenAttributes may answer for every image, with `cacheKeyType: Global`.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    global_answers: GlobalAnswersArg,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Ask the node agent, and share its cache: `auto` if no flag names another source and its socket exists
    /// (/run/keyfob/agent.sock, or `KEYFOB_AGENT_SOCKET`), `off`, or the path of its socket.
    #[arg(long, value_name = "auto|off|PATH", default_value = "auto")]
    agent: AgentArg,
    #[command(flatten)]
    logs: LogArgs,
}

/// Whether answers with `cacheKeyType: Global` are used of providers that use service accounts.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum GlobalAnswersArg {
    /// Not if the provider is written as in KEP-4412, with serviceAccountAnnotationKeys; else as by a kubelet.
    #[default]
    Auto,
    /// Always, as by a kubelet.
    Allow,
    /// Never, as KEP-4412 has it.
    Refuse,
}

/// What to do about an answer for every image that is refused.
pub(crate) const ALLOW_GLOBAL_ANSWERS: &str = "add --global-answers allow to use it, as a kubelet does, or let the plugin answer \
                                               with cacheKeyType Registry or Image";

impl From<GlobalAnswersArg> for GlobalAnswers {
    fn from(typed: GlobalAnswersArg) -> Self {
        match typed {
            GlobalAnswersArg::Auto => Self::ByDialect,
            GlobalAnswersArg::Allow => Self::Allow,
            GlobalAnswersArg::Refuse => Self::Refuse,
        }
    }
}

impl SourceArgs {
    /// Opens everything that the flags name, which must be something, and starts logging.
    pub(crate) fn open(&self) -> Result<Sources, SetupError> {
        let sources = self.open_any(HostOptions::default())?;
        if self.names_nothing() && sources.agent.is_none() {
            return Err(SetupError::NothingGiven);
        }
        Ok(sources)
    }

    /// The same, if it may be nothing; for a host with these options.
    pub(crate) fn open_any(&self, options: HostOptions) -> Result<Sources, SetupError> {
        self.logs.start();
        let gates = self.gates()?;
        self.identity.check()?;
        let has_local_sources = !self.names_nothing() || self.identity.is_given();
        let agent = self.agent.choose(has_local_sources, &SystemEnvironment)?;
        let secrets = self.secrets()?;
        let runtime = Workers::new()?;
        let written = self.config()?;
        let identity = runtime.block_on(self.identity.open(self.timeout, gates))??;
        let docker_config = self.docker_config()?;
        let providers = written.map(|(config, plugins)| valid(&config, plugins, gates));
        let providers = providers.transpose()?;
        let mut builder = match &providers {
            Some(Providers { config, plugins }) => Host::builder(config.clone(), plugins),
            None => Host::without_providers(),
        };
        let mut puller = None;
        if let Some(identity) = identity {
            (builder, puller) = identity.hand_to(builder);
        }
        if let Some(docker_config) = docker_config {
            builder = builder.docker_config(docker_config);
        }
        let host = builder.options(self.options(options)).build()?;
        let global_answers = self.global_answers.into();
        Ok(Sources { secrets, agent, host, providers, puller, runtime, gates, global_answers })
    }

    /// Whether more is to be told than what concerns everybody.
    pub(crate) fn is_verbose(&self) -> bool {
        self.logs.is_verbose()
    }

    fn names_nothing(&self) -> bool {
        self.host.config.is_none()
            && self.host.bin_dir.is_none()
            && self.docker_config.is_none()
            && self.pull_secret.is_empty()
    }

    fn secrets(&self) -> Result<Vec<Arc<Logins>>, SetupError> {
        let mut secrets = Vec::new();
        for path in &self.pull_secret {
            let text = read(path)
                .map_err(|source| SetupError::PullSecretFile { path: path.clone(), source })?;
            secrets.extend(PullSecret::parse_file(text.expose(), &path.to_string_lossy())?);
        }
        Ok(PullSecret::all_logins(&secrets)?)
    }

    /// It must be one now; what becomes of it later is another matter.
    fn docker_config(&self) -> Result<Option<NodeDockerConfig>, SetupError> {
        let Some(path) = &self.docker_config else { return Ok(None) };
        let config = NodeDockerConfig::file(path, Arc::new(SystemClock));
        config.logins()?;
        Ok(Some(config))
    }

    /// The providers as they are written, and the directory of their plugins.
    fn config(&self) -> Result<Option<(Config, &Path)>, SetupError> {
        match (&self.host.config, &self.host.bin_dir) {
            (Some(config), Some(plugins)) => Ok(Some((Config::read(config)?, plugins))),
            (None, None) if self.identity.is_given() => Err(IdentityArgsError::NoProviders.into()),
            (None, None) => Ok(None),
            (Some(_), None) => Err(SetupError::OneWithoutOther("--config", "--bin-dir")),
            (None, Some(_)) => Err(SetupError::OneWithoutOther("--bin-dir", "--config")),
        }
    }

    /// A plugin that is not there fails when it is asked, so that the others can be seen to work.
    fn options(&self, mut options: HostOptions) -> HostOptions {
        options.missing_plugins = MissingPlugins::FailWhenAsked;
        options.global_answers = self.global_answers.into();
        if let Some(timeout) = self.timeout {
            options.timeout = timeout;
            // Each answer of an API server has that long, and a token may need two.
            options.identity_timeout = timeout.saturating_mul(3);
        }
        options
    }

    /// The gates of a kubelet, and of the API server too if that is in this process.
    fn gates(&self) -> Result<FeatureGates, RemovedGates> {
        const BOTH: [KubernetesComponent; 2] =
            [KubernetesComponent::Kubelet, KubernetesComponent::ApiServer];
        let components = if self.identity.is_embedded() { &BOTH[..] } else { &BOTH[..1] };
        self.host.gates.open(components)
    }
}

/// A kubelet looks at the directory before it judges the configuration.
fn valid(config: &Config, plugins: &Path, gates: FeatureGates) -> Result<Providers, SetupError> {
    let plugins = plugins.to_owned();
    if let Err(source) = fs::metadata(&plugins) {
        return Err(BuildError::PluginDirectory { path: plugins, source }.into());
    }
    Ok(Providers { config: config.validate(gates)?, plugins })
}

/// Reads at most what a Secret can hold many times over. A pipe is fine: `--pull-secret <(kubectl get secret …)`.
fn read(path: &Path) -> io::Result<Secret<Vec<u8>>> {
    const MOST: u64 = 16 << 20;
    let mut text = Vec::new();
    let length = File::open(path)?.take(MOST + 1).read_to_end(&mut text);
    let text = Secret::new(text);
    if length? as u64 > MOST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(text)
}

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let duration = GoDuration::parse(text).map_err(|error| error.to_string())?;
    let positive = duration.to_std().filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "a plugin needs some time: write a duration such as 30s".to_owned())
}

/// Why nothing can be asked.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    #[error(
        "nowhere to look for credentials: there is no agent at /run/keyfob/agent.sock; start one, or give --config and --bin-dir for providers, \
         --pull-secret for a pod's secret, --docker-config for the node's, or --agent PATH for a running agent"
    )]
    NothingGiven,
    #[error("{0} needs {1} beside it; a kubelet with only one of the two does not start")]
    OneWithoutOther(&'static str, &'static str),
    #[error("the configuration cannot be read")]
    Read(#[from] ReadError),
    #[error("the configuration is not valid")]
    Invalid(#[from] Invalid),
    #[error("the providers cannot be used")]
    Build(#[from] BuildError),
    #[error("cannot read pull secret {}", path.display())]
    PullSecretFile { path: PathBuf, source: io::Error },
    #[error("the pull secret cannot be used")]
    PullSecretContents(#[from] PullSecretFileError),
    #[error("the pull secret cannot be used, and a kubelet would fail the pull")]
    PullSecret(#[from] PullSecretError),
    #[error(transparent)]
    Gates(#[from] RemovedGates),
    #[error(transparent)]
    Identity(#[from] IdentityArgsError),
    #[error(transparent)]
    Agent(#[from] AgentAndSources),
    #[error("cannot wait for plugins")]
    System(#[from] io::Error),
    #[error("the docker configuration cannot be used")]
    DockerConfig(#[from] DockerConfigFileError),
}

impl From<SetupError> for Outcome {
    fn from(error: SetupError) -> Self {
        Self { stderr: told(&error), verdict: Verdict::WrongInput, ..Self::default() }
    }
}

/// What is wrong and what to do, line by line. What a configuration could not be read for is told in pieces that quote
/// no secret of it.
fn told(error: &SetupError) -> String {
    match error {
        SetupError::Read(read) => in_a_kubelet(read.errors()),
        SetupError::Invalid(invalid) => in_a_kubelet(invalid.errors()),
        SetupError::Build(error @ BuildError::PluginDirectory { .. }) => {
            format!("keyfob: {error}: correct --bin-dir; a kubelet would not start without it\n")
        }
        other => format!("keyfob: {}\n", Chain(other)),
    }
}

fn in_a_kubelet(errors: &[ConfigError]) -> String {
    let lines: String = errors.iter().map(config_error).collect();
    lines + "keyfob: a kubelet would not start with this configuration; keyfob validate says more\n"
}

fn config_error(error: &ConfigError) -> String {
    let place = error.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    let help = error.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("keyfob: {place}{error}{help}\n")
}
