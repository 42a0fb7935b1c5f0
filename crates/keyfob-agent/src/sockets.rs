//! The sockets that the agent listens on.
//!
//! [`SocketFile`] makes them: a socket that a dead agent left behind is replaced; one that somebody listens on is replaced only by a
//! take-over.
//!
//! # Take-over
//!
//! Claim: *a client that connects to the path while one agent takes over from another gets an answer.*
//!
//! 1. The path always leads to a socket that listens: renaming replaces the old socket by the new one in one step.
//! 2. A client that found the old socket is in its queue or was accepted. The old agent goes on to accept until it is told to stop, and
//!    then still serves what is in its queue (`keyfob_net::server::serve`). It is told to stop only when the new one is ready.
//! 3. The old agent does not remove the new socket: it removes a path only if it leads to the socket that it made, and if the path is
//!    replaced just while it does that, it puts the new socket back.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener as StdTcpListener},
    os::unix::net::UnixListener as StdListener,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use keyfob_agent_config::{AgentConfig, SocketConfig};
use keyfob_exec::probe_socket;
use keyfob_net::server::{SocketFile, SocketFileError};
use rustix::net::sockopt::set_socket_reuseport;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// The open sockets of an agent. Sockets that it made itself are removed when this is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Sockets {
    /// The paths of sockets for requests. They are removed before the agent stops to accept, so that nobody connects in vain.
    pub(crate) made: Vec<SocketFile>,
    /// The same for HTTP, which is served longer.
    pub(crate) made_http: Vec<SocketFile>,
    pub(crate) agent: UnixListener,
    pub(crate) admin: Option<UnixListener>,
    pub(crate) http_socket: Option<UnixListener>,
    pub(crate) http_port: Option<HttpPort>,
}

/// A loopback address on which metrics are served.
#[derive(Debug)]
pub(crate) enum HttpPort {
    Open(TcpListener),
    /// Nobody can listen there now. Most often another user of the node does, or the agent that this one takes over from.
    Unavailable(SocketAddr, PortSharing, io::Error),
}

/// A port on which metrics are to be served and cannot be.
#[derive(Clone, Debug)]
pub(crate) struct UnavailablePort {
    pub(crate) address: SocketAddr,
    pub(crate) error: String,
    pub(crate) since: SystemTime,
}

/// How many connections to the port may wait to be accepted.
const PORT_BACKLOG: u32 = 128;
/// How long an agent waits before it tries again to listen on a port that somebody else has.
const PORT_RETRY: Duration = Duration::from_secs(2);

/// How a socket is made: [`SocketFile::bind`] or [`SocketFile::take_over`].
type Bind = fn(&Path, u32) -> Result<(SocketFile, StdListener), SocketFileError>;

/// Whether an agent may listen on a port beside the one that it takes over from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortSharing {
    Alone,
    TakeOver,
}

/// Sockets that the service manager opened (socket activation), by their names `agent`, `admin` and `http`.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct InheritedSockets {
    /// The socket for credentials.
    pub agent: Option<StdListener>,
    /// The socket for administrators.
    pub admin: Option<StdListener>,
    /// Where metrics and the state of the agent are served.
    pub http: Option<HttpListener>,
}

/// A socket for HTTP that the service manager opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpListener {
    /// On a port. Anything but a loopback address is refused.
    Tcp(StdTcpListener),
    /// In the file system.
    Unix(StdListener),
}

impl Sockets {
    /// Takes the sockets that were inherited, and makes the others. Needs a tokio runtime.
    pub fn open(config: &AgentConfig, inherited: InheritedSockets) -> Result<Self, SocketError> {
        let path = &config.agent_socket.path;
        // It is opened last, and is the one to name if all of them are in use.
        if inherited.agent.is_none() && probe_socket(path).is_ok() {
            return Err(SocketError::InUse(path.clone()));
        }
        Self::open_with(config, inherited, SocketFile::bind, PortSharing::Alone)
    }

    /// The same, and takes the paths from an agent that listens there: from now on, new clients reach this process. The other agent goes on
    /// to serve its connections, also those that it has not accepted yet, until it is told to stop. Build the [`Agent`](crate::Agent)
    /// before, so that nothing can fail between this and [`Agent::serve`](crate::Agent::serve).
    ///
    /// Whoever may write to the directory of a socket may do this. Only unix sockets can be taken over.
    pub fn take_over(
        config: &AgentConfig,
        inherited: InheritedSockets,
    ) -> Result<Self, SocketError> {
        Self::open_with(config, inherited, SocketFile::take_over, PortSharing::TakeOver)
    }

    fn open_with(
        config: &AgentConfig,
        inherited: InheritedSockets,
        bind: Bind,
        sharing: PortSharing,
    ) -> Result<Self, SocketError> {
        let (mut made, mut made_http) = (Vec::new(), Vec::new());
        let (port, socket) = match inherited.http {
            Some(HttpListener::Tcp(listener)) => (Some(listener), None),
            Some(HttpListener::Unix(listener)) => (None, Some(listener)),
            None => (None, None),
        };
        // The socket for credentials comes last, so that a failure does not take it away from another agent.
        let http_port = match (port, config.http_address) {
            (Some(listener), _) => Some(HttpPort::Open(loopback(listener)?)),
            (None, Some(address)) => Some(HttpPort::open(address, sharing)),
            (None, None) => None,
        };
        let http_socket = match (socket, &config.http_socket) {
            (Some(listener), _) => Some(unix_listener(listener).map_err(SocketError::inherited)?),
            (None, Some(socket)) => Some(open(socket, None, bind, &mut made_http)?),
            (None, None) => None,
        };
        let admin = match &config.admin_socket {
            Some(socket) => Some(open(socket, inherited.admin, bind, &mut made)?),
            None => None,
        };
        let agent = open(&config.agent_socket, inherited.agent, bind, &mut made)?;
        Ok(Self { made, made_http, agent, admin, http_socket, http_port })
    }

    /// The loopback address where metrics are served, if it is one: with its port, also if the file leaves that to the system (port 0).
    pub fn http_address(&self) -> Option<SocketAddr> {
        match &self.http_port {
            Some(HttpPort::Open(listener)) => listener.local_addr().ok(),
            Some(HttpPort::Unavailable(..)) | None => None,
        }
    }
}

impl HttpPort {
    /// Any user can take a port. That must not keep credentials from everybody else.
    fn open(address: SocketAddr, sharing: PortSharing) -> Self {
        match listen(address, sharing) {
            Ok(listener) => Self::Open(listener),
            Err(error) => {
                tracing::warn!(
                    %address, %error,
                    "metrics and the status page cannot be served there; tried again every {} s",
                    PORT_RETRY.as_secs()
                );
                Self::Unavailable(address, sharing, error)
            }
        }
    }

    /// The listener, once nobody else has the port.
    pub(crate) async fn listener(self) -> TcpListener {
        let (address, sharing) = match self {
            Self::Open(listener) => return listener,
            Self::Unavailable(address, sharing, _) => (address, sharing),
        };
        loop {
            tokio::time::sleep(PORT_RETRY).await;
            if let Ok(listener) = listen(address, sharing) {
                tracing::info!(%address, "metrics and the status page are served now");
                return listener;
            }
        }
    }
}

/// Listens so that another agent can take the port over without a moment in which it is free: any user could have it then. The kernel
/// shares a port (`SO_REUSEPORT`) only among sockets of one user, and only if all of them want that. Only an agent that takes over wants it
/// from the start, so that two agents with one port by mistake do not share it.
fn listen(address: SocketAddr, sharing: PortSharing) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port whose last connections are being closed is free.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(sharing == PortSharing::TakeOver)?;
    socket.bind(address)?;
    let listener = socket.listen(PORT_BACKLOG)?;
    set_socket_reuseport(&listener, true)?;
    Ok(listener)
}

/// A port that the service manager opened.
fn loopback(listener: StdTcpListener) -> Result<TcpListener, SocketError> {
    let address = listener.local_addr().map_err(SocketError::inherited)?;
    if !address.ip().is_loopback() {
        return Err(SocketError::NotLoopback(address));
    }
    listener.set_nonblocking(true).map_err(SocketError::inherited)?;
    TcpListener::from_std(listener).map_err(SocketError::inherited)
}

fn unix_listener(listener: StdListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

fn open(
    config: &SocketConfig,
    inherited: Option<StdListener>,
    bind: Bind,
    made: &mut Vec<SocketFile>,
) -> Result<UnixListener, SocketError> {
    let path = &config.path;
    let failed = |source| SocketError::Open { path: path.clone(), source };
    let listener = if let Some(listener) = inherited {
        listener
    } else {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let (file, listener) = bind(path, config.mode)?;
        made.push(file);
        listener
    };
    unix_listener(listener).map_err(failed)
}

/// Why a socket cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another agent listens there.
    #[error("another agent listens on {}", .0.display())]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The system refuses.
    #[error("cannot listen on {}", path.display())]
    Open {
        /// The path of the socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Other machines could reach it.
    #[error(
        "the service manager passed a socket for HTTP on {0}; write ListenStream=127.0.0.1:9977 in its unit, because only loopback is allowed"
    )]
    NotLoopback(SocketAddr),
    /// A socket from the service manager cannot be used.
    #[error("the socket for HTTP cannot be used")]
    Inherited {
        /// Why.
        source: io::Error,
    },
}

impl SocketError {
    fn inherited(source: io::Error) -> Self {
        Self::Inherited { source }
    }
}

impl From<SocketFileError> for SocketError {
    fn from(error: SocketFileError) -> Self {
        match error {
            SocketFileError::InUse(path) => Self::InUse(path),
            SocketFileError::NotASocket(path) => Self::NotASocket(path),
            SocketFileError::Unusable { path, source } => Self::Open { path, source },
            other => Self::Open { path: PathBuf::new(), source: io::Error::other(other) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::MetadataExt as _, net::UnixStream};

    use super::*;

    fn socket(path: &Path, mode: u32) -> SocketConfig {
        SocketConfig { path: path.into(), mode }
    }

    fn opened(config: &SocketConfig) -> Result<(UnixListener, Vec<SocketFile>), SocketError> {
        let mut made = Vec::new();
        open(config, None, SocketFile::bind, &mut made).map(|listener| (listener, made))
    }

    #[tokio::test]
    async fn a_socket_has_its_permissions_and_goes_with_the_agent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/agent.sock");
        let (listener, made) = opened(&socket(&path, 0o640)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no temporary name is left"
        );
        drop((listener, made));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone_and_a_dead_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.sock");
        let first = StdListener::bind(&path).unwrap();
        assert!(matches!(opened(&socket(&path, 0o600)), Err(SocketError::InUse(_))));
        drop(first);
        let (_listener, made) = opened(&socket(&path, 0o600)).unwrap();
        // Somebody else takes its place.
        fs::remove_file(&path).unwrap();
        let _other = StdListener::bind(&path).unwrap();
        drop(made);
        assert!(path.exists(), "it belongs to somebody else now");
    }

    #[tokio::test]
    async fn a_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(opened(&socket(&path, 0o600)), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    /// A file with a socket for credentials in the directory, and this listener for metrics.
    fn config(directory: &Path, http: &str) -> AgentConfig {
        let text = format!(
            "apiVersion: {}\nkind: {}\nproviderConfig: /p\npluginDirectory: /b\n\
             listeners: {{agent: {{path: {}}}{http}}}\n",
            keyfob_agent_config::AGENT_API_VERSION,
            keyfob_agent_config::AGENT_KIND,
            directory.join("agent.sock").display(),
        );
        AgentConfig::parse("agent.yaml", text.as_bytes()).unwrap()
    }

    fn inherited(http: HttpListener) -> InheritedSockets {
        InheritedSockets { http: Some(http), ..InheritedSockets::default() }
    }

    #[tokio::test]
    async fn metrics_are_served_where_the_file_and_the_service_manager_say() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http.sock");
        let on_both = format!(", http: {{path: {}, address: '127.0.0.1:0'}}", path.display());
        let on_both = config(directory.path(), &on_both);
        let sockets = Sockets::open(&on_both, InheritedSockets::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        std::net::TcpStream::connect(sockets.http_address().unwrap()).unwrap();
        drop(sockets);
        assert!(!path.exists());

        let nowhere = config(directory.path(), "");
        let port = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap();
        for config in [&nowhere, &on_both] {
            let port = inherited(HttpListener::Tcp(port.try_clone().unwrap()));
            let sockets = Sockets::open(config, port).unwrap();
            assert_eq!(sockets.http_address(), Some(address), "what is inherited wins");
            drop(sockets);
        }
        let socket = StdListener::bind(&path).unwrap();
        let sockets = Sockets::open(&nowhere, inherited(HttpListener::Unix(socket))).unwrap();
        assert!(sockets.http_socket.is_some() && sockets.http_port.is_none());
        drop(sockets);
        assert!(path.exists(), "it belongs to the service manager");

        let port = inherited(HttpListener::Tcp(StdTcpListener::bind("0.0.0.0:0").unwrap()));
        let refused = Sockets::open(&nowhere, port);
        assert!(matches!(refused, Err(SocketError::NotLoopback(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_port_is_taken_over_while_the_other_agent_listens_and_shared_with_nobody_else() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let on_any_port = config(first.path(), ", http: {address: '127.0.0.1:0'}");
        let old = Sockets::open(&on_any_port, InheritedSockets::default()).unwrap();
        let address = old.http_address().unwrap();
        let on_port = config(first.path(), &format!(", http: {{address: '{address}'}}"));
        let by_mistake = config(second.path(), &format!(", http: {{address: '{address}'}}"));

        let other = Sockets::open(&by_mistake, InheritedSockets::default()).unwrap();
        assert_eq!(other.http_address(), None, "the port is in use");
        StdTcpListener::bind(address).unwrap_err();
        let new = Sockets::take_over(&on_port, InheritedSockets::default()).unwrap();
        assert_eq!(new.http_address(), Some(address));
        drop(old);
        std::net::TcpStream::connect(address).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_that_somebody_else_has_keeps_nobody_from_credentials_and_is_used_later() {
        let directory = tempfile::tempdir().unwrap();
        let taken = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let on_port = config(directory.path(), &format!(", http: {{address: '{address}'}}"));

        let sockets = Sockets::open(&on_port, InheritedSockets::default()).unwrap();

        assert_eq!(sockets.http_address(), None);
        UnixStream::connect(directory.path().join("agent.sock")).unwrap();
        let waiting = tokio::spawn(sockets.http_port.unwrap().listener());
        tokio::time::sleep(PORT_RETRY * 3).await;
        assert!(!waiting.is_finished());
        drop(taken);
        let listener = waiting.await.unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);
    }
}
