//! One writer at a time, in all processes that share a directory.
//!
//! The lock is the system's own, on a file that a kubelet passes over: who dies has let go of it. The file also tells when a pull
//! last ended that changed no record: see [`WriteLock::note_pull`].

use std::{
    fs::{File, TryLockError},
    io::{self, Write as _},
    path::PathBuf,
    time::SystemTime,
};

use super::{RecordsError, folder::ManagerFolder};

const NAME: &str = "keyfob.lock";
/// So often the file may be deleted while it is waited for.
const ATTEMPTS: usize = 16;

/// Nobody else writes while this lives.
#[derive(Debug)]
pub(super) struct WriteLock {
    file: File,
    path: PathBuf,
}

impl WriteLock {
    /// Waits for whoever has it.
    pub(super) fn of(manager: &ManagerFolder) -> Result<Self, RecordsError> {
        let path = manager.path().join(NAME);
        let refused = || RecordsError::io("lock", path.clone());
        for _ in 0..ATTEMPTS {
            let directory = manager.make()?;
            let file = directory.open_or_create(NAME).map_err(refused())?;
            wait_for(&file).map_err(refused())?;
            // If the file was deleted while we waited, this lock protects nothing.
            if directory.has(NAME, &file) {
                return Ok(Self { file, path });
            }
        }
        let error = io::Error::new(io::ErrorKind::ResourceBusy, "it is deleted again and again");
        Err(refused()(error))
    }

    /// Remembers when a pull ended that left its record as it was. The record's own time does not tell, as upstream has it.
    pub(super) fn note_pull(&self, now: SystemTime) -> Result<(), RecordsError> {
        // A byte says that the file's time means something.
        let is_new = self.last_pull().is_none();
        let written = if is_new { (&self.file).write_all(b"\n") } else { Ok(()) };
        let noted = written.and_then(|()| self.file.set_modified(now));
        noted.map_err(RecordsError::io("write", &self.path))
    }

    /// When such a pull last ended.
    pub(super) fn last_pull(&self) -> Option<SystemTime> {
        let metadata = self.file.metadata().ok()?;
        if metadata.len() == 0 { None } else { metadata.modified().ok() }
    }
}

/// Nobody writes while this lives. It needs no more than the right to read the lock's file, and changes nothing.
#[derive(Debug)]
pub(super) struct ReadLock {
    /// Without a file nobody of us has ever written.
    _file: Option<File>,
}

impl ReadLock {
    /// The lock; nothing if somebody writes.
    pub(super) fn try_of(manager: &ManagerFolder) -> io::Result<Option<Self>> {
        let file = match manager.open().and_then(|directory| directory.open_file(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Self { _file: None }));
            }
            file => file?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn wait_for(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
