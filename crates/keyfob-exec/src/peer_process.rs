//! Which process opened a unix connection.
//!
//! `SO_PEERCRED` gives the user, the group and the process id of whoever called `connect`. An id alone proves nothing later: the
//! process may exit, leave the connection to a child, and its id may be given to another process. So two handles are taken when
//! the connection is accepted, and everything else is read through them:
//!
//! 1. `SO_PEERPIDFD` (Linux 6.5 and newer): a descriptor of the process that called `connect`, whatever its id means by now.
//! 2. `/proc/PID`, opened as a directory. The kernel binds an open `/proc/PID` to one process: after that process was reaped, all
//!    reads fail with `ESRCH`, even if there is a new process with the same id.
//!
//! The second is found by its id, so it could be the directory of another process. With the first this is excluded: the process
//! is checked to be alive *after* the directory was opened. A process keeps its id while it lives, so it had the id when the
//! directory was opened, and the directory is its own.
//!
//! Without the first (an older kernel) the owner of the directory is compared with the user that connected. This does not tell
//! two processes of one user apart: if the process exits between `connect` and `accept`, and its id is reused in that time by
//! another process of the same user, that process is taken for the peer. After `accept`, reuse is excluded as well.

mod status;

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, openat},
    io::retry_on_intr,
};
use thiserror::Error;

pub use self::status::ProcessStatus;

/// The process that opened a unix connection. Clones share their descriptors.
///
/// It is the process that called `connect`. A child that inherits the connection, or a process that it was sent to, can use it as
/// well, and the system does not tell which of them wrote a request.
#[derive(Clone)]
pub struct PeerProcess(Arc<Parts>);

struct Parts {
    uid: u32,
    gid: u32,
    pid: i32,
    pidfd: Option<OwnedFd>,
    proc_directory: Result<OwnedFd, UnidentifiedPeer>,
}

/// Why the process that opened a connection could not be identified. Its user is known nevertheless.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnidentifiedPeer {
    /// Its id is not visible here.
    #[error("the process is in a PID namespace that is not visible from here")]
    Invisible,
    /// It no longer exists.
    #[error("the process exited before its connection was accepted")]
    Exited,
    /// A process of another user has its id.
    #[error("the process id belongs to a process of another user")]
    Reused,
    /// The system refuses to open one of the two handles, or to read through it.
    #[error("the process cannot be inspected: {0}")]
    Refused(io::ErrorKind),
}

impl PeerProcess {
    /// Identifies the process at the other end of a connected unix socket. To be called as soon as the connection is accepted.
    ///
    /// Fails if the system does not tell the credentials of the peer, as for sockets of other families.
    #[cfg(target_os = "linux")]
    pub fn of_connection(connection: impl AsFd) -> io::Result<Self> {
        use nix::sys::socket::{getsockopt, sockopt};

        let credentials = getsockopt(&connection, sockopt::PeerCredentials)?;
        let (uid, gid, pid) = (credentials.uid(), credentials.gid(), credentials.pid());
        // The kernel answers with this user and group, and process 0, for a socket without a peer.
        if uid == u32::MAX || gid == u32::MAX {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let pidfd = match getsockopt(&connection, sockopt::PeerPidfd) {
            Ok(pidfd) => Ok(Some(pidfd)),
            Err(nix::Error::ENOPROTOOPT) => Ok(None),
            // Before Linux 6.16 a process that was reaped has none; which error says so depends on the version.
            Err(nix::Error::ESRCH | nix::Error::EINVAL | nix::Error::ENODATA) => {
                Err(UnidentifiedPeer::Exited)
            }
            Err(error) => Err(UnidentifiedPeer::Refused(io::Error::from(error).kind())),
        };
        Ok(Self::identify(uid, gid, pid, pidfd))
    }

    /// Identifies the process at the other end of a connected unix socket. This system has no way to do so.
    #[cfg(not(target_os = "linux"))]
    pub fn of_connection(_connection: impl AsFd) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A process whose handles were obtained in another way: for tests, and for listeners of one's own.
    ///
    /// `proc_directory` is an open `/proc/PID`. The caller answers for it and `pidfd` being of the same process.
    pub fn from_parts(
        uid: u32,
        gid: u32,
        pid: i32,
        pidfd: Option<OwnedFd>,
        proc_directory: OwnedFd,
    ) -> Self {
        Self(Arc::new(Parts { uid, gid, pid, pidfd, proc_directory: Ok(proc_directory) }))
    }

    fn identify(
        uid: u32,
        gid: u32,
        pid: i32,
        pidfd: Result<Option<OwnedFd>, UnidentifiedPeer>,
    ) -> Self {
        let (pidfd, identified) = match pidfd {
            Ok(pidfd) => (pidfd, Ok(())),
            Err(reason) => (None, Err(reason)),
        };
        let proc_directory = identified.and_then(|()| open_proc_directory(pid));
        let unchecked = Parts { uid, gid, pid, pidfd, proc_directory };
        match unchecked.check_identity() {
            Ok(()) => Self(Arc::new(unchecked)),
            Err(reason) => Self(Arc::new(Parts { proc_directory: Err(reason), ..unchecked })),
        }
    }

    /// The effective user id that the process had when it connected.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// The effective group id that the process had when it connected.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// The id of the process, in the PID namespace of this process; 0 if it has none there. Only for people to read: another
    /// process may have the id by now.
    pub fn pid(&self) -> i32 {
        self.0.pid
    }

    /// The descriptor of the process. None if the kernel is older than Linux 6.5.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.0.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// `/proc/PID` of the process, as an `O_PATH` descriptor. Reading through it fails with `ESRCH` once the process was reaped.
    pub fn proc_directory(&self) -> Result<BorrowedFd<'_>, UnidentifiedPeer> {
        self.0.proc_directory()
    }

    /// Reads ids and groups of the process, as they are now.
    pub fn status(&self) -> io::Result<ProcessStatus> {
        ProcessStatus::read(self.proc_directory().map_err(io::Error::other)?)
    }

    /// Whether the process lives. A process that exited and was not reaped yet (a zombie) does not.
    pub fn is_running(&self) -> io::Result<bool> {
        if let Some(pidfd) = self.pidfd() {
            return is_running(pidfd);
        }
        match self.status() {
            Ok(status) => Ok(!status.exited),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Parts {
    fn proc_directory(&self) -> Result<BorrowedFd<'_>, UnidentifiedPeer> {
        self.proc_directory.as_ref().map(AsFd::as_fd).map_err(|reason| *reason)
    }

    /// Checks that the directory, which was found by its number, belongs to the process that connected.
    fn check_identity(&self) -> Result<(), UnidentifiedPeer> {
        let directory = self.proc_directory()?;
        if let Some(pidfd) = &self.pidfd {
            return match is_running(pidfd.as_fd()) {
                Ok(true) => Ok(()),
                Ok(false) => Err(UnidentifiedPeer::Exited),
                Err(error) => Err(UnidentifiedPeer::Refused(error.kind())),
            };
        }
        match ProcessStatus::read(directory) {
            Ok(status) if status.exited => Err(UnidentifiedPeer::Exited),
            Ok(status) if status.effective_uid() != self.uid => Err(UnidentifiedPeer::Reused),
            Ok(_) => Ok(()),
            Err(error) if is_gone(&error) => Err(UnidentifiedPeer::Exited),
            Err(error) => Err(UnidentifiedPeer::Refused(error.kind())),
        }
    }
}

impl fmt::Debug for PeerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { uid, gid, pid, pidfd, proc_directory } = &*self.0;
        f.debug_struct("PeerProcess")
            .field("uid", uid)
            .field("gid", gid)
            .field("pid", pid)
            .field("has_pidfd", &pidfd.is_some())
            .field("identified", &proc_directory.as_ref().map(|_| ()))
            .finish()
    }
}

fn open_proc_directory(pid: i32) -> Result<OwnedFd, UnidentifiedPeer> {
    if pid <= 0 {
        return Err(UnidentifiedPeer::Invisible);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).map_err(|error| {
        let error = io::Error::from(error);
        if is_gone(&error) {
            UnidentifiedPeer::Exited
        } else {
            UnidentifiedPeer::Refused(error.kind())
        }
    })
}

/// A descriptor of a process is readable once the process, with all of its threads, has exited.
fn is_running(pidfd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(retry_on_intr(|| poll(&mut polled, Some(&now)))? == 0)
}

/// Whether an error of `/proc` says that the process no longer exists: there is no such directory, or it is of a reaped process.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::process;

    use rustix::process::{Pid, PidfdFlags, getgid, getpid, getuid, pidfd_open};

    use super::*;

    fn identify(uid: u32, pid: Pid, pidfd: Option<OwnedFd>) -> PeerProcess {
        PeerProcess::identify(uid, getgid().as_raw(), pid.as_raw_pid(), Ok(pidfd))
    }

    /// A process that exited and was not reaped yet: it still has its id and its directory.
    struct Zombie(process::Child, Pid);

    impl Zombie {
        fn new() -> Self {
            #[expect(clippy::disallowed_methods, reason = "a process that exits at once")]
            let child = process::Command::new("true").spawn().unwrap();
            let pid = Pid::from_child(&child);
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None).unwrap();
            Self(child, pid)
        }
    }

    impl Drop for Zombie {
        fn drop(&mut self) {
            drop(self.0.wait());
        }
    }

    #[test]
    fn a_process_that_exited_is_not_identified_even_if_its_directory_exists() {
        let zombie = Zombie::new();
        let uid = getuid().as_raw();
        let pidfd = pidfd_open(zombie.1, PidfdFlags::empty()).unwrap();
        for peer in [identify(uid, zombie.1, Some(pidfd)), identify(uid, zombie.1, None)] {
            assert_eq!(peer.proc_directory().unwrap_err(), UnidentifiedPeer::Exited, "{peer:?}");
            assert_eq!(peer.uid(), uid);
        }
    }

    #[test]
    fn a_directory_is_not_believed_if_the_process_that_connected_is_another() {
        let (uid, own) = (getuid().as_raw(), getpid());
        // The peer exited, and its id now belongs to this process.
        let zombie = Zombie::new();
        let exited = pidfd_open(zombie.1, PidfdFlags::empty()).unwrap();
        let reused = identify(uid, own, Some(exited));
        assert_eq!(reused.proc_directory().unwrap_err(), UnidentifiedPeer::Exited);
        // Without a descriptor it shows if the user is another one.
        let reused = identify(uid + 1, own, None);
        assert_eq!(reused.proc_directory().unwrap_err(), UnidentifiedPeer::Reused);
        assert!(identify(uid, own, None).is_running().unwrap());
    }

    #[test]
    fn a_process_of_another_pid_namespace_has_no_directory() {
        let peer = PeerProcess::identify(0, 0, 0, Ok(None));
        assert_eq!(peer.proc_directory().unwrap_err(), UnidentifiedPeer::Invisible);
        let refused = UnidentifiedPeer::Refused(io::ErrorKind::PermissionDenied);
        let peer = PeerProcess::identify(0, 0, getpid().as_raw_pid(), Err(refused));
        assert_eq!(peer.proc_directory().unwrap_err(), refused);
    }
}
