//! Whoever can write into a layout must not make a pull write elsewhere, nor wait.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use keyfob_playground::registry::Fault;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{
    machine::Machine,
    registry::{Served, layer},
};

const SIZE: usize = 200_000;
const CUT: u64 = 100_000;

/// A layout with an image, and with a part of a layer of the next.
fn begun() -> (Machine, Served, String, PathBuf) {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("other", "v1", &[layer(3, 1000)]);
    assert_eq!(machine.pull(&served.image("other:v1"), &[]).code, 0);
    let pushed = served.push("app", "v1", &[layer(1, SIZE)]);
    served.registry.inject(Fault::cut_blob(CUT).only(pushed.layers[0].clone()));
    let image = served.image("app:v1");
    assert_eq!(machine.pull(&image, &["--retries", "0"]).code, 1);
    let (partial, _) = machine.partials().remove(0);
    let partial = machine.dest().join(".keyfob").join(format!("sha256-{partial}"));
    (machine, served, image, partial)
}

/// Files that are no business of a pull.
struct Elsewhere(tempfile::TempDir);

impl Elsewhere {
    fn new() -> Self {
        let elsewhere = Self(tempfile::tempdir().unwrap());
        fs::write(elsewhere.file(), "kept").unwrap();
        elsewhere
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("file")
    }

    fn check(&self, case: &str) {
        assert_eq!(fs::read(self.file()).unwrap(), b"kept", "{case}");
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 1, "{case}");
    }
}

fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.unwrap_or_default();
}

#[test]
fn a_link_in_the_place_of_a_file_is_not_followed() {
    for name in [".keyfob/lock", "PARTIAL", "oci-layout", "index.json", "image_manager/keyfob.lock"]
    {
        let (machine, _served, image, partial) = begun();
        let path = if name == "PARTIAL" { partial } else { machine.dest().join(name) };
        let elsewhere = Elsewhere::new();
        for target in [elsewhere.file(), elsewhere.0.path().join("new")] {
            remove(&path);
            symlink(&target, &path).unwrap();

            let said = machine.pull(&image, &[]);

            elsewhere.check(name);
            assert_eq!(said.code, refused(name), "{name}: {}", said.stderr);
            assert!(said.stderr.contains("it is a symbolic link"), "{name}: {}", said.stderr);
        }
    }
}

/// An index that cannot be read says nothing about images.
fn refused(name: &str) -> i32 {
    if name == "index.json" { 1 } else { 4 }
}

#[test]
fn a_link_in_the_place_of_a_directory_is_not_followed() {
    for name in [
        ".keyfob",
        "blobs",
        "blobs/sha256",
        "image_manager",
        "image_manager/pulling",
        "image_manager/pulled",
    ] {
        let (machine, _served, image, _) = begun();
        let (path, elsewhere) = (machine.dest().join(name), Elsewhere::new());
        remove(&path);
        symlink(elsewhere.0.path(), &path).unwrap();

        let said = machine.pull(&image, &[]);

        elsewhere.check(name);
        assert_eq!(said.code, 4, "{name}: {}", said.stderr);
        assert!(said.stderr.contains("it is a symbolic link"), "{name}: {}", said.stderr);
    }
}

#[test]
fn what_is_no_file_of_its_own_is_not_written() {
    for (name, why) in [
        (".keyfob/lock", "it is a hard link to another file"),
        ("PARTIAL", "it is a hard link to another file"),
        ("image_manager/keyfob.lock", "it is a hard link to another file"),
        (".keyfob/lock", "it is not a regular file"),
        ("PARTIAL", "it is not a regular file"),
        ("index.json", "it is not a regular file"),
        ("oci-layout", "it is not a regular file"),
        ("image_manager/keyfob.lock", "it is not a regular file"),
    ] {
        let (machine, _served, image, partial) = begun();
        let path = if name == "PARTIAL" { partial } else { machine.dest().join(name) };
        let other = machine.dest().parent().unwrap().join("other");
        fs::write(&other, "kept").unwrap();
        remove(&path);
        if why.contains("hard link") {
            fs::hard_link(&other, &path).unwrap();
        } else {
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }

        let said = machine.pull(&image, &[]);

        assert_eq!(said.code, refused(name), "{name}: {}", said.stderr);
        assert!(said.stderr.contains(why), "{name}: {}", said.stderr);
        assert_eq!(fs::read(&other).unwrap(), b"kept");
    }
}

#[test]
fn a_layout_may_be_reached_through_a_link() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    let real = tempfile::tempdir().unwrap();
    symlink(real.path(), machine.dest()).unwrap();

    assert_eq!(machine.pull(&served.image("app:v1"), &[]).code, 0);

    assert!(real.path().join("index.json").exists());
}

#[test]
fn a_layout_is_its_owners_alone() {
    let (machine, _served, _, _) = begun();
    let mut folders = vec![machine.dest()];
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
            }
        }
    }
}

#[test]
fn a_directory_that_was_there_keeps_its_mode() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    fs::create_dir(machine.dest()).unwrap();
    fs::set_permissions(machine.dest(), fs::Permissions::from_mode(0o755)).unwrap();

    assert_eq!(machine.pull(&served.image("app:v1"), &[]).code, 0);

    let mode = fs::metadata(machine.dest()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files have the time of the system")]
fn what_a_failed_pull_left_is_removed_after_a_day() {
    let (machine, served, _, partial) = begun();
    let always = ["--pull-policy", "Always"];
    let pull_another = || assert_eq!(machine.pull(&served.image("other:v1"), &always).code, 0);
    pull_another();
    assert!(partial.exists(), "the next attempt goes on with it");

    let file = fs::File::options().write(true).open(&partial).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(25)).unwrap();
    file.lock().unwrap();
    pull_another();
    assert!(partial.exists(), "somebody has it");
    drop(file);
    pull_another();

    assert!(!partial.exists());
}
