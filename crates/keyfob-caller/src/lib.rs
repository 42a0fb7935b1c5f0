#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`Caller`]: a process that connected, as far as the kernel vouches for it.
//! - [`NodePods`]: the pods of this node, by the uid that a process's cgroup names.
//!
//! # How a caller is read
//!
//! [`Caller::attest`] turns the [`PeerProcess`](keyfob_exec::PeerProcess) of a request into a [`Caller`]. All facts are read anew
//! each time, through the handles that the server took when it accepted the connection. No process is ever looked up by its id.
//!
//! # What is proved
//!
//! Claim: *all facts of a caller are of the process that called `connect`, and that process was alive after the last of them was
//! read.* Let P be that process and D the held `/proc/PID` directory.
//!
//! 1. D is the directory of P. The server opened it by its number, and then found P's pidfd not to be readable, so P was alive.
//!    A process keeps its id until it has exited and was reaped, so the number was P's when D was opened.
//! 2. What is read through D is of P. The kernel binds D to one process, not to a number: once P was reaped, reads through D
//!    fail with `ESRCH`, also if another process has the same id by then.
//! 3. After the last read, P's pidfd is polled. If P has exited in the meantime, the result is [`AttestError::Gone`]. So nobody is
//!    answered in the name of a process that no longer exists: neither a child that kept its connection, nor a process that got
//!    its id.
//! 4. P is still who it was. User and group ids that the kernel recorded at `connect` must equal all four ids (real, effective,
//!    saved, file system) that P has now, so neither `setuid` nor running a setuid program helps
//!    ([`AttestError::UidChanged`]). The executable is the same before and after everything else was read
//!    ([`AttestError::ExecutableChanged`]), so the facts are not put together from two programs.
//!
//! Without a pidfd (before Linux 6.5), step 3 reads the state of P through D instead, which proves the same. Step 1 is weaker: it
//! only compares the user. If P exits between `connect` and `accept`, and in that time another process *of the same user id* gets
//! P's id, then that process is taken for P. As user id 0 may be root in a container or on the host, administrators should prefer a
//! newer kernel; [`Caller::attested_by`] says which method was used.
//!
//! # What is not proved
//!
//! - That P itself wrote the request. A process can share its connection with a child or send it to another process. While P is
//!   alive, all of them ask in its name, because P let them.
//! - That P's code is that of its executable. A user can change the behaviour of a program that runs with the user's own id (with
//!   `LD_PRELOAD` or `ptrace`), and P may have run another program when it connected. A rule about an executable prevents
//!   mistakes, and does not separate processes of the same user.
//!
//! # Host or container
//!
//! A process is on the host only if everything says so: its cgroup in every hierarchy, its PID namespace, its user namespace and
//! its root directory are compared with those of a [`HostReference`]. Inside a user namespace of its own, any user can be "root" and
//! may even replace what `/proc/PID/exe` shows (`PR_SET_MM_MAP`). The pod comes from the cgroup alone, which only root of the host
//! can choose (see `src/caller/cgroup.rs`).
//!
//! # Tests
//!
//! Attacks on it, with real processes, are the `attestation` tests of `keyfob-agent`: they need an agent too.

mod caller;
mod pods;

pub use caller::{
    AttestError, Attestation, Caller, CallerPlace, ContainerEvidence, Executable, HostReference,
};
#[cfg(feature = "kube")]
pub use pods::KubernetesPods;
pub use pods::{NoPods, NodePod, NodePods, PodsUnavailable};
