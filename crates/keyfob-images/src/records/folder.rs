//! A directory of small files, each named by the hash of what it is about.
//!
//! A file is whole or not there: it is written under another name, and renamed. Both are made durable before anybody goes on.
//!
//! Upstream: `fs_pullrecords.go`.
//! Differs: files and directories are synced (upstream: left to the system). The other name is `NAME.keyfob.tmp` (upstream:
//! `NAME.tmp`), so that a kubelet beside us never renames a half-written file of ours. A file is at most 1 MiB, and a regular
//! one: symbolic links below the root directory are not followed.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use keyfob_api::Secret;
use keyfob_exec::Directory;
use sha2::{Digest as _, Sha256};

use super::{RecordsError, store::RecordMark};

/// Where a kubelet keeps intents and records, in its root directory.
const IMAGE_MANAGER: &str = "image_manager";
const PREFIX: &str = "sha256-";
/// A kubelet passes over what ends so.
const UNFINISHED: &str = ".tmp";
const OURS_UNFINISHED: &str = ".keyfob.tmp";
/// More than thousands of credentials need.
const LARGEST: u64 = 1 << 20;
/// So often a file is read again that is replaced while it is read.
const ATTEMPTS: usize = 16;

/// `image_manager` in a kubelet's root directory. It is opened anew each time: somebody may have removed it since.
#[derive(Clone, Debug)]
pub(super) struct ManagerFolder {
    root: PathBuf,
}

impl ManagerFolder {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.root.join(IMAGE_MANAGER)
    }

    pub(super) fn open(&self) -> io::Result<Directory> {
        Directory::open(&self.root)?.subdirectory(IMAGE_MANAGER)
    }

    /// Makes what is missing of it.
    pub(super) fn make(&self) -> Result<Directory, RecordsError> {
        let made = Directory::create(&self.root);
        let made = made.and_then(|root| root.create_subdirectory(IMAGE_MANAGER));
        made.map_err(RecordsError::io("make", self.path()))
    }
}

/// A directory of such files.
#[derive(Debug)]
pub(super) struct Folder {
    manager: ManagerFolder,
    name: &'static str,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) path: PathBuf,
    pub(super) bytes: Secret<Vec<u8>>,
    pub(super) mark: RecordMark,
}

impl Folder {
    pub(super) fn new(manager: &ManagerFolder, name: &'static str) -> Self {
        Self { manager: manager.clone(), name }
    }

    /// Makes it, and whatever it stands in.
    pub(super) fn make(&self) -> Result<Directory, RecordsError> {
        let made = self.manager.make()?.create_subdirectory(self.name);
        made.map_err(RecordsError::io("make", self.path()))
    }

    /// The file about something.
    pub(super) fn path_of(&self, subject: &str) -> PathBuf {
        self.path().join(name_of(subject))
    }

    pub(super) fn read(&self, subject: &str) -> Result<Option<Contents>, RecordsError> {
        match self.open_directory()? {
            Some(directory) => read(&directory, &name_of(subject)),
            None => Ok(None),
        }
    }

    /// Every file that can be read, in the order of their names; errors for the others.
    pub(super) fn read_all(&self) -> Vec<Result<Contents, RecordsError>> {
        match self.files() {
            Ok(Some((directory, names))) => {
                names.iter().filter_map(|name| read(&directory, name).transpose()).collect()
            }
            Ok(None) => Vec::new(),
            Err(error) => vec![Err(error)],
        }
    }

    /// How many files there are.
    #[cfg(feature = "metrics")]
    pub(super) fn count(&self) -> usize {
        self.files().ok().flatten().map_or(0, |(_, names)| names.len())
    }

    /// What a file's mark is now.
    pub(super) fn mark(&self, subject: &str) -> RecordMark {
        let metadata = match self.open_directory() {
            Ok(Some(directory)) => directory.metadata(&name_of(subject)),
            Ok(None) => Ok(None),
            Err(_) => return RecordMark::UNKNOWN,
        };
        match metadata {
            Ok(Some(metadata)) => RecordMark::of(&metadata),
            Ok(None) => RecordMark::default(),
            Err(_) => RecordMark::UNKNOWN,
        }
    }

    /// Opens a file to lock it.
    pub(super) fn open(&self, subject: &str) -> Result<Option<File>, RecordsError> {
        let Some(directory) = self.open_directory()? else { return Ok(None) };
        match directory.open_file(&name_of(subject)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RecordsError::io("open", self.path_of(subject))(error)),
        }
    }

    /// Whether an open file is still the one about something.
    pub(super) fn has(&self, subject: &str, file: &File) -> bool {
        let directory = self.open_directory().ok().flatten();
        directory.is_some_and(|directory| directory.has(&name_of(subject), file))
    }

    /// Puts a file in the place of the one there is. `prepare` sees it before anybody else does.
    pub(super) fn write(
        &self,
        subject: &str,
        text: &str,
        prepare: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<File, RecordsError> {
        let directory = self.make()?;
        let name = name_of(subject);
        let unfinished = format!("{name}{OURS_UNFINISHED}");
        let written = write_new(&directory, &unfinished, text).and_then(|file| {
            prepare(&file)?;
            directory.rename(&unfinished, &directory, &name)?;
            directory.sync()?;
            Ok(file)
        });
        written.map_err(|error| {
            // Whoever writes it next clears it away too.
            drop(directory.remove(&unfinished));
            RecordsError::io("write", self.path_of(subject))(error)
        })
    }

    pub(super) fn remove(&self, subject: &str) -> Result<(), RecordsError> {
        match self.open_directory()? {
            Some(directory) => remove(&directory, &name_of(subject)),
            None => Ok(()),
        }
    }

    /// Clears away what an earlier process did not finish. Nobody may be writing.
    pub(super) fn sweep(&self) -> Result<(), RecordsError> {
        let Some((directory, names)) = self.entries(|name| name.ends_with(OURS_UNFINISHED))? else {
            return Ok(());
        };
        names.iter().try_for_each(|name| remove(&directory, name))
    }

    fn path(&self) -> PathBuf {
        self.manager.path().join(self.name)
    }

    /// Nothing if it is missing.
    fn open_directory(&self) -> Result<Option<Directory>, RecordsError> {
        match self.manager.open().and_then(|manager| manager.subdirectory(self.name)) {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RecordsError::List { path: self.path(), source }),
        }
    }

    fn files(&self) -> Result<Option<(Directory, Vec<String>)>, RecordsError> {
        self.entries(|name| !name.ends_with(UNFINISHED))
    }

    /// The regular files whose names are wanted, sorted.
    fn entries(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Option<(Directory, Vec<String>)>, RecordsError> {
        let Some(directory) = self.open_directory()? else { return Ok(None) };
        let unreadable = |source| RecordsError::List { path: self.path(), source };
        let mut names = directory.names().map_err(unreadable)?;
        names.retain(|name| {
            // One that is gone by now has no type.
            let is_file =
                || directory.metadata(name).is_ok_and(|it| it.is_some_and(|it| it.is_file()));
            name.starts_with(PREFIX) && wanted(name) && is_file()
        });
        Ok(Some((directory, names)))
    }
}

fn name_of(subject: &str) -> String {
    format!("{PREFIX}{}", hex::encode(Sha256::digest(subject)))
}

/// Reads a file as it was at one time.
fn read(directory: &Directory, name: &str) -> Result<Option<Contents>, RecordsError> {
    let path = directory.path().join(name);
    let mark = || match directory.metadata(name) {
        Ok(found) => Ok(found.map(|metadata| RecordMark::of(&metadata))),
        Err(error) => Err(RecordsError::io("read", &path)(error)),
    };
    for _ in 0..ATTEMPTS {
        let Some(before) = mark()? else { return Ok(None) };
        let bytes = match directory.read(name, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(RecordsError::io("read", path)(error)),
        };
        if mark()? == Some(before) {
            return Ok(Some(Contents { path, bytes, mark: before }));
        }
    }
    let error = io::Error::new(io::ErrorKind::ResourceBusy, "it is replaced again and again");
    Err(RecordsError::io("read", path)(error))
}

fn write_new(directory: &Directory, name: &str, text: &str) -> io::Result<File> {
    // Of a process that was killed.
    directory.remove(name)?;
    let mut file = directory.create_file(name)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(file)
}

fn remove(directory: &Directory, name: &str) -> Result<(), RecordsError> {
    directory.remove(name).map_err(RecordsError::io("delete", directory.path().join(name)))
}
