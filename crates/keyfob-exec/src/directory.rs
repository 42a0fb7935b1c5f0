//! A directory that is reached through one descriptor, and whose files are regular files.
//!
//! The path of the directory itself is followed once, when it is opened: the user chose it. Below it no symbolic link is
//! followed, neither as a directory nor as a file. Everything else goes through the descriptor, so that nobody who renames
//! directories meanwhile can redirect a write. FIFOs, devices and sockets are refused without being opened.
//!
//! Files are created for their owner only (0600), directories too (0700).

use std::{
    fmt,
    fs::{DirBuilder, File, Metadata},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use keyfob_api::Secret;
use rustix::{
    fs::{
        AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, linkat, mkdirat, openat, renameat,
        renameat_with, unlinkat,
    },
    io::Errno,
};

use crate::bounded_file::read_at_most;

/// An open directory.
pub struct Directory {
    path: PathBuf,
    fd: OwnedFd,
}

impl Directory {
    /// Opens a directory that is there. The path may lead through symbolic links.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { path: path.to_owned(), fd })
    }

    /// Opens a directory, and creates it and its parents if they are missing.
    pub fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path)
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory in this one.
    pub fn subdirectory(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { path: self.path.join(name), fd }),
            Err(error @ (Errno::NOTDIR | Errno::LOOP)) => match self.metadata(name)? {
                Some(found) if found.is_symlink() => Err(is_link()),
                _ => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a directory in this one, and creates it if it is missing.
    pub fn create_subdirectory(&self, name: &str) -> io::Result<Self> {
        match mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => self.subdirectory(name),
            Err(error) => Err(error.into()),
        }
    }

    /// What is there under a name, without following it or opening it; nothing if there is nothing.
    pub fn metadata(&self, name: &str) -> io::Result<Option<Metadata>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd).metadata().map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file to read it, or to lock it.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        // Opening a device may have effects, so it is looked at before; and again after, since it may have been replaced.
        let found = self.metadata(name)?.ok_or(io::ErrorKind::NotFound)?;
        check_regular(&found)?;
        self.open_regular(name, OFlags::RDONLY)
    }

    /// Reads a whole regular file of at most `limit` bytes.
    pub fn read(&self, name: &str, limit: u64) -> io::Result<Secret<Vec<u8>>> {
        read_at_most(self.open_file(name)?, limit)
    }

    /// Opens a regular file to read and write it, and creates it if it is missing. A file that also has another name is
    /// refused: whoever gave it that name did not mean it to be written here.
    pub fn open_or_create(&self, name: &str) -> io::Result<File> {
        if let Some(found) = self.metadata(name)? {
            check_regular(&found)?;
        }
        let file = self.open_regular(name, OFlags::RDWR | OFlags::CREATE)?;
        if file.metadata()?.nlink() > 1 {
            let reason = "it is a hard link to another file; remove it";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        Ok(file)
    }

    /// Creates a file, to read and write it; an error if there is anything of this name.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        self.open_regular(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// Creates a file whose name begins so, and that nobody else has.
    pub fn create_unique(&self, prefix: &str) -> io::Result<(String, File)> {
        loop {
            let name = format!("{prefix}{:016x}", RandomState::new().build_hasher().finish());
            match self.create_file(&name) {
                Ok(file) => return Ok((name, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives a file another name, here or in another directory, in the place of whatever has it.
    pub fn rename(&self, name: &str, into: &Self, new_name: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, name, &into.fd, new_name)?)
    }

    /// Gives a file another name, unless something has it: then nothing changes, and that is an error.
    pub fn rename_new(&self, name: &str, into: &Self, new_name: &str) -> io::Result<()> {
        match linkat(&self.fd, name, &into.fd, new_name, AtFlags::empty()) {
            Ok(()) => self.remove(name),
            Err(Errno::EXIST) => Err(Errno::EXIST.into()),
            // Some file systems have no hard links.
            Err(_) => {
                let only_new = RenameFlags::NOREPLACE;
                Ok(renameat_with(&self.fd, name, &into.fd, new_name, only_new)?)
            }
        }
    }

    /// Removes a file; that there is none is fine.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an open file is still the one of this name.
    pub fn has(&self, name: &str, file: &File) -> bool {
        let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        match (self.metadata(name), file.metadata()) {
            (Ok(Some(named)), Ok(held)) => identity(&named) == identity(&held),
            _ => false,
        }
    }

    /// The names of everything in it, sorted. A name that is no text is left out.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        names.sort_unstable();
        Ok(names)
    }

    /// Brings the names in it to the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// A FIFO that took the place of the file is refused too, and makes nobody wait.
    fn open_regular(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => File::from(fd),
            Err(Errno::LOOP) => return Err(is_link()),
            Err(error) => return Err(error.into()),
        };
        check_regular(&file.metadata()?)?;
        Ok(file)
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({})", self.path.display())
    }
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_symlink() {
        return Err(is_link());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(())
}

fn is_link() -> io::Error {
    let reason = "it is a symbolic link, and those are not followed here";
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write as _,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use rustix::fs::{FileType, mknodat};

    use super::*;

    fn opened() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::create(&folder.path().join("a/b")).unwrap();
        (folder, directory)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_created_is_for_its_owner_only() {
        let (folder, directory) = opened();
        directory.create_subdirectory("c").unwrap().create_file("d").unwrap();
        for (path, expected) in [("a", 0o700), ("a/b", 0o700), ("a/b/c", 0o700), ("a/b/c/d", 0o600)]
        {
            assert_eq!(mode(&folder.path().join(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_link_is_followed_to_the_directory_itself_and_nowhere_below_it() {
        let (folder, directory) = opened();
        let at = |name: &str| directory.path().join(name);
        let link = folder.path().join("link");
        symlink(directory.path(), &link).unwrap();
        Directory::open(&link).unwrap().create_file("through").unwrap();
        assert!(at("through").exists());

        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "kept").unwrap();
        symlink(&elsewhere, at("directory")).unwrap();
        symlink(elsewhere.join("file"), at("file")).unwrap();
        symlink(elsewhere.join("new"), at("dangling")).unwrap();

        for refused in [
            directory.subdirectory("directory").map(drop),
            directory.create_subdirectory("directory").map(drop),
            directory.create_subdirectory("dangling").map(drop),
            directory.open_file("file").map(drop),
            directory.read("file", 9).map(drop),
            directory.open_or_create("file").map(drop),
            directory.open_or_create("dangling").map(drop),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), is_link().to_string());
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
        assert_eq!(fs::read(elsewhere.join("file")).unwrap(), b"kept");
    }

    #[test]
    fn only_regular_files_with_one_name_are_written() {
        let (folder, directory) = opened();
        let at = |name: &str| directory.path().join(name);
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "kept").unwrap();
        fs::hard_link(&other, at("hard")).unwrap();
        let reason = |name: &str| directory.open_or_create(name).unwrap_err().to_string();

        assert_eq!(reason("fifo"), "it is not a regular file");
        assert_eq!(reason("directory"), "it is not a regular file");
        assert_eq!(reason("hard"), "it is a hard link to another file; remove it");
        assert_eq!(directory.read("hard", 9).unwrap().expose(), b"kept");
        directory.open_or_create("own").unwrap().write_all(b"new").unwrap();
        assert_eq!(directory.read("own", 9).unwrap().expose(), b"new");
    }

    #[test]
    fn a_new_name_is_given_once() {
        let (_folder, directory) = opened();
        let (first, _) = directory.create_unique("new-").unwrap();
        let (second, _) = directory.create_unique("new-").unwrap();
        assert_ne!(first, second);

        directory.rename_new(&first, &directory, "name").unwrap();
        let taken = directory.rename_new(&second, &directory, "name").unwrap_err();

        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(directory.names().unwrap(), ["name".to_owned(), second]);
    }

    #[test]
    fn a_directory_that_was_moved_away_is_still_the_one_that_was_opened() {
        let (folder, directory) = opened();
        fs::rename(directory.path(), folder.path().join("moved")).unwrap();
        fs::create_dir(directory.path()).unwrap();

        directory.create_file("file").unwrap();

        assert!(folder.path().join("moved/file").exists());
        assert!(!directory.path().join("file").exists());
    }
}
