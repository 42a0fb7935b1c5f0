//! `keyfob serve`: the node agent.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use keyfob_agent::{
    Agent, AgentBuilder, AgentError, HttpListener, InheritedSockets, SocketError, Sockets,
};
use keyfob_agent_config::{AgentConfig, AgentConfigError};
use keyfob_api::{Chain, KubernetesComponent};
use keyfob_caller::KubernetesPods;
use keyfob_exec::{Environment as _, SystemEnvironment, raise_file_limit};
use keyfob_host::KubernetesApi;
use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};
use sd_notify::NotifyState;
use thiserror::Error;
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    Outcome, Verdict,
    api_args::{ApiArgs, ApiError},
    gates_args::{GatesArgs, RemovedGates},
    logging::LogArgs,
    signals::{self, GRACE},
};

/// How many threads answer requests.
const THREADS: usize = 2;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyfob validate /etc/keyfob/agent.yaml && keyfob serve\n  keyfob serve --config ./agent.yaml -v\n\n\
                  SIGHUP reads the files again. SIGTERM stops: requests under way may finish.\n\
                  To replace a running agent without a gap: start the new one with --take-over, then stop the old one.\n\
                  Exit codes: 0 it was stopped, 2 the configuration or a socket cannot be used."
)]
pub(crate) struct ServeArgs {
    /// The agent's file.
    #[arg(long, value_name = "FILE", default_value = "/etc/keyfob/agent.yaml")]
    config: PathBuf,
    /// Take the sockets over from an agent that listens there. That one serves the connections it has until it is stopped.
    #[arg(long)]
    take_over: bool,
    /// The name of this node in the cluster, if `nodeName` is not in the file.
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    #[command(flatten)]
    gates: GatesArgs,
    #[command(flatten)]
    logs: LogArgs,
}

pub(crate) fn run(args: &ServeArgs) -> Outcome {
    // Dropped last: spans end until the runtime has ended.
    let _log = args.logs.start_service();
    // Each connection takes a few files.
    if let Err(error) = raise_file_limit() {
        tracing::debug!(%error, "the limit of open files stays");
    }
    let runtime = runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    match runtime.map_err(ServeError::from).and_then(|runtime| runtime.block_on(args.serve())) {
        Ok(()) => Outcome::default(),
        Err(error) => error.into(),
    }
}

/// How long the agent may take for its end after a signal: requests under way finish, and then the last spans are sent.
fn grace(request_timeout: Duration) -> Duration {
    let grace = request_timeout.saturating_add(GRACE);
    #[cfg(feature = "otlp")]
    let grace = grace.saturating_add(crate::otlp::LAST_SPANS);
    grace
}

impl ServeArgs {
    async fn serve(&self) -> Result<(), ServeError> {
        let config = AgentConfig::read(&self.config)?;
        let mut stop =
            signals::listen_except_hangup(Verdict::Yes, grace(config.limits.request_timeout))?;
        let hangups = signal(SignalKind::hangup())?;
        let inherited = inherited()?;
        // A second agent that is started by mistake fails before it touches the files of the first. One that takes over must be able to
        // serve before it is the one that clients reach.
        let (agent, sockets) = if self.take_over {
            let agent = self.build(config.clone())?;
            (agent, Sockets::take_over(&config, inherited)?)
        } else {
            let sockets = Sockets::open(&config, inherited)?;
            (self.build(config.clone())?, sockets)
        };
        let (agent, http) = (Arc::new(agent), sockets.http_address());
        tell_manager(&[NotifyState::Ready, NotifyState::Status("serving")]);
        tracing::info!(
            socket = %config.agent_socket.path.display(), rules = config.rules.len(),
            http = http.map(tracing::field::display), "the agent serves"
        );
        let (tell, stopped) = watch::channel(false);
        let stopping = async {
            stop.signal().await;
            tell_manager(&[NotifyState::Stopping]);
            tracing::info!("the agent stops; requests under way may finish");
            tell.send_replace(true);
            std::future::pending::<()>().await;
        };
        // In a task: what is awaited here directly runs on this thread alone, and each connection would wake it and then a worker.
        let served = agent.clone();
        let serving = tokio::spawn(async move { served.serve(sockets, stopped).await });
        tokio::select! {
            ended = serving => {
                ended.map_err(io::Error::other)?;
                tracing::info!("the agent has stopped");
            }
            () = stopping => {}
            () = reload_on_hangup(&agent, hangups) => {}
            () = keep_watchdog() => {}
        }
        Ok(())
    }

    fn build(&self, config: AgentConfig) -> Result<Agent, ServeError> {
        let gates = self.gates.open(&[KubernetesComponent::Kubelet])?;
        let cluster = config.cluster.clone();
        let file = std::path::absolute(&self.config)?;
        let mut builder = AgentBuilder::new(file, config).gates(gates);
        if let Some(cluster) = cluster {
            let node = cluster.node_name.or_else(|| self.node_name.clone());
            let node = node.ok_or(ServeError::NodeUnknown)?;
            let kubeconfig = Some(cluster.kubeconfig.into_os_string());
            let api = ApiArgs { kubeconfig, context: None }.open()?;
            let pods = KubernetesPods::new(api.client.clone(), node, api.secrets.clone());
            let accounts = KubernetesApi::new(api.client, api.server).redacting(api.secrets);
            builder = builder.pods(pods).host(|host| host.service_accounts(accounts));
        }
        Ok(builder.build()?)
    }
}

async fn reload_on_hangup(agent: &Arc<Agent>, mut hangups: tokio::signal::unix::Signal) {
    while hangups.recv().await.is_some() {
        let agent = agent.clone();
        // A slow disk must not keep the watchdog waiting.
        let reloaded = tokio::task::spawn_blocking(move || agent.reload()).await;
        if let Ok(Ok(reloaded)) = reloaded {
            tracing::info!(?reloaded, "the files were read again");
        }
    }
    std::future::pending::<()>().await;
}

/// Tells systemd that the agent is alive, as often as it wants to hear it.
async fn keep_watchdog() {
    let Some(interval) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut ticks = tokio::time::interval((interval / 2).max(Duration::from_millis(100)));
    loop {
        ticks.tick().await;
        tell_manager(&[NotifyState::Watchdog]);
    }
}

/// Tells systemd, if it started us.
fn tell_manager(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager was not told");
    }
}

/// The sockets that systemd opened for us, by the names in their `.socket` units (`FileDescriptorName=`).
fn inherited() -> Result<InheritedSockets, ServeError> {
    let names = SystemEnvironment.var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.to_string_lossy().into_owned();
    let (mut inherited, mut descriptors) = (InheritedSockets::default(), ListenFd::from_env());
    for (index, name) in socket_names(&names, descriptors.len())?.into_iter().enumerate() {
        let slot = match name {
            SocketName::Agent => &mut inherited.agent,
            SocketName::Admin => &mut inherited.admin,
            SocketName::Http => {
                inherited.http = http_listener(&mut descriptors, index)?;
                continue;
            }
        };
        if let Some(listener) = descriptors.take_unix_listener(index)? {
            // A plugin must not have it.
            fcntl_setfd(&listener, FdFlags::CLOEXEC).map_err(io::Error::from)?;
            *slot = Some(listener);
        }
    }
    Ok(inherited)
}

/// A port or a socket of the file system, whichever the unit has. Both are closed when a plugin starts.
fn http_listener(
    descriptors: &mut ListenFd,
    index: usize,
) -> Result<Option<HttpListener>, ServeError> {
    if let Ok(listener) = descriptors.take_unix_listener(index) {
        return Ok(listener.map(HttpListener::Unix));
    }
    Ok(descriptors.take_tcp_listener(index)?.map(HttpListener::Tcp))
}

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketName {
    Agent,
    Admin,
    Http,
}

/// What the service manager calls the sockets that it passes. A name for each is needed: to serve credentials on a socket that was
/// meant for administrators would be wrong.
fn socket_names(listed: &str, passed: usize) -> Result<Vec<SocketName>, ServeError> {
    let mut sockets = Vec::new();
    for name in listed.split(':').chain(std::iter::repeat("")).take(passed) {
        let name = match name {
            "agent" => SocketName::Agent,
            "admin" => SocketName::Admin,
            "http" => SocketName::Http,
            _ => return Err(ServeError::UnknownSocket(name.to_owned())),
        };
        if sockets.contains(&name) {
            return Err(ServeError::SocketTwice(name));
        }
        sockets.push(name);
    }
    Ok(sockets)
}

/// Why the agent does not serve.
#[derive(Debug, Error)]
enum ServeError {
    #[error(transparent)]
    Config(#[from] AgentConfigError),
    #[error("the agent cannot start")]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(
        "the name of this node is not known; write nodeName beside nodeKubeconfig, or start with --node-name"
    )]
    NodeUnknown,
    #[error("the node's kubeconfig cannot be used")]
    Api(#[from] ApiError),
    #[error(transparent)]
    Gates(#[from] RemovedGates),
    #[error(
        "the service manager passed a socket named {0:?}; write FileDescriptorName=agent, =admin or =http in its unit"
    )]
    UnknownSocket(String),
    #[error(
        "the service manager passed two sockets named {0:?}; write FileDescriptorName=agent, =admin and =http once each"
    )]
    SocketTwice(SocketName),
    #[error("the agent cannot start")]
    System(#[from] io::Error),
}

impl ServeError {
    /// What to do about it.
    fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::Agent(AgentError::Providers(_) | AgentError::InvalidProviders(_)) => {
                "correct providerConfig, and check it with `keyfob validate` and the agent's file"
            }
            Self::Agent(AgentError::Host(_)) => "correct pluginDirectory in the agent's file",
            Self::Agent(AgentError::Audit { .. }) => {
                "make its directory, or change audit in the agent's file"
            }
            Self::Socket(SocketError::NotASocket(_)) => {
                "remove it, or name another path under listeners in the agent's file"
            }
            Self::Socket(SocketError::Open { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                "run it as root, or name other paths under listeners in the agent's file"
            }
            _ => return None,
        })
    }
}

impl From<ServeError> for Outcome {
    fn from(error: ServeError) -> Self {
        let stderr = match &error {
            ServeError::Config(error) | ServeError::Agent(AgentError::Config(error)) => {
                problems(error)
            }
            ServeError::Socket(SocketError::InUse(_)) => {
                format!("keyfob: {error}\nhelp: stop it, or take over from it with --take-over\n")
            }
            other => {
                let help = other.help().map(|help| format!("help: {help}\n"));
                format!("keyfob: {}\n{}", Chain(other), help.unwrap_or_default())
            }
        };
        Self { stderr, verdict: Verdict::WrongInput, ..Self::default() }
    }
}

/// The problems of an agent's file, each with what to do about it.
pub(crate) fn problems(error: &AgentConfigError) -> String {
    let line = |problem: &keyfob_agent_config::AgentConfigProblem| match &problem.help {
        Some(help) => format!("keyfob: {problem}\nhelp: {help}\n"),
        None => format!("keyfob: {problem}\n"),
    };
    error.problems().iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_passed_is_known_by_its_name() {
        let names = |names, passed| socket_names(names, passed).ok();
        let all = vec![SocketName::Admin, SocketName::Http, SocketName::Agent];
        assert_eq!(names("admin:http:agent", 3), Some(all));
        assert_eq!(names("agent", 1), Some(vec![SocketName::Agent]));
        assert_eq!(names("", 0), Some(Vec::new()), "nobody passes any");
        for (wrong, passed) in [("", 1), ("agent", 2), ("unknown", 1), ("agent:agent", 2)] {
            assert_eq!(names(wrong, passed), None, "{wrong}");
        }
    }
}
