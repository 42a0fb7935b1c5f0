//! The directory where answers are kept: its owner's alone, as is every file in it.
//!
//! [`keyfob_exec::Directory`] sees to it that no link is followed and that nobody can put another directory in its place. This
//! adds who may own it and its files, and with which mode.

use std::{
    fs::{File, Metadata},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use keyfob_api::Secret;
use rustix::process::geteuid;
use thiserror::Error;

/// More than an answer can have: its plugin may print one MiB, which may grow when it is written anew.
const LARGEST: u64 = 8 << 20;

/// A directory that nobody else can look into.
#[derive(Debug)]
pub(super) struct PrivateDirectory(keyfob_exec::Directory);

impl PrivateDirectory {
    /// Opens it, and creates it if it is missing. A link is refused, even to a directory of the user's own.
    pub(super) fn open(path: &Path) -> Result<Self, UnsafeDirectory> {
        // A slash at its end would follow a link.
        let path: PathBuf = path.components().collect();
        let unsafe_because = |flaw| UnsafeDirectory { path: path.clone(), flaw };
        let directory = open_or_create(&path).map_err(|error| match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => unsafe_because(DirectoryFlaw::Link),
            Ok(_) | Err(_) => unsafe_because(error.into()),
        })?;
        let metadata = directory.metadata(".").map_err(|error| unsafe_because(error.into()))?;
        match metadata.as_ref().and_then(flaw_of) {
            Some(flaw) => Err(unsafe_because(flaw)),
            None => Ok(Self(directory)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// What a file holds; `None` if it is missing, not ours alone, or larger than an answer can be.
    pub(super) fn read(&self, name: &str) -> Option<Secret<Vec<u8>>> {
        // Nobody else can replace the file between the two: the directory is ours alone.
        let is_ours = flaw_of(&self.0.metadata(name).ok()??).is_none();
        is_ours.then(|| self.0.read(name, LARGEST).ok())?
    }

    /// Puts a file in the place of whatever is there, whole or not at all; `unfinished` is its name until then.
    ///
    /// Nothing is synced: after a power cut the file may be empty, which counts as none, and costs one run of a plugin.
    pub(super) fn replace(&self, name: &str, unfinished: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.0.create_file(unfinished)?;
        let written = file.write_all(bytes).and_then(|()| self.0.rename(unfinished, &self.0, name));
        if written.is_err() {
            self.0.remove(unfinished).unwrap_or_default();
        }
        written
    }

    /// A file to read and write, created if it is missing; one that is not ours alone is thrown away first.
    pub(super) fn open_to_write(&self, name: &str) -> io::Result<File> {
        self.open_ours(name).or_else(|_| {
            self.0.remove(name)?;
            self.open_ours(name)
        })
    }

    /// Removes a file. Whether there was one.
    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        let is_there = self.0.metadata(name)?.is_some();
        self.0.remove(name)?;
        Ok(is_there)
    }

    /// Whether an open file is still the one of this name.
    pub(super) fn has(&self, name: &str, file: &File) -> bool {
        self.0.has(name, file)
    }

    /// The files, by name.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    /// When a file was changed last.
    pub(super) fn modified(&self, name: &str) -> Option<SystemTime> {
        self.0.metadata(name).ok()??.modified().ok()
    }

    fn open_ours(&self, name: &str) -> io::Result<File> {
        let file = self.0.open_or_create(name)?;
        match flaw_of(&file.metadata()?) {
            None => Ok(file),
            Some(_) => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not ours alone")),
        }
    }
}

/// The last part of the path is not followed if it is a link; the rest is as the user wrote it.
fn open_or_create(path: &Path) -> io::Result<keyfob_exec::Directory> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return keyfob_exec::Directory::open(path);
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let name = name.to_str().ok_or_else(|| io::Error::other("its name is not valid UTF-8"))?;
    keyfob_exec::Directory::create(parent)?.create_subdirectory(name)
}

fn flaw_of(metadata: &Metadata) -> Option<DirectoryFlaw> {
    if metadata.uid() != geteuid().as_raw() {
        return Some(DirectoryFlaw::Owner(metadata.uid()));
    }
    let mode = metadata.mode() & 0o777;
    (mode & 0o077 != 0).then_some(DirectoryFlaw::Mode(mode))
}

/// A directory in which no secret is put.
#[derive(Debug, Error)]
#[error("no answer can be kept in {}: {flaw}", path.display())]
#[non_exhaustive]
pub struct UnsafeDirectory {
    /// The directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub flaw: DirectoryFlaw,
}

/// What is wrong with a directory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryFlaw {
    /// It leads elsewhere.
    #[error("it is a link; name the directory itself")]
    Link,
    /// Its owner can read what is kept there.
    #[error("it belongs to user {0}; name a directory of your own")]
    Owner(u32),
    /// Others may read or write there.
    #[error("others have access to it (mode {0:04o}); chmod it to 0700 or name another")]
    Mode(u32),
    /// It cannot be opened or made.
    #[error("{0}")]
    Io(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn own() -> (tempfile::TempDir, PrivateDirectory) {
        let folder = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(&folder.path().join("a/b")).unwrap();
        (folder, directory)
    }

    #[test]
    fn a_directory_is_made_for_its_owner_alone() {
        let (_folder, directory) = own();
        for path in [directory.path(), directory.path().parent().unwrap()] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_directory_that_others_can_reach_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        fs::create_dir(&real).unwrap();
        let refused = |path: &Path| PrivateDirectory::open(path).unwrap_err().flaw.to_string();
        for mode in [0o750, 0o701, 0o770, 0o755] {
            chmod(&real, mode);
            let wanted = format!(
                "others have access to it (mode {mode:04o}); chmod it to 0700 or name another"
            );
            assert_eq!(refused(&real), wanted);
        }
        chmod(&real, 0o700);
        let link = folder.path().join("link");
        symlink(&real, &link).unwrap();
        for link in [link.clone(), link.join("")] {
            assert_eq!(refused(&link), "it is a link; name the directory itself");
        }
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(refused(&folder.path().join("file")).starts_with("Not a directory"));
        assert!(PrivateDirectory::open(&real).is_ok());
    }

    #[test]
    fn what_is_not_ours_alone_is_not_read_and_is_replaced() {
        let (folder, directory) = own();
        let at = |name: &str| directory.path().join(name);
        let secret = folder.path().join("secret");
        fs::write(&secret, "elsewhere").unwrap();
        chmod(&secret, 0o600);
        symlink(&secret, at("link")).unwrap();
        fs::write(at("open"), "open").unwrap();
        chmod(&at("open"), 0o640);
        fs::create_dir(at("folder")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["link", "open", "folder", "fifo", "none"] {
            assert!(directory.read(name).is_none(), "{name}");
        }
        for name in ["link", "open", "fifo", "none"] {
            directory.replace(name, "unfinished", b"ours").unwrap();
            assert_eq!(directory.read(name).unwrap().expose(), b"ours", "{name}");
        }
        assert_eq!(fs::read(&secret).unwrap(), b"elsewhere");
        assert!(directory.replace("folder", "unfinished", b"ours").is_err());
        assert_eq!(directory.names().unwrap(), ["fifo", "folder", "link", "none", "open"]);
    }

    #[test]
    fn a_file_to_write_is_never_one_of_somebody_else() {
        let (folder, directory) = own();
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        symlink(&elsewhere, directory.path().join("link")).unwrap();

        directory.open_to_write("link").unwrap().write_all(b"new").unwrap();

        assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
        assert_eq!(directory.read("link").unwrap().expose(), b"new");
    }
}
