//! One writer at a time, in all processes that share a directory.
//!
//! The lock is the system's own, on a file that a kubelet passes over: who dies has let go of it. The file also tells when a pull
//! last ended that changed no record: see [`WriteLock::note_pull`].

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    RecordsError,
    folder::{is_at, make_directory},
};

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
    pub(super) fn of(directory: &Path) -> Result<Self, RecordsError> {
        let path = directory.join(NAME);
        let refused = || RecordsError::io("lock", path.clone());
        for _ in 0..ATTEMPTS {
            make_directory(directory)?;
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let file = options.open(&path).map_err(refused())?;
            wait_for(&file).map_err(refused())?;
            // Otherwise it is the lock of nobody: somebody deleted it.
            if is_at(&path, &file) {
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

fn wait_for(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
