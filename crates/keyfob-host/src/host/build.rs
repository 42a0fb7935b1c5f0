//! From a configuration to providers that can be asked, at the start and at a reload.
//!
//! Upstream: `RegisterCredentialProviderPlugins` in `pkg/credentialprovider/plugin/plugin.go`.
//! Differs: everything that is wrong with plugins is said at once, with the path really tried.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use arc_swap::ArcSwap;
use keyfob_config::{ValidConfig, ValidProvider};
use keyfob_exec::{
    Clock, Environment, LookupError, ProcessRunner, Program, Runner, SystemClock,
    SystemEnvironment, Untrusted, check_trust,
};
use keyfob_keyring::NodeDockerConfig;
use thiserror::Error;
use tokio::runtime::Handle;

use super::{Host, Reloaded, Snapshot};
use crate::{
    HostOptions, MissingPlugins, PluginObserver, ServiceAccounts,
    identity::{Identities, Standalone},
    index::PatternIndex,
    metrics::Metrics,
    provider::{Provider, Surroundings},
};

/// Everything a host is made of.
#[derive(Debug)]
pub struct HostBuilder {
    /// Nothing if there are no providers, and so no plugin directory either.
    config: Option<ValidConfig>,
    plugins: PathBuf,
    clock: Arc<dyn Clock>,
    runner: Arc<dyn Runner>,
    options: HostOptions,
    runtime: Option<Handle>,
    docker_config: Option<NodeDockerConfig>,
    accounts: Arc<dyn ServiceAccounts>,
    observer: Option<Arc<dyn PluginObserver>>,
}

impl HostBuilder {
    pub(super) fn new(config: Option<ValidConfig>, plugins: &Path) -> Self {
        Self {
            config,
            plugins: plugins.into(),
            clock: Arc::new(SystemClock),
            runner: Arc::new(ProcessRunner::new(SystemEnvironment)),
            options: HostOptions::default(),
            runtime: None,
            docker_config: None,
            accounts: Arc::new(Standalone),
            observer: None,
        }
    }

    /// By which clock answers expire.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The environment that plugins start from, read anew for each run; they are real processes.
    #[must_use]
    pub fn environment(self, environment: impl Environment + 'static) -> Self {
        self.runner(ProcessRunner::new(environment))
    }

    /// What runs the plugins. It knows the environment too.
    #[must_use]
    pub fn runner(mut self, runner: impl Runner + 'static) -> Self {
        self.runner = Arc::new(runner);
        self
    }

    /// What the host does beyond a kubelet.
    #[must_use]
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    /// Where the node's own logins are, which come before the providers'.
    #[must_use]
    pub fn docker_config(mut self, config: NodeDockerConfig) -> Self {
        self.docker_config = Some(config);
        self
    }

    /// Where pods' service accounts and their tokens come from. Without it, providers that use them fail, as those of a
    /// kubelet in standalone mode do.
    #[must_use]
    pub fn service_accounts(mut self, accounts: impl ServiceAccounts + 'static) -> Self {
        self.accounts = Arc::new(accounts);
        self
    }

    /// Who is told of each run of a plugin.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn PluginObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Where plugins run and service accounts are asked for, whoever pulls. Without it that is the runtime of whoever asks
    /// first.
    #[must_use]
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Looks at the plugin directory and finds the plugins, in a kubelet's order.
    pub fn build(self) -> Result<Host, BuildError> {
        let metadata = self.config.is_some().then(|| fs::metadata(&self.plugins));
        if let Some(Err(source)) = metadata {
            return Err(BuildError::PluginDirectory { path: self.plugins, source });
        }
        let timeout = self.options.identity_timeout;
        let host = Host {
            current: Arc::new(ArcSwap::from_pointee(Snapshot::new(Vec::new()))),
            reloading: Mutex::default(),
            around: Arc::new(Surroundings {
                identities: Identities::new(self.accounts, self.clock.clone(), timeout),
                clock: self.clock,
                runner: self.runner,
                plugins: self.plugins.into(),
                options: self.options,
                metrics: Metrics::default(),
                observer: self.observer,
                runtime: self.runtime,
            }),
            docker_config: self.docker_config,
        };
        if let Some(config) = self.config {
            let hash = config.hash().map(str::to_owned);
            host.replace(config)?;
            host.around.metrics.configured(hash.as_deref());
        }
        Ok(host)
    }
}

impl Host {
    /// Everything that can fail comes first; then the old snapshot is replaced.
    pub(super) fn replace(&self, config: ValidConfig) -> Result<Reloaded, BuildError> {
        self.find_plugins(&config)?;
        let old = self.current.load_full();
        let mut reloaded = Reloaded::default();
        let is_kept = |config: &ValidProvider| {
            old.find(config.name()).filter(|provider| *provider.config == *config)
        };
        for provider in &old.providers {
            if config.providers().iter().all(|config| config.name() != &*provider.name) {
                self.around.metrics.forget_plugin(&provider.name);
                reloaded.removed.push(provider.name.to_string());
            }
        }
        let mut providers = Vec::with_capacity(config.providers().len());
        for config in config.into_providers() {
            if let Some(kept) = is_kept(&config) {
                reloaded.kept.push(config.name().to_owned());
                providers.push(kept.clone());
            } else {
                reloaded.started.push(config.name().to_owned());
                providers.push(Arc::new(Provider::new(config, self.around.clone())));
            }
        }
        self.current.store(Arc::new(Snapshot::new(providers)));
        Ok(reloaded)
    }

    fn find_plugins(&self, config: &ValidConfig) -> Result<(), BuildError> {
        let mut problems = Vec::new();
        for provider in config.providers().iter().map(ValidProvider::name) {
            let path = self.around.plugins.join(provider);
            let found = Program::in_directory(&self.around.plugins, provider);
            let problem = match (found, self.around.options.missing_plugins) {
                (Ok(_), _) => match check_trust(&path, self.around.options.trust) {
                    Err(error) => PluginProblem::Untrusted(provider.to_owned(), error),
                    Ok(concerns) => {
                        for concern in concerns {
                            tracing::warn!(provider, %concern, "the plugin could be somebody else's");
                        }
                        continue;
                    }
                },
                (Err(error), MissingPlugins::Refuse) => PluginProblem::Lookup(error),
                (Err(error), MissingPlugins::FailWhenAsked) => {
                    tracing::warn!(provider, %error, "a kubelet would not start");
                    continue;
                }
            };
            problems.push(problem);
        }
        if problems.is_empty() { Ok(()) } else { Err(BuildError::Plugins(problems)) }
    }
}

impl Snapshot {
    fn new(providers: Vec<Arc<Provider>>) -> Self {
        let patterns = providers.iter().enumerate().flat_map(|(at, provider)| {
            let patterns = provider.config.match_images().iter();
            patterns.map(move |pattern| (pattern.clone(), at))
        });
        Self { index: PatternIndex::new(patterns), providers }
    }

    fn find(&self, name: &str) -> Option<&Arc<Provider>> {
        self.providers.iter().find(|provider| &*provider.name == name)
    }
}

/// Why no host comes of a configuration, or the old configuration stays.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no plugin directory.
    #[error("plugin binary directory {} {}", path.display(), said(source))]
    PluginDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Plugins are missing or not to be trusted.
    #[error("{}", Lines(.0))]
    Plugins(Vec<PluginProblem>),
}

fn said(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "did not exist".to_owned(),
        _ => format!("cannot be looked at: {source}"),
    }
}

/// What is wrong with a plugin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PluginProblem {
    /// It is not there or cannot be run.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Somebody else could have written it.
    #[error("{0}: {1}")]
    Untrusted(String, Untrusted),
}

struct Lines<'a>(&'a [PluginProblem]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("; "))
    }
}
