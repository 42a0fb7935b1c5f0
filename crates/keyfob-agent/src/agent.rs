//! The agent: one host, its configuration, and everything around them.

mod background;
mod reload;

use std::{
    error::Error as _,
    fmt, io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use keyfob_agent_config::{AgentConfig, AgentConfigError, AuditConfig};
use keyfob_api::FeatureGates;
use keyfob_caller::{AttestError, HostReference, NoPods, NodePods};
use keyfob_config::{Config, Invalid, ReadError, ValidConfig};
use keyfob_exec::{Clock, SystemClock};
use keyfob_host::{Backoff, BuildError, Host, HostBuilder, HostOptions, MissingPlugins, Reloaded};
use keyfob_net::server::{Limits, Listener, SocketFile};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::{sync::watch, task::JoinSet};

pub(crate) use self::reload::Reloads;
use self::reload::warn_of_unknown_providers;
use crate::{
    audit::{AuditLog, LoggedGrants, Suppressed},
    cached_logins::CachedLogins,
    metrics::Metrics,
    rate_limit::{ActiveRequests, RateLimiter},
    server,
    sockets::{HttpPort, Sockets, UnavailablePort},
    status::{History, StatusPage},
    warm::RememberedImages,
    watch_files::{self, FileContents},
};

/// The most answers of one provider that are cached: some 60 MB.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();

/// How much longer than the request timeout the agent waits at its end, so that a request that took too long is still told so.
const LATE_ANSWER_GRACE: Duration = Duration::from_millis(500);

/// What an agent is made of.
pub struct AgentBuilder {
    path: PathBuf,
    config: AgentConfig,
    gates: FeatureGates,
    clock: Arc<dyn Clock>,
    pods: Arc<dyn NodePods>,
    adjust_host: Box<dyn FnOnce(HostBuilder) -> HostBuilder>,
    administrator: u32,
    watch_files: bool,
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

/// An agent that is ready to serve.
#[derive(Debug)]
pub struct Agent {
    pub(crate) shared: Arc<Shared>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The agent's file.
    path: PathBuf,
    gates: FeatureGates,
    config: ArcSwap<AgentConfig>,
    /// The newest configuration. It differs from `config` only during a reload, while the host may already have its providers.
    next_config: ArcSwap<AgentConfig>,
    reloads_begun: AtomicU64,
    reloads_ended: AtomicU64,
    pub(crate) host: Host,
    pub(crate) cached_logins: CachedLogins,
    /// The user whose processes on the host are those of root.
    pub(crate) administrator: u32,
    pub(crate) pods: Arc<dyn NodePods>,
    pub(crate) audit: AuditLog,
    pub(crate) limiter: RateLimiter,
    pub(crate) active: ActiveRequests,
    /// How many refusals of each caller are logged.
    pub(crate) logged_refusals: RateLimiter,
    pub(crate) logged_grants: LoggedGrants,
    /// What was not logged since the last event.
    pub(crate) suppressed: Mutex<Suppressed>,
    pub(crate) remembered: RememberedImages,
    pub(crate) metrics: Metrics,
    pub(crate) registry: Registry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) host_reference: HostReference,
    /// Whether a change of a file reloads the configuration.
    watch_files: bool,
    pub(crate) started: SystemTime,
    /// The configuration of the start: what is read only then is in effect until the end.
    first_config: Box<AgentConfig>,
    /// One reload at a time.
    reloading: Mutex<()>,
    reloads: Mutex<Reloads>,
    files_tried: Mutex<Option<FileContents>>,
    unavailable_port: Mutex<Option<UnavailablePort>>,
    pub(crate) history: Arc<History>,
    pub(crate) status_page: StatusPage,
}

impl AgentBuilder {
    /// An agent with this configuration, which was read from this file and is read from it again when it changes.
    pub fn new(path: impl Into<PathBuf>, config: AgentConfig) -> Self {
        Self {
            path: path.into(),
            config,
            gates: FeatureGates::default(),
            clock: Arc::new(SystemClock),
            pods: Arc::new(NoPods),
            adjust_host: Box::new(|host| host),
            administrator: 0,
            watch_files: true,
        }
    }

    /// The feature gates that the provider configuration is validated with.
    #[must_use]
    pub fn gates(mut self, gates: FeatureGates) -> Self {
        self.gates = gates;
        self
    }

    /// The clock by which answers expire.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where the pods of this node come from. Without it, no caller is recognised as a pod.
    #[must_use]
    pub fn pods(mut self, pods: impl NodePods + 'static) -> Self {
        self.pods = Arc::new(pods);
        self
    }

    /// Changes how the host is built: where service accounts come from, what runs the plugins.
    #[must_use]
    pub fn host(mut self, adjust: impl FnOnce(HostBuilder) -> HostBuilder + 'static) -> Self {
        self.adjust_host = Box::new(adjust);
        self
    }

    /// The user who administers the agent, in the place of root. For tests: they need not run as root, and can see what other users see.
    #[doc(hidden)]
    #[must_use]
    pub fn administrator(mut self, uid: u32) -> Self {
        self.administrator = uid;
        self
    }

    /// Whether the agent reloads by itself when its files change, which is the default. Without it, only [`Agent::reload`] and the
    /// administrator's socket do. For tests: they decide when files are read again.
    #[doc(hidden)]
    #[must_use]
    pub fn watch_files(mut self, watch: bool) -> Self {
        self.watch_files = watch;
        self
    }

    /// Reads the provider configuration and opens the audit log.
    pub fn build(self) -> Result<Agent, AgentError> {
        let Self { path, config, gates, clock, pods, adjust_host, administrator, watch_files } =
            self;
        let files = FileContents::read(&path, &config);
        // If the file has changed since the configuration was read from it, nobody has tried what it says now.
        let is_tried = AgentConfig::read(&path).is_ok_and(|now| now == config);
        let providers = read_providers(&config, gates)?;
        let hash = providers.hash().map(str::to_owned);
        let history = Arc::new(History::new(clock.clone()));
        warn_of_unknown_providers(&path, &providers);
        let builder = Host::builder(providers, &config.plugin_directory)
            .options(host_options(&config))
            .clock(clock.clone())
            .observer(history.clone());
        let host = adjust_host(builder).build()?;
        let audit = AuditLog::open(&config.audit)
            .map_err(|source| AgentError::audit(&config.audit, source))?;
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        host.register_metrics(&mut registry);
        metrics.register_metrics(&mut registry);
        metrics.configured(&config, &host);
        audit.register_metrics(&mut registry);
        let host_reference = host_reference()?;
        let shared = Shared {
            path,
            gates,
            remembered: RememberedImages::new(config.state_directory.as_deref()),
            first_config: Box::new(config.clone()),
            next_config: ArcSwap::from_pointee(config.clone()),
            config: ArcSwap::from_pointee(config),
            reloads_begun: AtomicU64::default(),
            reloads_ended: AtomicU64::default(),
            host,
            cached_logins: CachedLogins::default(),
            administrator,
            pods,
            audit,
            limiter: RateLimiter::default(),
            active: ActiveRequests::default(),
            logged_refusals: RateLimiter::default(),
            logged_grants: LoggedGrants::default(),
            suppressed: Mutex::default(),
            metrics,
            registry,
            started: clock.now(),
            clock,
            host_reference,
            watch_files,
            reloading: Mutex::default(),
            reloads: Mutex::new(Reloads { hash, ..Reloads::default() }),
            files_tried: Mutex::new(is_tried.then_some(files)),
            unavailable_port: Mutex::default(),
            history,
            status_page: StatusPage::default(),
        };
        Ok(Agent { shared: Arc::new(shared) })
    }
}

/// What a process on the host looks like: the init of the node, or if that cannot be read, the agent itself.
fn host_reference() -> Result<HostReference, AttestError> {
    HostReference::of_init().or_else(|error| {
        // Only its source: its own text is about a caller.
        let error = error.source().map(ToString::to_string);
        tracing::warn!(
            error,
            "process 1 cannot be read, so callers count as processes on the host if they are where the agent itself runs; \
             start it as root on the host"
        );
        HostReference::of_agent()
    })
}

fn read_providers(config: &AgentConfig, gates: FeatureGates) -> Result<ValidConfig, AgentError> {
    Ok(Config::read(&config.provider_config)?.validate(gates)?)
}

/// A plugin that is missing fails when it is asked, so that the others go on; a plugin that fails is not run again at once.
fn host_options(config: &AgentConfig) -> HostOptions {
    let mut options = HostOptions::default();
    options.missing_plugins = MissingPlugins::FailWhenAsked;
    options.backoff = Some(Backoff::default());
    options.max_cache_entries = Some(MAX_CACHED);
    options.refresh_ahead = Some(config.warm.refresh_ahead);
    options.max_runs_per_provider =
        NonZeroUsize::new(config.limits.plugin_runs_per_provider as usize);
    options
}

impl Agent {
    /// Serves until `stop` becomes true. Then no new connections are taken but those that clients have opened already, requests under way
    /// may finish within the request timeout, and the audit log and the remembered images are written.
    pub async fn serve(&self, sockets: Sockets, stop: watch::Receiver<bool>) {
        let shared = &self.shared;
        let limits = self.limits();
        let stopped = || {
            let mut stop = stop.clone();
            // A sender that is gone counts as the signal to stop: nobody else could send one.
            async move { stop.wait_for(|stop| *stop).await.map(drop).unwrap_or_default() }
        };
        let remove_paths_at_stop = async {
            stopped().await;
            drop(sockets.made);
        };
        let agent =
            server::serve_agent(shared.clone(), sockets.agent, limits, remove_paths_at_stop);
        let admin = async {
            if let Some(admin) = sockets.admin {
                server::serve_admin(shared.clone(), admin, limits, stopped()).await;
            }
        };
        let end_streams = async {
            stopped().await;
            shared.audit.end_streams();
            shared.history.end_streams();
        };
        let (others_end, others) = watch::channel(false);
        let serve_http = async |listener: Listener, made: Vec<SocketFile>| {
            let mut others = others.clone();
            let ended = async move {
                others.wait_for(|ended| *ended).await.map(drop).unwrap_or_default();
                // Its path goes before it stops to accept, so that nobody connects in vain.
                drop(made);
            };
            Box::pin(server::serve_http(shared.clone(), listener, stop.clone(), ended)).await;
        };
        let http_socket = async {
            if let Some(listener) = sockets.http_socket {
                serve_http(listener.into(), sockets.made_http).await;
            }
        };
        let http_port = async {
            if let Some(port) = sockets.http_port {
                shared.set_unavailable_port(&port);
                tokio::select! {
                    listener = port.listener() => {
                        *shared.lock_unavailable_port() = None;
                        serve_http(listener.into(), Vec::new()).await;
                    }
                    () = stopped() => {}
                }
            }
        };
        let requests = async {
            tokio::join!(agent, admin, end_streams);
            others_end.send_replace(true);
        };
        // It ends with this.
        let mut background = self.start_background();
        tokio::join!(requests, http_socket, http_port);
        background.shutdown().await;
        blocking(shared, Shared::close).await;
    }

    /// Starts what the agent does without being asked. In tasks of their own: connections are accepted whatever these wait for.
    fn start_background(&self) -> JoinSet<()> {
        let mut background = JoinSet::new();
        background.spawn(background::stay_warm(self.shared.clone()));
        background.spawn(background::store_images(self.shared.clone()));
        if self.shared.watch_files {
            background.spawn(watch_files::reload_on_change(self.shared.clone()));
        }
        background
    }

    /// Reads both files again. On any error the old configuration stays.
    ///
    /// This waits for the disk, and for the name service if the file names users or groups: call it on a thread that may wait, such as
    /// with [`spawn_blocking`](tokio::task::spawn_blocking).
    pub fn reload(&self) -> Result<Reloaded, AgentError> {
        self.shared.reload()
    }

    fn limits(&self) -> Limits {
        let config = self.shared.config();
        let connections = config.limits.connections as usize;
        // One user cannot lock out the others. Most requests come from root, whose kubelet may start hundreds of pods at once.
        let share = (connections - connections / 4).max(4);
        Limits {
            connections,
            connections_per_peer: share,
            // Those for which there is no place yet wait for one, as they would wait for a plugin.
            handshakes: connections,
            handshakes_per_peer: share,
            handshake: config.limits.request_timeout,
            body_size: config.limits.body_bytes as usize,
            buffered: (config.limits.body_bytes as usize).saturating_mul(64),
            drain: config.limits.request_timeout.saturating_add(LATE_ANSWER_GRACE),
            ..Limits::default()
        }
    }
}

/// Does what may wait for a disk or a name service, on a thread that may wait, and logs where the caller logs. Nothing if it has panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Option<T> {
    let shared = shared.clone();
    let log = tracing::dispatcher::get_default(Clone::clone);
    let work = move || tracing::dispatcher::with_default(&log, || work(&shared));
    tokio::task::spawn_blocking(work).await.ok()
}

impl Shared {
    /// The configuration of now.
    pub(crate) fn config(&self) -> Arc<AgentConfig> {
        self.config.load_full()
    }

    /// The agent's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Why metrics are not served on their port.
    pub(crate) fn unavailable_port(&self) -> Option<UnavailablePort> {
        self.lock_unavailable_port().clone()
    }

    fn set_unavailable_port(&self, port: &HttpPort) {
        if let HttpPort::Unavailable(address, _, error) = port {
            *self.lock_unavailable_port() = Some(UnavailablePort {
                address: *address,
                error: error.to_string(),
                since: self.clock.now(),
            });
        }
    }

    fn lock_unavailable_port(&self) -> MutexGuard<'_, Option<UnavailablePort>> {
        self.unavailable_port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reloads(&self) -> Reloads {
        self.reloads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close(&self) {
        self.store_images();
        self.log_suppressed();
        self.audit.close();
    }
}

/// Why an agent cannot start, or does not use a new configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The agent's file is wrong.
    #[error(transparent)]
    Config(#[from] AgentConfigError),
    /// The provider configuration cannot be read.
    #[error("the provider configuration cannot be read")]
    Providers(#[from] ReadError),
    /// The provider configuration is not valid.
    #[error("the provider configuration is not valid")]
    InvalidProviders(#[from] Invalid),
    /// The providers cannot be used.
    #[error("the providers cannot be used")]
    Host(#[from] BuildError),
    /// The audit log cannot be opened.
    #[error("the audit log {place} cannot be opened")]
    Audit {
        /// A file, or the journal.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The agent cannot tell processes on the host from those in containers.
    #[error("the agent cannot identify its callers: /proc is not usable")]
    Attestation(#[from] AttestError),
}

impl AgentError {
    fn audit(config: &AuditConfig, source: io::Error) -> Self {
        let place = match config {
            AuditConfig::File { path, .. } => path.display().to_string(),
            _ => "in the journal".to_owned(),
        };
        Self::Audit { place, source }
    }
}

#[cfg(test)]
mod tests;
