//! Where connections come from.

use std::{io, os::unix::net::UnixListener as StdUnixListener};

use keyfob_exec::PeerProcess;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
};
use tracing::debug;

use super::Peer;

/// A stream of bytes in both directions.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A socket that accepts connections.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// On a port.
    Tcp(TcpListener),
    /// In the file system.
    Unix(UnixListener),
}

/// A connection that was accepted.
pub(super) struct Accepted {
    pub(super) stream: Box<dyn Io>,
    pub(super) peer: Peer,
    pub(super) process: Option<PeerProcess>,
}

impl Accepted {
    fn by_unix(stream: UnixStream) -> Self {
        // At once, before anything is awaited: the less time passes, the less the process can do to hide.
        let process = PeerProcess::of_connection(&stream)
            .inspect_err(|error| debug!(%error, "the process that connected is not known"));
        let peer = stream.peer_cred().map_or(Peer::Unknown, |it| Peer::User(it.uid()));
        Self { stream: Box::new(stream), peer, process: process.ok() }
    }
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "small responses may be late");
                }
                let peer = Peer::of_address(address.ip());
                Ok(Accepted { stream: Box::new(stream), peer, process: None })
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted::by_unix(stream))
            }
        }
    }

    /// The connections that wait in the queue of a unix socket. It ends when none waits, and with the first error that is not of a single
    /// connection.
    pub(super) fn into_queued(self) -> impl Iterator<Item = Accepted> {
        let Self::Unix(listener) = self else { return Queued(None) };
        let listener = listener.into_std().inspect_err(|error| debug!(%error, "the queue is lost"));
        Queued(listener.ok())
    }

    /// How many files a connection keeps open: its socket, and the two handles of a [`PeerProcess`].
    pub(super) fn files_per_connection(&self) -> usize {
        match self {
            Self::Tcp(_) => 1,
            Self::Unix(_) => 3,
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// A socket that does not block. The runtime may not know yet what is in its queue, so the system is asked.
struct Queued(Option<StdUnixListener>);

impl Iterator for Queued {
    type Item = Accepted;

    fn next(&mut self) -> Option<Accepted> {
        let listener = self.0.as_ref()?;
        loop {
            let accepted = listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream)
            });
            match accepted {
                Ok(stream) => return Some(Accepted::by_unix(stream)),
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => {
                    debug!(%error, "no more connections are accepted");
                    return None;
                }
            }
        }
    }
}

/// Whether an error of `accept` concerns only the connection that would have been accepted. `accept(2)` passes on the errors that
/// its network had; any other error would come again at once.
pub(super) fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted,
        NetworkDown, NetworkUnreachable, TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | TimedOut
    )
}
