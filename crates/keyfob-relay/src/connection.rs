//! A connection to the agent's socket on which everything together takes at most a given time.
//!
//! `UnixStream::connect` has no limit: if the agent is stopped and its queue of connections is full, it blocks for ever. Linux
//! applies the send timeout of a socket to connecting, so the socket is made first.
#![expect(clippy::disallowed_methods, reason = "a deadline needs the clock")]

use std::{
    io::{self, Read},
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    io::{Errno, read, retry_on_intr},
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
        recv, send, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
    process::{DumpableBehavior, set_dumpable_behavior},
};

/// The moment at which everything must have been done.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Never zero, which would mean that there is no limit.
    pub(crate) fn time_left(self) -> Result<Duration, Errno> {
        let left = self.0.saturating_duration_since(Instant::now());
        // The kernel counts in microseconds.
        if left < Duration::from_micros(1) { Err(Errno::TIMEDOUT) } else { Ok(left) }
    }
}

/// An open connection. An operation that reaches the deadline fails with `WouldBlock` or `TimedOut`.
pub(crate) struct Connection {
    socket: OwnedFd,
    deadline: Deadline,
    has_answered: bool,
}

impl Connection {
    /// Connecting has a limit of its own.
    pub(crate) fn open(path: &Path, limit: Duration, deadline: Deadline) -> Result<Self, Errno> {
        let address = SocketAddrUnix::new(path)?;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let connection = Self { socket, deadline, has_answered: false };
        // Set once, for connecting and for the first write, which nearly always takes the whole request.
        set_socket_timeout(&connection.socket, Timeout::Send, Some(limit))?;
        retry_on_intr(|| connect(&connection.socket, &address))?;
        Ok(connection)
    }

    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        loop {
            let sent = retry_on_intr(|| send(&self.socket, bytes, SendFlags::NOSIGNAL))?;
            bytes = bytes.get(sent..).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            set_socket_timeout(&self.socket, Timeout::Send, Some(self.deadline.time_left()?))?;
        }
    }

    /// Waits until the answer begins or the other end closes the connection, and leaves what came where it is.
    pub(crate) fn wait(&self, limit: Duration) -> Result<WaitOutcome, Errno> {
        let limit = limit.min(self.deadline.time_left()?);
        set_socket_timeout(&self.socket, Timeout::Recv, Some(limit))?;
        match retry_on_intr(|| recv(&self.socket, &mut [0; 1], RecvFlags::PEEK)) {
            Ok((0, _)) | Err(Errno::CONNRESET) => Ok(WaitOutcome::Closed),
            Ok(_) => Ok(WaitOutcome::Data),
            Err(Errno::AGAIN) => Ok(WaitOutcome::Silence),
            Err(error) => Err(error),
        }
    }
}

/// What has come after some time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Silence,
    Data,
    Closed,
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        set_socket_timeout(&self.socket, Timeout::Recv, Some(self.deadline.time_left()?))?;
        let count = retry_on_intr(|| read(&self.socket, &mut *buffer))?;
        if !self.has_answered {
            self.has_answered = true;
            forbid_memory_access();
        }
        Ok(count)
    }
}

/// Excludes other processes of the user from the memory of this process, which now holds a password.
///
/// Not earlier, although a kubelet's request may have had a token: the agent reads `/proc/PID/exe` of its caller to decide, and of a
/// process that is not dumpable only a reader with `CAP_SYS_PTRACE` may. When the answer arrives, the agent has decided. Core dumps are
/// excluded from the start.
fn forbid_memory_access() {
    // It cannot fail on Linux, and there is nothing to do if it does.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap_or_default();
}
