//! What a process on the host looks like.
//!
//! A server in a container has a cgroup namespace of its own if the node has cgroups of version 2. The kernel then writes the cgroups of
//! others as `/../../…`, relative to the server's. To know them the server looks for its own cgroup in the hierarchy as process 1 sees it.

use std::{
    fs, io,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::fs::MetadataExt as _,
    },
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{AttestError, Cgroups, FileId, ProcDirectory};

/// The process that callers are compared with: whatever has other namespaces, another root directory or the cgroup of another
/// container is not on the host. Read once, since nothing of it changes.
///
/// If the process is in a container itself (a node of kind, for example), then that container is the host.
#[derive(Clone, Debug)]
pub struct HostReference {
    pub(super) cgroups: Cgroups,
    pub(super) pid_namespace: FileId,
    pub(super) user_namespace: FileId,
    pub(super) root: FileId,
    /// The path of the root of the server's cgroup namespace, if that is not the host's.
    namespace_root: Option<Vec<String>>,
}

/// The hierarchy of version 2, as the host and as the server sees it.
const HOST_HIERARCHY: &str = "/proc/1/root/sys/fs/cgroup";
const OWN_HIERARCHY: &str = "/sys/fs/cgroup";
/// How many cgroups are looked at.
const MAX_CGROUPS: usize = 100_000;

impl HostReference {
    /// Process 1 of the server's PID namespace: the init of the node, also for a server in a pod with `hostPID`. Only root can
    /// read it.
    pub fn of_init() -> Result<Self, AttestError> {
        let mut init = Self::open("/proc/1")?;
        if init.cgroups.leaves_the_namespace() {
            let own = fs::metadata(OWN_HIERARCHY);
            let found = own.and_then(|own| find(Path::new(HOST_HIERARCHY), (own.dev(), own.ino())));
            match found {
                Ok(Some(root)) => {
                    init.cgroups = init.cgroups.in_whole_hierarchy(&root);
                    init.namespace_root = Some(root);
                }
                found => {
                    let error = found.err().map(tracing::field::display);
                    tracing::warn!(
                        error,
                        "the server's own cgroup is not found on the host; callers cannot be told apart by their cgroups"
                    );
                }
            }
        }
        Ok(init)
    }

    /// The cgroups of another process that the server has read, with paths as on the host.
    pub(super) fn as_on_the_host(&self, cgroups: Cgroups) -> Cgroups {
        match &self.namespace_root {
            Some(root) => cgroups.in_whole_hierarchy(root),
            None => cgroups,
        }
    }

    /// The server itself. Right for one that runs directly on the host.
    pub fn of_agent() -> Result<Self, AttestError> {
        Self::open("/proc/self")
    }

    /// The process that an open directory of `/proc` belongs to.
    pub fn of_process(proc_directory: BorrowedFd<'_>) -> Result<Self, AttestError> {
        let directory = ProcDirectory::new(proc_directory);
        Ok(Self {
            cgroups: directory.cgroups()?,
            pid_namespace: directory.file_id("ns/pid")?,
            user_namespace: directory.file_id("ns/user")?,
            root: directory.file_id("root")?,
            namespace_root: None,
        })
    }

    fn open(path: &'static str) -> Result<Self, AttestError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| AttestError::Unreadable { file: "", source: error.into() })?;
        Self::of_process(directory.as_fd())
    }
}

/// The path below a directory at which a directory with this device and inode is.
fn find(top: &Path, wanted: (u64, u64)) -> io::Result<Option<Vec<String>>> {
    let mut left = vec![Vec::new()];
    let mut seen = 0;
    while let Some(names) = left.pop() {
        let path = top.join(names.iter().collect::<std::path::PathBuf>());
        let is_top = names.is_empty();
        let entries = match fs::read_dir(&path) {
            // Cgroups come and go.
            Err(_) if !is_top => continue,
            entries => entries?,
        };
        if fs::metadata(&path).is_ok_and(|it| (it.dev(), it.ino()) == wanted) {
            return Ok(Some(names));
        }
        for entry in entries.flatten() {
            let name = entry.file_name().into_string();
            if let (Ok(name), true) = (name, entry.file_type().is_ok_and(|it| it.is_dir())) {
                left.push([&*names, &[name]].concat());
                seen += 1;
            }
        }
        if seen > MAX_CGROUPS {
            return Err(io::Error::other("there are too many cgroups"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_found_by_its_inode() {
        let top = tempfile::tempdir().unwrap();
        let path = "kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope";
        fs::create_dir_all(top.path().join(path)).unwrap();
        fs::create_dir_all(top.path().join("system.slice/cri-containerd-1.scope")).unwrap();
        fs::write(top.path().join("cgroup.procs"), "").unwrap();
        let wanted = fs::metadata(top.path().join(path)).unwrap();
        let found = find(top.path(), (wanted.dev(), wanted.ino())).unwrap().unwrap();
        assert_eq!(found.join("/"), path);
        assert_eq!(find(top.path(), (wanted.dev(), 1)).unwrap(), None);
        assert!(find(&top.path().join("missing"), (1, 1)).is_err());
    }
}
