//! Facts about the process that opened a connection, read from the kernel. The documentation of the crate has the proof.

mod cgroup;
mod executable;
mod host_reference;
mod proc_directory;

use std::{fmt, io};

use keyfob_exec::{PeerProcess, ProcessStatus, UnidentifiedPeer};
use thiserror::Error;

use self::{
    cgroup::{CgroupLocation, Cgroups},
    proc_directory::{FileId, ProcDirectory},
};
pub use self::{executable::Executable, host_reference::HostReference};

/// A process that connected to the server, with facts that the kernel vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// Its user id: real, effective and saved, when it connected and now.
    pub uid: u32,
    /// Its group id, in the same sense.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// Its process id, for people to read. It identifies nothing: another process may have it by now.
    pub pid: i32,
    /// The program it runs.
    pub executable: Executable,
    /// Where it runs.
    pub place: CallerPlace,
    /// How it was made sure that the facts are of the process that connected.
    pub attested_by: Attestation,
}

impl Caller {
    /// Establishes who is at the other end of a connection, now. Any error means: deny.
    ///
    /// It takes some fifteen system calls and never waits for the process: what is read is in the kernel's memory.
    pub fn attest(peer: &PeerProcess, host: &HostReference) -> Result<Self, AttestError> {
        let directory = ProcDirectory::new(peer.proc_directory()?);
        let facts = Facts::read(directory).and_then(|facts| Ok((facts, read_status(peer)?)));
        let is_running = peer.is_running();
        // If the process has exited, that is the reason, whatever could not be read.
        if !is_running.map_err(|source| AttestError::Unreadable { file: "status", source })? {
            return Err(AttestError::Gone);
        }
        let (facts, status) = facts?;
        check_ids(peer, &status)?;
        Ok(Self {
            uid: peer.uid(),
            gid: peer.gid(),
            groups: status.groups,
            pid: peer.pid(),
            place: facts.place(host)?,
            executable: facts.executable,
            attested_by: match peer.pidfd() {
                Some(_) => Attestation::PidFd,
                None => Attestation::ProcDirectory,
            },
        })
    }
}

/// Where a caller runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever decides must know every case")]
pub enum CallerPlace {
    /// Directly on the node.
    Host {
        /// The unit of the system's service manager, such as `docker.service`. A unit of a user's own service manager counts as
        /// `user@UID.service`. None outside of units.
        unit: Option<String>,
    },
    /// In a container, or where that cannot be excluded. Its user id says nothing about the rights it has on the node.
    Container {
        /// The id of the container, if it can be told from its cgroup.
        id: Option<String>,
        /// The UID of the pod, if it can be told from its cgroup.
        pod_uid: Option<String>,
        /// Why it does not count as a process on the host.
        evidence: ContainerEvidence,
    },
}

/// What shows that a process is in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContainerEvidence {
    /// Its cgroup is that of a pod or container.
    Cgroup,
    /// Its cgroup is not visible from the server's cgroup namespace.
    CgroupNamespace,
    /// It has another PID namespace than the host.
    PidNamespace,
    /// It has another user namespace than the host.
    UserNamespace,
    /// It has another root directory than the host.
    RootDirectory,
}

impl fmt::Display for ContainerEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroup => "its cgroup is that of a container",
            Self::CgroupNamespace => "its cgroup is outside of the server's cgroup namespace",
            Self::PidNamespace => "it has a PID namespace of its own",
            Self::UserNamespace => "it has a user namespace of its own",
            Self::RootDirectory => "it has a root directory of its own",
        })
    }
}

/// How it was made sure that facts are of the process that connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attestation {
    /// By a descriptor of the process that the kernel gave with the connection (`SO_PEERPIDFD`).
    PidFd,
    /// By a `/proc/PID` directory held since the connection was accepted, on kernels that have no such descriptor.
    ProcDirectory,
}

impl Attestation {
    /// A short name for logs: `pidfd` or `proc-directory`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PidFd => "pidfd",
            Self::ProcDirectory => "proc-directory",
        }
    }
}

/// Why a process cannot be attested. Each reason means: deny.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttestError {
    /// It was not identified when it connected.
    #[error("the calling process is not known")]
    Unidentified(#[from] UnidentifiedPeer),
    /// It has exited; another process may have kept its connection.
    #[error("the process that opened the connection has exited")]
    Gone,
    /// It has other user ids than when it connected.
    #[error("the process connected as user {connected}, and now has the user ids {now:?}")]
    UidChanged {
        /// The user id at `connect`.
        connected: u32,
        /// Real, effective, saved and file system user id.
        now: [u32; 4],
    },
    /// It has other group ids than when it connected.
    #[error("the process connected as group {connected}, and now has the group ids {now:?}")]
    GidChanged {
        /// The group id at `connect`.
        connected: u32,
        /// Real, effective, saved and file system group id.
        now: [u32; 4],
    },
    /// It began to run another program while its facts were read.
    #[error("the process began to run another program while it was inspected")]
    ExecutableChanged,
    /// Its cgroup hierarchies are those of different pods or containers.
    #[error("the cgroups of the process belong to different pods or containers")]
    Ambiguous,
    /// A file of its `/proc` directory cannot be read.
    #[error("cannot read /proc/PID/{file} of the calling process")]
    Unreadable {
        /// The name of the file.
        file: &'static str,
        /// Why not. `PermissionDenied`: the server lacks the capability `CAP_SYS_PTRACE`.
        #[source]
        source: io::Error,
    },
}

fn read_status(peer: &PeerProcess) -> Result<ProcessStatus, AttestError> {
    match peer.status() {
        // With a pidfd this is a process whose first thread has exited while others go on: it has no executable to speak of.
        Ok(status) if status.exited => Err(AttestError::Gone),
        Ok(status) => Ok(status),
        Err(source) => Err(AttestError::Unreadable { file: "status", source }),
    }
}

fn check_ids(peer: &PeerProcess, status: &ProcessStatus) -> Result<(), AttestError> {
    if status.uids != [peer.uid(); 4] {
        return Err(AttestError::UidChanged { connected: peer.uid(), now: status.uids });
    }
    if status.gids != [peer.gid(); 4] {
        return Err(AttestError::GidChanged { connected: peer.gid(), now: status.gids });
    }
    Ok(())
}

/// What is read about a process, except for its ids.
struct Facts {
    executable: Executable,
    cgroups: Cgroups,
    pid_namespace: FileId,
    user_namespace: FileId,
    root: FileId,
}

impl Facts {
    fn read(directory: ProcDirectory<'_>) -> Result<Self, AttestError> {
        let before = directory.file_id("exe")?;
        let facts = Self {
            cgroups: directory.cgroups()?,
            pid_namespace: directory.file_id("ns/pid")?,
            user_namespace: directory.file_id("ns/user")?,
            root: directory.file_id("root")?,
            executable: Executable::new(directory.link("exe")?, before),
        };
        if directory.file_id("exe")? == before {
            Ok(facts)
        } else {
            Err(AttestError::ExecutableChanged)
        }
    }

    fn place(&self, host: &HostReference) -> Result<CallerPlace, AttestError> {
        let unknown = |evidence| CallerPlace::Container { id: None, pod_uid: None, evidence };
        let cgroups = host.as_on_the_host(self.cgroups.clone());
        Ok(match cgroups.locate(&host.cgroups)? {
            CgroupLocation::Invisible => unknown(ContainerEvidence::CgroupNamespace),
            CgroupLocation::Container { id, pod_uid } => {
                CallerPlace::Container { id, pod_uid, evidence: ContainerEvidence::Cgroup }
            }
            CgroupLocation::Host { .. } if self.pid_namespace != host.pid_namespace => {
                unknown(ContainerEvidence::PidNamespace)
            }
            CgroupLocation::Host { .. } if self.user_namespace != host.user_namespace => {
                unknown(ContainerEvidence::UserNamespace)
            }
            CgroupLocation::Host { .. } if self.root != host.root => {
                unknown(ContainerEvidence::RootDirectory)
            }
            CgroupLocation::Host { unit } => CallerPlace::Host { unit },
        })
    }
}
