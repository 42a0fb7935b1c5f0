//! A directory of small files, each named by the hash of what it is about.
//!
//! A file is whole or not there: it is written under another name, and renamed. Both are made durable before anybody goes on.
//!
//! Upstream: `fs_pullrecords.go`.
//! Differs: files and directories are synced (upstream: left to the system). The other name is `NAME.keyfob.tmp` (upstream:
//! `NAME.tmp`), so that a kubelet beside us never renames a half-written file of ours. A file is at most 1 MiB, and a regular
//! one: links are passed over.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use keyfob_api::Secret;
use keyfob_exec::read_bounded;
use sha2::{Digest as _, Sha256};

use super::{RecordsError, store::RecordMark};
use crate::hexadecimal::hexadecimal;

const PREFIX: &str = "sha256-";
/// A kubelet passes over what ends so.
const UNFINISHED: &str = ".tmp";
const OURS_UNFINISHED: &str = ".keyfob.tmp";
/// More than thousands of credentials need.
const LARGEST: u64 = 1 << 20;
/// So often a file is read again that is replaced while it is read.
const ATTEMPTS: usize = 16;

/// A directory of such files.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// A file that was read.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) path: PathBuf,
    pub(super) bytes: Secret<Vec<u8>>,
    pub(super) mark: RecordMark,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Makes it, and whatever it stands in.
    pub(super) fn make(&self) -> Result<(), RecordsError> {
        make_directory(&self.0)
    }

    /// The file about something.
    pub(super) fn path_of(&self, subject: &str) -> PathBuf {
        self.0.join(format!("{PREFIX}{}", hexadecimal(&Sha256::digest(subject))))
    }

    pub(super) fn read(&self, subject: &str) -> Result<Option<Contents>, RecordsError> {
        read(self.path_of(subject))
    }

    /// Every file that can be read, in the order of their names; errors for the others.
    pub(super) fn read_all(&self) -> Vec<Result<Contents, RecordsError>> {
        match self.paths() {
            Ok(paths) => paths.into_iter().filter_map(|path| read(path).transpose()).collect(),
            Err(error) => vec![Err(error)],
        }
    }

    /// How many files there are.
    pub(super) fn count(&self) -> usize {
        self.paths().map_or(0, |paths| paths.len())
    }

    /// What a file's mark is now.
    pub(super) fn mark(&self, subject: &str) -> RecordMark {
        match fs::symlink_metadata(self.path_of(subject)) {
            Ok(metadata) => RecordMark::of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => RecordMark::default(),
            Err(_) => RecordMark::UNKNOWN,
        }
    }

    /// Opens a file to lock it.
    pub(super) fn open(&self, subject: &str) -> Result<Option<File>, RecordsError> {
        let path = self.path_of(subject);
        if look(&path)?.is_none() {
            return Ok(None);
        }
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RecordsError::io("open", path)(error)),
        }
    }

    /// Whether an open file is still the one about something.
    pub(super) fn has(&self, subject: &str, file: &File) -> bool {
        is_at(&self.path_of(subject), file)
    }

    /// Puts a file in the place of the one there is. `prepare` sees it before anybody else does.
    pub(super) fn write(
        &self,
        subject: &str,
        text: &str,
        prepare: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<File, RecordsError> {
        self.make()?;
        let path = self.path_of(subject);
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(OURS_UNFINISHED);
        let written = write_new(Path::new(&unfinished), text).and_then(|file| {
            prepare(&file)?;
            fs::rename(&unfinished, &path)?;
            File::open(&self.0)?.sync_all()?;
            Ok(file)
        });
        written.map_err(|error| {
            // Whoever writes it next clears it away too.
            drop(fs::remove_file(&unfinished));
            RecordsError::io("write", path)(error)
        })
    }

    pub(super) fn remove(&self, subject: &str) -> Result<(), RecordsError> {
        remove(&self.path_of(subject))
    }

    /// Clears away what an earlier process did not finish. Nobody may be writing.
    pub(super) fn sweep(&self) -> Result<(), RecordsError> {
        for path in self.entries(|name| name.ends_with(OURS_UNFINISHED))? {
            remove(&path)?;
        }
        Ok(())
    }

    fn paths(&self) -> Result<Vec<PathBuf>, RecordsError> {
        self.entries(|name| !name.ends_with(UNFINISHED))
    }

    fn entries(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, RecordsError> {
        let unreadable = |source| RecordsError::List { path: self.0.clone(), source };
        let mut paths = Vec::new();
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(paths),
            entries => entries.map_err(unreadable)?,
        };
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let is_wanted =
                name.to_str().is_some_and(|name| name.starts_with(PREFIX) && wanted(name));
            // One that is gone by now has no type.
            if is_wanted && entry.file_type().is_ok_and(|file_type| file_type.is_file()) {
                paths.push(entry.path());
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// Makes a directory that is for its owner only, and whatever it stands in.
pub(super) fn make_directory(path: &Path) -> Result<(), RecordsError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(RecordsError::io("make", path))
}

/// Whether an open file is what a path leads to.
pub(super) fn is_at(path: &Path, file: &File) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(there), Ok(here)) => identity(there) == identity(here),
        _ => false,
    }
}

/// Reads a file as it was at one time.
fn read(path: PathBuf) -> Result<Option<Contents>, RecordsError> {
    for _ in 0..ATTEMPTS {
        let Some(mark) = look(&path)? else { return Ok(None) };
        let bytes = match read_bounded(&path, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(RecordsError::io("read", path)(error)),
        };
        if look(&path)? == Some(mark) {
            return Ok(Some(Contents { path, bytes, mark }));
        }
    }
    let error = io::Error::new(io::ErrorKind::ResourceBusy, "it is replaced again and again");
    Err(RecordsError::io("read", path)(error))
}

fn look(path: &Path) -> Result<Option<RecordMark>, RecordsError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(RecordMark::of(&metadata))),
        Ok(_) => {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
            Err(RecordsError::io("read", path)(error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RecordsError::io("read", path)(error)),
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<File> {
    // Of a process that was killed.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(file)
}

fn remove(path: &Path) -> Result<(), RecordsError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(RecordsError::io("delete", path)(error))
        }
        _ => Ok(()),
    }
}
