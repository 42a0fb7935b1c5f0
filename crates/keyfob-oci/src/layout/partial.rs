//! What has come of a blob so far.
//!
//! It is a file with the blob's digest and its registry for a name, held under a lock for as long as somebody writes it: the
//! lock ends with the process, and the next one goes on where it was. Each registry has its own, so that none can complete,
//! spoil or hold up what another sends.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{sync::mpsc::Receiver, task};

use super::{Layout, LayoutError, make_parent};
use crate::{Blob, Digest, digest::Hasher};

/// How often to look whether another process is done with a blob. A lock that is waited for cannot be given up.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A blob in the making, which nobody else writes.
#[derive(Debug)]
pub(crate) struct Partial {
    layout: Layout,
    digest: Digest,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    length: u64,
    is_mixed: bool,
    is_inherited: bool,
}

/// What comes of trying to keep a blob.
pub(crate) enum Kept {
    /// It is here, whole.
    Here,
    /// Its content is that of another digest.
    Wrong(Partial, Digest),
}

impl Partial {
    /// Holds what a registry sends of a blob, as soon as nobody else does.
    pub(super) async fn hold(
        layout: &Layout,
        blob: &Blob,
        registry: &str,
    ) -> Result<Self, LayoutError> {
        let registry = Digest::sha256(registry.as_bytes());
        let registry = registry.hex().get(..16).unwrap_or_default();
        let name = format!("{}-{}-{registry}", blob.digest.algorithm(), blob.digest.hex());
        loop {
            let (its_layout, its_blob, its_name) = (layout.clone(), blob.clone(), name.clone());
            let try_hold = move || Self::try_hold(its_layout, &its_blob, &its_name);
            match layout.off_thread(try_hold).await?? {
                Some(partial) => return Ok(partial),
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Nothing, if another process or another pull of this one writes it.
    fn try_hold(layout: Layout, blob: &Blob, name: &str) -> Result<Option<Self>, LayoutError> {
        let digest = blob.digest.clone();
        let path = layout.ours(name)?;
        let Some(file) = locked(&path).map_err(LayoutError::io("lock", &path))? else {
            return Ok(None);
        };
        let hasher = digest.hasher();
        let (length, is_mixed, is_inherited) = (0, false, false);
        let mut partial =
            Self { layout, digest, path, file, hasher, length, is_mixed, is_inherited };
        partial.take_stock(blob.size).map_err(LayoutError::io("read", &partial.path))?;
        Ok(Some(partial))
    }

    /// Hashes what is there, to go on behind it.
    fn take_stock(&mut self, size: u64) -> io::Result<()> {
        if self.file.metadata()?.len() > size {
            return self.start_over();
        }
        let mut buffer = vec![0; 256 << 10];
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.add(buffer.get(..count).unwrap_or_default());
            (self.is_mixed, self.is_inherited) = (true, true);
        }
    }

    /// How much of it is here.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether it is made up of several answers, of which one may have been about something else.
    pub(crate) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Whether some of it was here when it was taken hold of.
    pub(crate) fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Writes all pieces that come, on a thread for that: hashing takes its time.
    pub(crate) async fn write<P: AsRef<[u8]> + Send + 'static>(
        mut self,
        from: u64,
        mut pieces: Receiver<P>,
    ) -> Result<Self, LayoutError> {
        let layout = self.layout.clone();
        let write = move || {
            let mut written = || {
                if from < self.length {
                    self.start_over()?;
                }
                self.is_mixed = from > 0;
                while let Some(piece) = pieces.blocking_recv() {
                    self.file.write_all(piece.as_ref())?;
                    self.add(piece.as_ref());
                }
                Ok(())
            };
            let outcome = written();
            outcome.map_err(LayoutError::io("write", &self.path)).map(|()| self)
        };
        layout.off_thread(write).await?
    }

    /// Gives it its name, if it is what that says; else it is empty again.
    pub(crate) async fn keep(mut self) -> Result<Kept, LayoutError> {
        let layout = self.layout.clone();
        let keep = move || {
            let found = self.hasher.digest();
            if found != self.digest {
                self.start_over().map_err(LayoutError::io("write", &self.path))?;
                return Ok(Kept::Wrong(self, found));
            }
            let path = self.layout.blob_path(&self.digest);
            make_parent(&path)?;
            let renamed = self.file.sync_data().and_then(|()| fs::rename(&self.path, &path));
            renamed.map_err(LayoutError::io("write", &path))?;
            Ok(Kept::Here)
        };
        layout.off_thread(keep).await?
    }

    /// Leaves nothing of it. If that cannot be done, the next who holds it will see to it.
    pub(crate) fn discard(self) {
        fs::remove_file(&self.path).unwrap_or_default();
    }

    fn start_over(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        (self.hasher, self.length) = (self.digest.hasher(), 0);
        (self.is_mixed, self.is_inherited) = (false, false);
        Ok(())
    }

    fn add(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
        self.length += piece.len() as u64;
    }
}

impl Layout {
    /// Does something that may take its time, beside what else goes on.
    pub(crate) async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, LayoutError> {
        let failed = |_| LayoutError::Thread { path: self.path().to_owned() };
        task::spawn_blocking(work).await.map_err(failed)
    }
}

/// The file of this name, ours alone; nothing if it is somebody else's.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Whoever held it may have given it its final name since it was opened: then this is no longer the file of this one.
    let (held, named) = (file.metadata()?, fs::metadata(path));
    let is_same = named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()));
    Ok(is_same.then_some(file))
}
