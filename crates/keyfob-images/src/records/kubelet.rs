//! Whether a kubelet runs on a root directory.
//!
//! A kubelet reads records when it starts, and goes by what it has in memory from then on. A record that somebody else writes
//! meanwhile is not seen, so that it takes the image for one that was always there; and its garbage collection deletes
//! records of images that its container runtime does not have yet.
//!
//! There are two signs of a running kubelet, because neither is always there:
//!
//! - It listens on a socket below its root directory. That shows from inside a container too, but not while it starts.
//! - Its process has the directory as `--root-dir`. That shows at once, but not from inside a container.

use std::{
    fmt,
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{fs::MetadataExt as _, net::UnixDatagram},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The sockets of a kubelet, in its root directory. A kubelet with another root directory than the default has only the
/// first of them there.
const SOCKETS: [&str; 2] = ["pod-resources", DEVICE_PLUGINS];
const DEVICE_PLUGINS: &str = "device-plugins";
const SOCKET: &str = "kubelet.sock";

/// How the names of programs begin that are a kubelet, or have one in them.
const PROGRAMS: [&str; 6] = ["kubelet", "kubelite", "hyperkube", "k3s", "rke2", "k0s"];

/// Root directories of kubelets that are not told any: upstream's, that of k0s and that of `MicroK8s`.
const DEFAULTS: [&str; 3] =
    ["/var/lib/kubelet", "/var/lib/k0s/kubelet", "/var/snap/microk8s/common/var/lib/kubelet"];

/// The end of the flag, in all its spellings: `--root-dir`, `--kubelet-root-dir`, `--kubelet-arg=root-dir=…`.
const FLAG: &str = "root-dir";

/// A sign that a kubelet runs on a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunningKubelet {
    /// Somebody listens on its socket.
    Listens {
        /// The socket.
        socket: PathBuf,
    },
    /// There is such a process.
    Process {
        /// Its number.
        pid: u32,
        /// The name of its program.
        name: String,
    },
    /// There is a socket, and it cannot be told whether anybody listens.
    Unclear {
        /// The socket.
        socket: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl RunningKubelet {
    /// A sign that a kubelet runs on this root directory, if there is one.
    pub fn find(root: &Path) -> Option<Self> {
        let sockets = || SOCKETS.iter().find_map(|folder| listener(&root.join(folder)));
        sockets().or_else(|| process(Path::new("/proc"), root))
    }
}

/// When a kubelet was last started on a root directory, if that can be told: it makes this socket anew before it runs any pod.
/// The socket stays when the kubelet ends.
pub(super) fn last_start(root: &Path) -> Option<SystemTime> {
    // A kubelet with another root directory has this socket at the default place all the same.
    let [default, ..] = DEFAULTS.map(Path::new);
    [root, default].iter().find_map(|root| {
        let socket = root.join(DEVICE_PLUGINS).join(SOCKET);
        fs::symlink_metadata(socket).and_then(|metadata| metadata.modified()).ok()
    })
}

impl fmt::Display for RunningKubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listens { socket } => write!(f, "it listens on {}", socket.display()),
            Self::Process { pid, name } => write!(f, "process {pid}, {name}"),
            Self::Unclear { socket, reason } => {
                write!(
                    f,
                    "there is {}, and whether it listens there cannot be told: {reason}",
                    socket.display()
                )
            }
        }
    }
}

/// Whether somebody listens on the socket of a folder.
///
/// Connecting a datagram socket to a stream socket fails with a different error if somebody listens there, so no connection
/// has to be accepted and nothing waits.
fn listener(folder: &Path) -> Option<RunningKubelet> {
    // The path by descriptor is never too long for the address of a socket.
    let opened = File::open(folder).ok()?;
    let address = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
    let socket = folder.join(SOCKET);
    let connected = UnixDatagram::unbound().and_then(|own| own.connect(address));
    match connected {
        Err(error) if is_nobody(&error) => None,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Some(RunningKubelet::Unclear { socket, reason: error.to_string() })
        }
        Ok(()) | Err(_) => Some(RunningKubelet::Listens { socket }),
    }
}

/// There is no socket, or one that a process left behind.
fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    matches!(error.kind(), ConnectionRefused | NotADirectory | NotFound)
}

/// A process that is a kubelet with this root directory.
fn process(processes: &Path, root: &Path) -> Option<RunningKubelet> {
    let root = identity(root)?;
    let entries = fs::read_dir(processes).ok()?;
    entries.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim_end().to_owned();
        if !PROGRAMS.iter().any(|program| name.starts_with(program)) {
            return None;
        }
        let is_its_root = |path: PathBuf| {
            // As the process sees it, or as we do if we may not look that way.
            let seen = path.strip_prefix("/").map_or_else(
                |_| entry.path().join("cwd").join(&path),
                |below| entry.path().join("root").join(below),
            );
            let found = match fs::metadata(&seen) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => identity(&path),
                found => found.ok().map(|found| (found.dev(), found.ino())),
            };
            found == Some(root)
        };
        let its_roots = root_directories(&entry.path());
        its_roots.into_iter().any(is_its_root).then_some(RunningKubelet::Process { pid, name })
    })
}

/// The root directory that a process was told, or those that it may have untold. None if it has ended.
fn root_directories(process: &Path) -> Vec<PathBuf> {
    let line = match fs::read(process.join("cmdline")) {
        Ok(line) if line.is_empty() => return Vec::new(),
        line => line.unwrap_or_default(),
    };
    let line = String::from_utf8_lossy(&line);
    let words: Vec<&str> = line.split('\0').flat_map(flags).collect();
    let told = words.iter().enumerate();
    let told = told.filter_map(|(at, word)| told_by(word, words.get(at + 1).copied()));
    let told: Vec<PathBuf> = told.map(PathBuf::from).collect();
    if told.is_empty() { DEFAULTS.map(PathBuf::from).into() } else { told }
}

/// The flags in a word. Distributions pass on several in one: `--kubelet-extra-args='--root-dir=/a --v=2'`.
fn flags(word: &str) -> Vec<&str> {
    const QUOTES: [char; 2] = ['"', '\''];
    match word.strip_prefix("--kubelet-extra-args=") {
        Some(passed_on) => {
            passed_on.split_whitespace().map(|flag| flag.trim_matches(QUOTES)).collect()
        }
        None => vec![word],
    }
}

/// The root directory that a flag tells, or that the next word does: `--root-dir=/a`, `--kubelet-arg=root-dir=/a`,
/// `--kubelet-root-dir /a`, `--root_dir=/a`.
fn told_by<'a>(flag: &'a str, next: Option<&'a str>) -> Option<&'a str> {
    let flag = flag.strip_prefix("--kubelet-arg=").unwrap_or(flag).trim_start_matches('-');
    let (name, value) =
        flag.split_once('=').map_or((flag, next), |(name, value)| (name, Some(value)));
    // A kubelet takes an underscore for a hyphen.
    let is_it = name.replace('_', "-").ends_with(FLAG) && !name.contains('/');
    value.filter(|_| is_it)
}

/// The same for every path that leads to a directory.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    fn with_socket(folder: &str) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(folder)).unwrap();
        let socket = root.path().join(folder).join(SOCKET);
        (root, socket)
    }

    #[test]
    fn a_kubelet_runs_while_somebody_listens_on_its_socket() {
        for folder in SOCKETS {
            let (root, socket) = with_socket(folder);
            assert_eq!(RunningKubelet::find(root.path()), None);
            // As a kubelet does: under another name first.
            let listener = UnixListener::bind(socket.with_extension("new")).unwrap();
            fs::rename(socket.with_extension("new"), &socket).unwrap();
            let sign = RunningKubelet::Listens { socket: socket.clone() };
            assert_eq!(RunningKubelet::find(root.path()), Some(sign));

            drop(listener);

            assert!(socket.exists());
            assert_eq!(RunningKubelet::find(root.path()), None, "it is what a killed one leaves");
        }
    }

    #[test]
    fn the_name_of_a_directory_is_not_taken_for_the_flag() {
        for (words, told) in [
            (&["--root-dir=/a/my-root-dir"][..], Some("/a/my-root-dir")),
            (&["--root-dir", "/a/root-dir/x"], Some("/a/root-dir/x")),
            (&["--kubelet-arg=root-dir=/a/root-dir=b"], Some("/a/root-dir=b")),
            (&["--kubelet-root-dir=/a"], Some("/a")),
            (&["--kubelet-extra-args=--v=2 --root-dir=/a --x"], Some("/a")),
            (&["--root_dir=/a"], Some("/a")),
            (&["--kubelet-arg=root_dir=/a"], Some("/a")),
            (&["--kubelet-extra-args=--root-dir /a --v=2"], Some("/a")),
            (&["--kubelet-extra-args='--root-dir=/a' --v=2"], Some("/a")),
            (&["--kubelet-extra-args=\"--v=2 --root-dir=/a\""], Some("/a")),
            (&["--config=/a/root-dir"], None),
        ] {
            let process = with_process("kubelet", words, Path::new("/"));
            let found = root_directories(&process.path().join("42"));
            let expected =
                told.map_or(DEFAULTS.map(PathBuf::from).into(), |told| vec![told.into()]);
            assert_eq!(found, expected, "{words:?}");
        }
    }

    /// What the kernel says of a process.
    fn with_process(name: &str, words: &[&str], its_root: &Path) -> tempfile::TempDir {
        let processes = tempfile::tempdir().unwrap();
        let own = processes.path().join("42");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("comm"), format!("{name}\n")).unwrap();
        fs::write(own.join("cmdline"), words.join("\0") + "\0").unwrap();
        symlink(its_root, own.join("root")).unwrap();
        symlink(its_root.join("data"), own.join("cwd")).unwrap();
        processes
    }

    #[test]
    fn a_kubelet_runs_while_its_process_does_however_it_was_told_its_directory() {
        let node = tempfile::tempdir().unwrap();
        for path in ["data/own", "var/lib/kubelet", "other"] {
            fs::create_dir_all(node.path().join(path)).unwrap();
        }
        symlink("../data/own", node.path().join("var/link")).unwrap();
        let runs_on = |name: &str, words: &[&str], directory: &str| {
            let processes = with_process(name, words, node.path());
            let sign = RunningKubelet::Process { pid: 42, name: name.into() };
            process(processes.path(), &node.path().join(directory)) == Some(sign)
        };

        for words in [
            &["/usr/bin/kubelet", "--v=2", "--root-dir=/data/own"][..],
            &["kubelet", "--root-dir", "/data/own", "--v=2"],
            &["kubelet", "--root-dir", "/var/link"],
            &["kubelet", "--root-dir=own"],
            &["k3s", "agent", "--kubelet-arg=root-dir=/data/own"],
            &["k0s", "worker", "--kubelet-root-dir", "/data/own"],
        ] {
            assert!(runs_on("kubelet", words, "data/own"), "{words:?}");
            assert!(!runs_on("kubelet", words, "other"), "{words:?}");
            assert!(!runs_on("kubelet", words, "var/lib/kubelet"), "{words:?}");
        }
        for name in ["kubelet", "k3s-server", "kubelite"] {
            assert!(runs_on(name, &[name, "server"], "var/lib/kubelet"), "{name}");
            assert!(!runs_on(name, &[name, "server"], "other"), "{name}");
        }
        assert!(!runs_on("vim", &["vim", "--root-dir=/data/own"], "data/own"));
    }
}
