//! What the cgroups of a process say: its systemd unit, its container, its pod.
//!
//! Only what root of the host has set up may be believed. A container or a service whose part of the tree was delegated to it can
//! create directories of any name below its own cgroup, and so can every user below `user@UID.service`. Therefore:
//!
//! - The outermost container of a path counts; what is below it is ignored. Below `/docker/ID` there is no pod, whatever the names
//!   are, unless the reference process is in that very container (a node of kind or k3d): then that container is the host.
//! - The outermost unit of a path counts, and it must be directly below slices. `x.service` below `user@1000.service` is not the
//!   system's `x.service`.
//! - A pod below a unit counts only if the unit is a container runtime or kubelet ([`RUNTIME_UNITS`]), and never below `user.slice`.
//!
//! With cgroup version 1 there is a path for each hierarchy. If any of them says "container", it is one.
//!
//! Upstream: `pkg/kubelet/cm/cgroup_manager_linux.go`, `pod_container_manager_linux.go` (names of pod cgroups); systemd
//! `cg_path_get_unit` (units).

use std::{collections::BTreeSet, str};

use super::AttestError;

/// Services below which the cgroups of pods can be, if the systemd notation is used with the driver `cgroupfs`.
const RUNTIME_UNITS: [&str; 8] = [
    "containerd.service",
    "crio.service",
    "docker.service",
    "k3s-agent.service",
    "k3s.service",
    "kubelet.service",
    "rke2-agent.service",
    "rke2-server.service",
];

/// Top-level cgroups whose children are containers, named by their ids: namespaces of containerd, and others.
const CONTAINER_PARENTS: [&str; 7] =
    ["buildkit", "default", "garden", "k8s.io", "lxc", "lxc.payload", "moby"];

/// Top-level cgroups below which there are only containers.
const CONTAINER_TREES: [&str; 5] =
    ["actions_job", "docker", "ecs", "libpod_parent", "machine.slice"];

/// The content of `/proc/PID/cgroup`: a cgroup for each hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroups(Vec<Cgroup>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cgroup {
    /// The controllers of a hierarchy of version 1, such as `cpu,cpuacct` or `name=systemd`; empty for version 2.
    controllers: String,
    /// The names on the path from the root of the hierarchy.
    path: Vec<String>,
}

/// Where a process is, as far as its cgroups tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CgroupLocation {
    Host {
        unit: Option<String>,
    },
    Container {
        id: Option<String>,
        pod_uid: Option<String>,
    },
    /// The cgroup is outside of the server's cgroup namespace, so that its path is not known.
    Invisible,
}

impl Cgroups {
    /// Nothing if this is not what the kernel writes.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let lines = str::from_utf8(text).ok()?.strip_suffix('\n')?.split('\n');
        let cgroups = lines.map(Cgroup::parse).collect::<Option<Vec<_>>>()?;
        let hierarchies: BTreeSet<&str> = cgroups.iter().map(|it| &*it.controllers).collect();
        (hierarchies.len() == cgroups.len()).then_some(Self(cgroups))
    }

    /// The same, with paths from the root of the hierarchy. The kernel writes paths relative to the cgroup namespace of the reader, whose
    /// root is at this path. Only for version 2: with version 1 runtimes leave containers in the namespace of the host.
    ///
    /// A path that leads out of the hierarchy stays as it is, and so remains invisible.
    pub(super) fn in_whole_hierarchy(mut self, namespace_root: &[String]) -> Self {
        for cgroup in self.0.iter_mut().filter(|it| it.controllers.is_empty()) {
            let up = cgroup.path.iter().take_while(|name| *name == "..").count();
            let above =
                namespace_root.len().checked_sub(up).and_then(|it| namespace_root.get(..it));
            if let (Some(above), Some(below)) = (above, cgroup.path.get(up..)) {
                cgroup.path = [above, below].concat();
            }
        }
        self
    }

    /// Whether the path in the hierarchy of version 2 leads out of the cgroup namespace of the reader.
    pub(super) fn leaves_the_namespace(&self) -> bool {
        let unified = self.0.iter().find(|it| it.controllers.is_empty());
        unified.is_some_and(|it| it.path.first().is_some_and(|name| name == ".."))
    }

    /// Where a process is. The host is where a process with the cgroups `host` is.
    pub(super) fn locate(&self, host: &Self) -> Result<CgroupLocation, AttestError> {
        if self.0.iter().any(|it| it.path.iter().any(|name| name == "..")) {
            return Ok(CgroupLocation::Invisible);
        }
        let paths = self.0.iter().map(|it| (&*it.controllers, it.path_on(host)));
        let paths: Vec<(&str, &[String])> = paths.collect();
        let (mut ids, mut pods, mut is_container) = (BTreeSet::new(), BTreeSet::new(), false);
        for found in paths.iter().filter_map(|(_, path)| FoundContainer::outermost(path)) {
            is_container = true;
            ids.extend(found.id);
            pods.extend(found.pods);
        }
        if ids.len() > 1 || pods.len() > 1 {
            return Err(AttestError::Ambiguous);
        }
        if is_container {
            return Ok(CgroupLocation::Container {
                id: ids.pop_first(),
                pod_uid: pods.pop_first(),
            });
        }
        let of = |hierarchy| paths.iter().find(|(name, _)| *name == hierarchy);
        // In hybrid mode both exist, and systemd uses its own.
        let systemd = of("name=systemd").or_else(|| of(""));
        Ok(CgroupLocation::Host { unit: systemd.and_then(|(_, path)| unit(path)) })
    }
}

impl Cgroup {
    /// A line `ID:CONTROLLERS:PATH`.
    fn parse(line: &str) -> Option<Self> {
        let (id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        id.parse::<u32>().ok()?;
        let path = path.strip_prefix('/')?;
        let mut names = path.split('/').map(str::to_owned).collect::<Vec<_>>();
        if path.is_empty() {
            names.clear();
        }
        let is_valid = names.iter().all(|name| !name.is_empty());
        is_valid.then(|| Self { controllers: controllers.to_owned(), path: names })
    }

    /// The path relative to the container that the host is in, if it is in one.
    fn path_on(&self, host: &Cgroups) -> &[String] {
        let host = host.0.iter().find(|it| it.controllers == self.controllers);
        let container = host.and_then(|host| {
            let found = FoundContainer::outermost(&host.path)?;
            // Without an id it is not known where the container begins.
            found.id.and_then(|_| host.path.get(..found.depth))
        });
        container.and_then(|prefix| self.path.strip_prefix(prefix)).unwrap_or(&self.path)
    }
}

/// The outermost container on a path.
#[derive(Debug, Default)]
struct FoundContainer {
    id: Option<String>,
    /// More than one contradict each other.
    pods: BTreeSet<String>,
    /// How many names the path of the container has.
    depth: usize,
}

impl FoundContainer {
    fn outermost(path: &[String]) -> Option<Self> {
        let (mut found, mut is_container) = (Self::default(), false);
        let mut above: &[String] = &[];
        for (name, depth) in path.iter().zip(1..) {
            if is_pod_related(name) || above.is_empty() && CONTAINER_TREES.contains(&&**name) {
                is_container = true;
            }
            if let Some(pod) = pod_uid(name, above)
                && root_alone_writes_below(above)
            {
                found.pods.insert(pod);
            }
            if let Some(id) = container_id(name, above) {
                return Some(Self { id: Some(id), depth, ..found });
            }
            above = path.get(..depth)?;
        }
        is_container.then_some(found)
    }
}

/// Whether a name is one that the kubelet gives to the cgroup of all pods, of a class of pods, or of one pod.
fn is_pod_related(name: &str) -> bool {
    let is_slice = || name.contains(".slice") && name.contains("kubepods");
    name == "kubepods" || is_slice()
}

/// The UID in the name of a pod's cgroup, in the notation of either driver.
fn pod_uid(name: &str, above: &[String]) -> Option<String> {
    if let Some(uid) = name.strip_prefix("pod") {
        let above: Vec<&str> = above.iter().map(String::as_str).collect();
        let is_below_all_pods =
            matches!(*above, [.., "kubepods"] | [.., "kubepods", "burstable" | "besteffort"]);
        return (is_below_all_pods && is_uid(uid)).then(|| uid.to_owned());
    }
    // `kubelet-kubepods-burstable-podUID.slice`, perhaps with `:cri-containerd:ID` behind it. In UIDs `-` is written `_`.
    let slice = name.split_once(':').map_or(name, |(slice, _)| slice);
    let (class, uid) = slice.strip_suffix(".slice")?.rsplit_once("-pod")?;
    let all = class.strip_suffix("-burstable").or_else(|| class.strip_suffix("-besteffort"));
    let all = all.unwrap_or(class);
    // A `-` would separate a slice from the one that it is in.
    let uid = (!uid.contains('-')).then(|| uid.replace('_', "-"))?;
    ((all == "kubepods" || all.ends_with("-kubepods")) && is_uid(&uid)).then_some(uid)
}

/// A UUID, or the hash that is the UID of a static pod.
fn is_uid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let is_hex = text.bytes().all(|it| it == b'-' || is_lower_hex(it));
    is_hex && matches!(*lengths, [8, 4, 4, 4, 12] | [32])
}

/// The id in the name of a container's cgroup.
fn container_id(name: &str, above: &[String]) -> Option<String> {
    // `ID`, `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID`, `….slice:cri-containerd:ID`
    let last = name.strip_suffix(".scope").unwrap_or(name).rsplit(['-', ':']).next()?;
    if last.len() == 64 && last.bytes().all(is_lower_hex) {
        return Some(last.to_owned());
    }
    if let Some(name) = name.strip_prefix("lxc.payload.") {
        return Some(name.to_owned());
    }
    matches!(above, [parent] if CONTAINER_PARENTS.contains(&&**parent)).then(|| name.to_owned())
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether only root of the host, and its container runtimes, can create cgroups at the end of a path.
fn root_alone_writes_below(path: &[String]) -> bool {
    let may_be_delegated = |name: &String| is_unit(name) && !RUNTIME_UNITS.contains(&&**name);
    path.first().is_none_or(|first| first != "user.slice") && !path.iter().any(may_be_delegated)
}

/// The system unit that a path belongs to: the first name that is no slice.
fn unit(path: &[String]) -> Option<String> {
    let name = path.iter().find(|name| name.strip_suffix(".slice").is_none())?;
    // systemd puts `_` before names that could be mistaken for files of the kernel.
    let name = name.strip_prefix('_').unwrap_or(name);
    is_unit(name).then(|| name.to_owned())
}

/// Whether a name is one of a unit that has processes.
fn is_unit(name: &str) -> bool {
    [".service", ".scope", ".socket", ".mount", ".swap"].iter().any(|it| name.ends_with(it))
}

#[cfg(test)]
mod tests;
