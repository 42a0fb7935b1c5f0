//! Directories that look like `/proc/PID`: what the kernel could say, and what it would not.

use std::{
    fs::{self, File},
    io::Write as _,
    os::{fd::AsFd as _, unix::fs::symlink},
    path::PathBuf,
    thread,
};

use keyfob_caller::{AttestError, Caller, CallerPlace, ContainerEvidence, HostReference};
use keyfob_exec::PeerProcess;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

const STATUS: &str = "Name:\tdocker\nState:\tS (sleeping)\nUid:\t1000\t1000\t1000\t1000\n\
    Gid:\t50\t50\t50\t50\nGroups:\t27 999 \n";
const ID: &str = "b2a102854b4969b2ce98dc329c86b4fb2b06e4ad2cc8da9d8a7578c9cd2004a2";

/// A process with the user id 1000 on a host, as files.
struct FakeProcess(TempDir);

impl FakeProcess {
    fn new() -> Self {
        let process = Self(tempfile::tempdir().unwrap());
        for folder in ["files", "files/root", "ns"] {
            fs::create_dir(process.file(folder)).unwrap();
        }
        for name in ["docker", "podman", "pid", "user", "other"] {
            fs::write(process.file("files").join(name), "").unwrap();
        }
        process.write("status", STATUS);
        process.write("cgroup", "0::/system.slice/docker.service\n");
        process.link("exe", "files/docker");
        process.link("root", "files/root");
        process.link("ns/pid", "files/pid");
        process.link("ns/user", "files/user");
        process
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    fn link(&self, name: &str, target: &str) {
        let (new, target) = (self.file("new"), self.file(target));
        symlink(target, &new).unwrap();
        fs::rename(new, self.file(name)).unwrap();
    }

    fn host(&self) -> HostReference {
        HostReference::of_process(File::open(self.0.path()).unwrap().as_fd()).unwrap()
    }

    fn peer(&self) -> PeerProcess {
        let directory = File::open(self.0.path()).unwrap().into();
        PeerProcess::from_parts(1000, 50, 4711, None, directory)
    }

    fn attest(&self, host: &HostReference) -> Result<Caller, AttestError> {
        Caller::attest(&self.peer(), host)
    }
}

#[test]
fn facts_are_read_through_the_directory() {
    let process = FakeProcess::new();
    let caller = process.attest(&process.host()).unwrap();
    assert_eq!((caller.uid, caller.gid, caller.pid), (1000, 50, 4711));
    assert_eq!(caller.groups, [27, 999]);
    assert_eq!(caller.executable.path, process.file("files/docker"));
    assert!(caller.executable.is(&process.file("exe")));
    assert!(!caller.executable.is(&process.file("files/podman")));
    let CallerPlace::Host { unit, .. } = caller.place else { panic!("{caller:?}") };
    assert_eq!(unit.as_deref(), Some("docker.service"));
}

#[test]
fn a_process_is_on_the_host_only_if_everything_is_as_there() {
    let process = FakeProcess::new();
    let host = process.host();
    for (name, target, usual, expected) in [
        ("ns/pid", "files/other", "files/pid", ContainerEvidence::PidNamespace),
        ("ns/user", "files/other", "files/user", ContainerEvidence::UserNamespace),
        ("root", "files", "files/root", ContainerEvidence::RootDirectory),
    ] {
        process.link(name, target);
        let caller = process.attest(&host).unwrap();
        let CallerPlace::Container { id: None, pod_uid: None, evidence, .. } = caller.place else {
            panic!("{name}: {caller:?}");
        };
        assert_eq!(evidence, expected);
        process.link(name, usual);
    }
    for (cgroup, expected, id) in [
        ("/../..", ContainerEvidence::CgroupNamespace, None),
        (&*format!("/docker/{ID}"), ContainerEvidence::Cgroup, Some(ID)),
    ] {
        process.write("cgroup", &format!("0::{cgroup}\n"));
        let caller = process.attest(&host).unwrap();
        let CallerPlace::Container { id: found, evidence, .. } = caller.place else {
            panic!("{cgroup}: {caller:?}");
        };
        assert_eq!((evidence, found.as_deref()), (expected, id));
    }
}

#[test]
fn what_cannot_be_read_or_is_not_as_expected_is_refused() {
    let long = format!("{STATUS}Rest:\t{}\n", "x".repeat(2 << 20));
    let deep = format!("0::{}\n", "/x".repeat(64 << 10));
    let change = |text: &str, from: &str, to: &str| text.replace(from, to);
    for (file, text, expected) in [
        ("status", change(STATUS, "Uid:\t1000\t1000\t1000", "Uid:\t1000\t1000\t0"), "UidChanged"),
        ("status", change(STATUS, "Uid:\t1000", "Uid:\t0"), "UidChanged"),
        ("status", change(STATUS, "Gid:\t50\t50", "Gid:\t50\t0"), "GidChanged"),
        ("status", change(STATUS, "S (sleeping)", "Z (zombie)"), "Gone"),
        ("status", change(STATUS, "Groups:", "Group:"), "Unreadable { file: \"status\""),
        ("status", long, "Unreadable { file: \"status\""),
        ("cgroup", "garbage".to_owned(), "Unreadable { file: \"cgroup\""),
        ("cgroup", String::new(), "Unreadable { file: \"cgroup\""),
        ("cgroup", deep, "Unreadable { file: \"cgroup\""),
        ("cgroup", format!("2:a:/docker/{ID}\n1:b:/lxc/web\n"), "Ambiguous"),
    ] {
        let process = FakeProcess::new();
        let host = process.host();
        process.write(file, &text);
        let error = format!("{:?}", process.attest(&host).unwrap_err());
        assert!(error.starts_with(expected), "{error}");
    }
    for file in ["cgroup", "exe", "root", "ns/pid", "ns/user"] {
        let process = FakeProcess::new();
        let host = process.host();
        fs::remove_file(process.file(file)).unwrap();
        let error = process.attest(&host).unwrap_err();
        assert!(
            matches!(error, AttestError::Unreadable { file: it, .. } if it == file),
            "{error:?}"
        );
    }
    let process = FakeProcess::new();
    let host = process.host();
    fs::remove_file(process.file("status")).unwrap();
    assert!(matches!(process.attest(&host), Err(AttestError::Gone)));
}

#[test]
fn a_program_that_is_replaced_between_two_reads_is_noticed() {
    let process = FakeProcess::new();
    let host = process.host();
    fs::remove_file(process.file("cgroup")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, process.file("cgroup"), FileType::Fifo, mode, 0).unwrap();
    thread::scope(|threads| {
        let attested = threads.spawn(|| process.attest(&host));
        // As soon as the cgroup is being read.
        let mut cgroup = File::options().write(true).open(process.file("cgroup")).unwrap();
        process.link("exe", "files/podman");
        cgroup.write_all(b"0::/system.slice/docker.service\n").unwrap();
        drop(cgroup);
        let outcome = attested.join().unwrap();
        assert!(matches!(outcome, Err(AttestError::ExecutableChanged)), "{outcome:?}");
    });
}
