//! The directory where answers are kept: its owner's alone, as is every file in it.
//!
//! Everything goes through one descriptor, so that whoever moves directories about cannot put another in its place.

use std::{
    fmt,
    fs::{DirBuilder, File, Metadata},
    io::{self, Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use keyfob_api::Secret;
use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, statat, unlinkat},
    process::geteuid,
};
use thiserror::Error;

/// More than an answer can have: its plugin may print one MiB, which may grow when it is written anew.
const LARGEST: u64 = 8 << 20;

/// A directory that nobody else can look into.
pub(super) struct Directory {
    path: PathBuf,
    fd: OwnedFd,
}

impl Directory {
    /// Opens it; if it is not there it is made.
    pub(super) fn open(path: &Path) -> Result<Self, UnsafeDirectory> {
        // A slash at its end would follow a link.
        let path: PathBuf = path.components().collect();
        let unusable =
            |source: io::Error| UnsafeDirectory { path: path.clone(), flaw: source.into() };
        let opened = match open_directory(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
                made.and_then(|()| open_directory(&path))
            }
            opened => opened,
        };
        let fd = opened.map_err(|error| match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                UnsafeDirectory { path: path.clone(), flaw: DirectoryFlaw::Link }
            }
            Ok(_) | Err(_) => unusable(error),
        })?;
        let directory = File::from(fd);
        match flaw_of(&directory.metadata().map_err(unusable)?) {
            Some(flaw) => Err(UnsafeDirectory { path, flaw }),
            None => Ok(Self { path, fd: directory.into() }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What a file holds; nothing if it is not there, or not ours alone, or larger than it can be.
    pub(super) fn read(&self, name: &str) -> Option<Secret<Vec<u8>>> {
        let file = self.open_file(name, OFlags::RDONLY).ok()?;
        let length = file.metadata().ok()?.len();
        // Big enough from the start: growing would leave a copy of a secret behind.
        let mut bytes = Vec::with_capacity(usize::try_from(length.min(LARGEST)).ok()? + 1);
        let outcome = file.take(LARGEST + 1).read_to_end(&mut bytes);
        let bytes = Secret::new(bytes);
        (outcome.ok()? as u64 <= LARGEST).then_some(bytes)
    }

    /// Puts a file in the place of whatever is there, whole or not at all; `unfinished` is its name until then.
    ///
    /// Nothing is synced: after a power cut the file may be empty, which counts as none, and costs one run of a plugin.
    pub(super) fn replace(&self, name: &str, unfinished: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = File::from(self.open_at(unfinished, flags)?);
        let written = file
            .write_all(bytes)
            .and_then(|()| Ok(renameat(&self.fd, unfinished, &self.fd, name)?));
        if written.is_err() {
            self.remove(unfinished).unwrap_or_default();
        }
        written
    }

    /// A file to read and write, made if it is not there; one that is not ours alone is thrown away first.
    pub(super) fn open_to_write(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        self.open_file(name, flags).or_else(|_| {
            self.remove(name)?;
            self.open_file(name, flags)
        })
    }

    /// Whether there was such a file.
    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an open file is still the one of this name.
    pub(super) fn has(&self, name: &str, file: &File) -> bool {
        let named = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(named), Ok(held)) = (named, file.metadata()) else { return false };
        (named.st_dev, named.st_ino) == (held.dev(), held.ino())
    }

    /// The files, by name.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort_unstable();
        Ok(names)
    }

    /// When a file was changed last.
    pub(super) fn modified(&self, name: &str) -> Option<SystemTime> {
        let file = self.open_at(name, OFlags::RDONLY).ok().map(File::from)?;
        file.metadata().ok()?.modified().ok()
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let file = File::from(self.open_at(name, flags)?);
        let metadata = file.metadata()?;
        match flaw_of(&metadata) {
            None if metadata.is_file() => Ok(file),
            _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not ours alone")),
        }
    }

    /// Neither a link nor a pipe leads anywhere, or makes anybody wait.
    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?)
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({})", self.path.display())
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
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

    use rustix::fs::{FileType, mknodat};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn own() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(&folder.path().join("a/b")).unwrap();
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
        let refused = |path: &Path| Directory::open(path).unwrap_err().flaw.to_string();
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
        assert!(Directory::open(&real).is_ok());
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
