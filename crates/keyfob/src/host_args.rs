//! The flags that say where credentials are looked for, and what is opened with them.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use keyfob_api::{GoDuration, Secret};
use keyfob_exec::SystemClock;
use keyfob_host::{
    BuildError, Chain, Config, ConfigError, DockerConfigFileError, FeatureGates, Host, HostOptions,
    Logins, MissingPlugins, NodeDockerConfig, PullSecret, PullSecretError, PullSecretFileError,
    ReadError,
};
use thiserror::Error;
use tokio::runtime;

use crate::{
    Outcome, Verdict,
    cli::HostArgs,
    identity_args::{IdentityArgs, IdentityArgsError},
    logging::LogArgs,
    lookup::{Providers, Sources},
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
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    logs: LogArgs,
}

impl SourceArgs {
    /// Opens everything that the flags name, and starts logging.
    pub(crate) fn open(&self) -> Result<Sources, SetupError> {
        self.logs.start();
        self.identity.check()?;
        if self.names_nothing() {
            return Err(SetupError::NothingGiven);
        }
        Ok(Sources {
            secrets: self.secrets()?,
            docker_config: self.docker_config()?,
            providers: self.providers()?,
        })
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

    fn docker_config(&self) -> Result<Option<Arc<Logins>>, SetupError> {
        let Some(path) = &self.docker_config else { return Ok(None) };
        Ok(NodeDockerConfig::file(path, Arc::new(SystemClock)).logins()?)
    }

    /// A plugin that is not there fails when it is asked, so that the others can be seen to work.
    fn providers(&self) -> Result<Option<Providers>, SetupError> {
        let (path, plugins) = match (&self.host.config, &self.host.bin_dir) {
            (Some(config), Some(bin_dir)) => (config, bin_dir),
            (None, None) if self.identity.is_given() => {
                return Err(IdentityArgsError::NoProviders.into());
            }
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(SetupError::OneWithoutOther("--config", "--bin-dir")),
            (None, Some(_)) => return Err(SetupError::OneWithoutOther("--bin-dir", "--config")),
        };
        let config = Config::read(path)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let identity = runtime.block_on(self.identity.open(self.timeout))?;
        let mut options = HostOptions::default();
        options.missing_plugins = MissingPlugins::FailWhenAsked;
        if let Some(timeout) = self.timeout {
            options.timeout = timeout;
            // Each answer of an API server has that long, and a token may need two.
            options.identity_timeout = timeout.saturating_mul(3);
        }
        let builder = Host::builder(config.clone(), plugins).gates(self.gates()).options(options);
        let (builder, puller) = match identity {
            Some(opened) => opened.hand_to(builder),
            None => (builder, None),
        };
        let host = builder.build()?;
        Ok(Some(Providers { config, plugins: plugins.clone(), host, puller, runtime }))
    }

    /// A kubelet's whole list may be given; most of it decides nothing here.
    fn gates(&self) -> FeatureGates {
        let parsed = self.host.feature_gates();
        for gate in &parsed.unknown {
            tracing::info!(gate, "a feature gate that decides nothing here");
        }
        parsed.gates
    }
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
        "nowhere to look for credentials: give --config and --bin-dir for providers, \
         --pull-secret for a pod's secret, or --docker-config for the node's"
    )]
    NothingGiven,
    #[error("{0} needs {1} beside it; a kubelet with only one of the two does not start")]
    OneWithoutOther(&'static str, &'static str),
    #[error("the configuration cannot be read")]
    Read(#[from] ReadError),
    #[error("the providers cannot be used")]
    Build(#[from] BuildError),
    #[error("cannot read pull secret {}", path.display())]
    PullSecretFile { path: PathBuf, source: io::Error },
    #[error("the pull secret cannot be used")]
    PullSecretContents(#[from] PullSecretFileError),
    #[error("the pull secret cannot be used, and a kubelet would fail the pull")]
    PullSecret(#[from] PullSecretError),
    #[error(transparent)]
    Identity(#[from] IdentityArgsError),
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
        SetupError::Build(BuildError::Invalid(invalid)) => in_a_kubelet(invalid.errors()),
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
