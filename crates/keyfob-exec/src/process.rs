//! A process and its group: started by `posix_spawn`, killed and reaped whatever happens.
//!
//! `posix_spawn` because `fork` copies the page tables of a large host (31–39 ms at 500 MB); nothing here may need code
//! between fork and exec.

use std::{
    ffi::{CString, OsString},
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::Path,
};

use nix::{
    errno::Errno,
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::{signal, signal::SigSet},
    unistd,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group,
        pidfd_open, waitid,
    },
};
use tokio::io::{Interest, unix::AsyncFd};
use zeroize::Zeroizing;

use crate::{
    Invocation, NotRunnable, RunError, Status, Stdin, file_limit::restore_file_limit, running,
};

/// What the child finds at its standard descriptors; `None` leaves the host's own.
#[derive(Debug)]
pub(crate) struct Standard {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: Option<OwnedFd>,
}

/// A running child. Dropping it kills its group and reaps it.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    group: Group,
    exit: Option<AsyncFd<OwnedFd>>,
    reaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Own,
    Shared,
}

impl Child {
    /// Starts the program. The child's ends of the pipes are closed here once it has them.
    pub(crate) fn spawn(
        invocation: &Invocation,
        env: Vec<OsString>,
        standard: Standard,
    ) -> Result<Self, RunError> {
        let program = invocation.program();
        let system = |step| move |source: io::Error| system_error(program, step, source);
        let group = match invocation.stdin {
            Stdin::Terminal => Group::Shared,
            Stdin::Null | Stdin::Bytes(_) => Group::Own,
        };
        let mut argv = c_strings(program, "its path", [invocation.program.name().to_owned()])?;
        argv.append(&mut *c_strings(program, "an argument", invocation.args.iter().cloned())?);
        let env = c_strings(program, "an environment variable", env)?;
        let files = file_actions(&standard).map_err(system("preparing its descriptors"))?;
        let attributes = attributes(group).map_err(system("preparing its process group"))?;
        let starting = running::starting();
        let pid = posix_spawn(program, &files, &attributes, &argv, &env)
            .map_err(|errno| spawn_error(program, errno, argv.iter().chain(env.iter())))?;
        let pid = Pid::from_raw(pid.as_raw()).ok_or_else(|| io::Error::other("no process id"));
        let pid = pid.map_err(system("starting it"))?;
        running::add(pid, group);
        restore_file_limit(pid);
        drop(starting);
        // From here on a pipe must close when the child closes it.
        drop(standard);
        let mut child = Self { pid, group, exit: None, reaped: false };
        child.exit = Some(watch(pid).map_err(system("watching it"))?);
        Ok(child)
    }

    /// Waits until it has exited. It stays a zombie, and its process group ours, until [`Child::reap`].
    pub(crate) async fn exited(&self) -> io::Result<()> {
        match &self.exit {
            Some(exit) => exit.readable().await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Kills it and, where it has a group of its own, everything in that.
    ///
    /// Only while it is ours and unreaped: then its number cannot belong to anybody else.
    pub(crate) fn kill(&self) {
        if let Err(error) = kill(self.pid, self.group) {
            tracing::debug!(%error, "a plugin could not be killed; it may be gone already");
        }
    }

    /// Whether it has exited by now; an error if it is not ours to wait for.
    pub(crate) fn has_exited(&self) -> io::Result<bool> {
        has_exited(self.pid)
    }

    /// Collects its exit status. Call when it has exited.
    pub(crate) fn reap(mut self) -> io::Result<Status> {
        // Whatever comes of this, there is nothing left to kill.
        self.reaped = true;
        running::remove(self.pid);
        let status = wait(self.pid, WaitIdOptions::EXITED)?;
        status.ok_or_else(|| io::Error::other("the kernel gave no exit status"))
    }

    /// Whether the process is dead within a moment, which a killed one nearly always is.
    fn dies_soon(&self) -> bool {
        const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let Some(exit) = &self.exit else { return false };
        let mut watched = [PollFd::from_borrowed_fd(exit.get_ref().as_fd(), PollFlags::IN)];
        retry_on_intr(|| poll(&mut watched, Some(&MOMENT))).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.kill();
        let pid = self.pid;
        running::remove(pid);
        let reap = move || drop(wait(pid, WaitIdOptions::EXITED));
        if self.dies_soon() {
            reap();
        } else {
            // Stuck in the kernel (a dead network file system, say): whoever dropped us must not wait for that.
            let named =
                std::thread::Builder::new().name("keyfob-reaper".into()).stack_size(64 << 10);
            if let Err(error) = named.spawn(reap) {
                tracing::warn!(%error, "a killed plugin could not be reaped and stays a zombie");
            }
        }
    }
}

/// Kills a child that is unreaped and, where it has a group of its own, everything in that.
pub(crate) fn kill(pid: Pid, group: Group) -> io::Result<()> {
    has_exited(pid)?;
    let group = match group {
        Group::Own => kill_process_group(pid, Signal::KILL),
        Group::Shared => Ok(()),
    };
    // It may have joined another group, which then is not ours to kill; it itself is.
    Ok(kill_process(pid, Signal::KILL).and(group)?)
}

fn has_exited(pid: Pid) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(wait(pid, look)?.is_some())
}

/// A descriptor that becomes readable when the process exits.
#[expect(
    deprecated,
    reason = "sound for a descriptor that is owned; its successor is an unsafe fn"
)]
fn watch(pid: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd_open(pid, PidfdFlags::NONBLOCK)?, Interest::READABLE)
}

fn wait(pid: Pid, options: WaitIdOptions) -> io::Result<Option<Status>> {
    let status = retry_on_intr(|| waitid(WaitId::Pid(pid), options))?;
    Ok(status.and_then(|status| {
        status
            .exit_status()
            .map(Status::Exited)
            .or_else(|| status.terminating_signal().map(Status::Signaled))
    }))
}

fn file_actions(standard: &Standard) -> io::Result<PosixSpawnFileActions> {
    let Standard { stdin, stdout, stderr } = standard;
    let mut actions = PosixSpawnFileActions::init()?;
    for (end, number) in [stdin.as_ref(), Some(stdout), stderr.as_ref()].into_iter().zip(0..) {
        if let Some(end) = end {
            actions.add_dup2(end.as_raw_fd(), number)?;
        }
    }
    Ok(actions)
}

/// A group of its own, no blocked signals, and a broken pipe kills it: Rust ignores that signal, and a child would
/// inherit the ignoring.
fn attributes(group: Group) -> io::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    let mut flags =
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    let mut defaults = SigSet::empty();
    defaults.add(signal::Signal::SIGPIPE);
    attributes.set_sigdefault(&defaults)?;
    attributes.set_sigmask(&SigSet::empty())?;
    if group == Group::Own {
        attributes.set_pgroup(unistd::Pid::from_raw(0))?;
        flags |= PosixSpawnFlags::POSIX_SPAWN_SETPGROUP;
    }
    attributes.set_flags(flags)?;
    Ok(attributes)
}

fn c_strings(
    program: &Path,
    what: &'static str,
    strings: impl IntoIterator<Item = OsString>,
) -> Result<Zeroizing<Vec<CString>>, RunError> {
    let nul = |_| RunError::NulByte { program: program.into(), what };
    let strings: Result<_, _> =
        strings.into_iter().map(|text| CString::new(text.into_vec()).map_err(nul)).collect();
    strings.map(Zeroizing::new)
}

fn spawn_error<'a>(
    program: &Path,
    errno: Errno,
    strings: impl Iterator<Item = &'a CString>,
) -> RunError {
    let program = program.to_path_buf();
    let why = match errno {
        Errno::ENOENT | Errno::ENOTDIR if !program.exists() => {
            return RunError::NotFound { program };
        }
        Errno::E2BIG => {
            let lengths = strings.map(|text| text.as_bytes_with_nul().len());
            let (largest, total) = lengths.fold((0, 0), |(largest, total), length| {
                (length.saturating_sub(1).max(largest), total + length)
            });
            return RunError::ArgumentListTooLong { program, largest, total };
        }
        Errno::ENOENT => NotRunnable::Interpreter,
        Errno::EACCES if program.is_dir() => NotRunnable::Directory,
        Errno::EACCES | Errno::EPERM => NotRunnable::Permission,
        Errno::ENOEXEC => NotRunnable::Format,
        Errno::ETXTBSY => NotRunnable::Busy,
        other => return system_error(&program, "starting it", other.into()),
    };
    RunError::NotExecutable { program, why }
}

pub(crate) fn system_error(program: &Path, step: &'static str, source: io::Error) -> RunError {
    RunError::System { program: program.into(), step, source }
}
