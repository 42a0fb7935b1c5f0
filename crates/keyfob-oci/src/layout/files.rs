//! The files of a layout. All of them are reached through its directory, and no link is followed below it.

use std::{
    fs::{File, TryLockError},
    io::{self, Write as _},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use keyfob_exec::Directory;
use tokio::task;

use super::{Layout, LayoutError};
use crate::Digest;

/// Where nobody else looks. Inside `blobs`, other tools would take a blob in the making for garbage.
pub(super) const OURS: &str = ".keyfob";

const BLOBS: &str = "blobs";

/// Whoever has the lock of this file changes the index.
const LOCK: &str = "lock";

/// How files are named until they are whole.
const UNFINISHED: &str = "new-";

/// How often to retry a lock. A blocking lock call could not be cancelled.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long what has come of a blob is kept after its last byte.
const STALE: Duration = Duration::from_hours(24);

impl Layout {
    /// Runs blocking work on another thread.
    pub(crate) async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, LayoutError> {
        let failed = |_| LayoutError::Thread { path: self.path().to_owned() };
        task::spawn_blocking(work).await.map_err(failed)
    }

    /// Our own directory, which is made if it is missing.
    pub(super) fn ours(&self) -> Result<Directory, LayoutError> {
        let made = self.root.create_subdirectory(OURS);
        made.map_err(LayoutError::io("make the directory", &self.path().join(OURS)))
    }

    /// The directory of the blobs whose names have this digest's algorithm.
    pub(super) fn blobs(&self, digest: &Digest) -> io::Result<Directory> {
        self.root.subdirectory(BLOBS)?.subdirectory(digest.algorithm())
    }

    /// The same, which is made if it is missing.
    pub(super) fn make_blobs(&self, digest: &Digest) -> Result<Directory, LayoutError> {
        let blobs = self.root.create_subdirectory(BLOBS);
        let made = blobs.and_then(|blobs| blobs.create_subdirectory(digest.algorithm()));
        let path = self.path().join(BLOBS).join(digest.algorithm());
        made.map_err(LayoutError::io("make the directory", &path))
    }

    /// A blob, to read it.
    pub(super) fn open_blob(&self, digest: &Digest) -> io::Result<File> {
        self.blobs(digest)?.open_file(digest.hex())
    }

    /// Whether there is anything under the name of a blob.
    pub(crate) fn has_any(&self, digest: &Digest) -> bool {
        let found = self.blobs(digest).and_then(|blobs| blobs.metadata(digest.hex()));
        found.is_ok_and(|found| found.is_some())
    }

    /// Where the content of this name is, or would be.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.path().join(BLOBS).join(digest.algorithm()).join(digest.hex())
    }

    /// Nobody else changes the index while the answer lives.
    pub(super) async fn lock(&self) -> Result<File, LayoutError> {
        loop {
            let layout = self.clone();
            let try_lock = move || {
                let ours = layout.ours()?;
                locked(&ours, LOCK).map_err(LayoutError::io("lock", &ours.path().join(LOCK)))
            };
            if let Some(lock) = self.off_thread(try_lock).await?? {
                return Ok(lock);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Writes a small file in one step, in the place of the one there is.
    pub(super) fn replace(
        &self,
        directory: &Directory,
        name: &str,
        content: &[u8],
    ) -> Result<(), LayoutError> {
        self.write(directory, name, content, Directory::rename)
    }

    /// Writes a small file in one step, unless there is one.
    pub(super) fn create_file(
        &self,
        directory: &Directory,
        name: &str,
        content: &[u8],
    ) -> Result<(), LayoutError> {
        self.write(directory, name, content, |ours, new, directory, name| {
            match ours.rename_new(new, directory, name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ours.remove(new),
                outcome => outcome,
            }
        })
    }

    fn write(
        &self,
        directory: &Directory,
        name: &str,
        content: &[u8],
        give_name: impl FnOnce(&Directory, &str, &Directory, &str) -> io::Result<()>,
    ) -> Result<(), LayoutError> {
        let ours = self.ours()?;
        let written = || {
            let (new, mut file) = ours.create_unique(UNFINISHED)?;
            let written = file.write_all(content).and_then(|()| file.sync_data());
            let named = written.and_then(|()| give_name(&ours, &new, directory, name));
            if named.is_err() {
                ours.remove(&new).unwrap_or_default();
            }
            named
        };
        written().map_err(LayoutError::io("write", &directory.path().join(name)))
    }

    /// Removes what has come of blobs that nobody went on with for a day, and what killed processes left.
    pub(crate) async fn remove_stale(&self, now: SystemTime) -> Result<(), LayoutError> {
        let layout = self.clone();
        let remove = move || {
            let ours = layout.ours()?;
            let removed = stale(&ours, now)
                .and_then(|names| names.iter().try_for_each(|name| ours.remove(name)));
            removed.map_err(LayoutError::io("clean up", ours.path()))
        };
        self.off_thread(remove).await?
    }
}

/// The files that nobody holds and nobody wrote to for a while. Files of other names are not ours to judge.
fn stale(ours: &Directory, now: SystemTime) -> io::Result<Vec<String>> {
    let mut names = ours.names()?;
    names.retain(|name| {
        let is_unfinished =
            ["sha256-", "sha512-", UNFINISHED].iter().any(|it| name.starts_with(it));
        // One that cannot be opened is not a regular file, and none of ours.
        is_unfinished && ours.open_file(name).is_ok_and(|file| is_stale(&file, now))
    });
    Ok(names)
}

/// Somebody who takes hold of it in this moment finds out that it is gone, and makes a new one.
fn is_stale(file: &File, now: SystemTime) -> bool {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
    age.is_some_and(|age| age > STALE) && file.try_lock().is_ok()
}

/// The file of this name, locked, and made if it is missing; nothing if somebody else has the lock.
pub(super) fn locked(directory: &Directory, name: &str) -> io::Result<Option<File>> {
    let file = directory.open_or_create(name)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Whoever held it may have given it another name since it was opened: then this is no longer the file of this one.
    Ok(directory.has(name, &file).then_some(file))
}
