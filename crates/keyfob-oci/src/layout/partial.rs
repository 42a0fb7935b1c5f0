//! What has come of a blob so far.
//!
//! It is a file with the blob's digest and its registry for a name, held under a lock for as long as somebody writes it: the
//! lock ends with the process, and the next one goes on where it was. Each registry has its own, so that none can complete,
//! spoil or hold up what another sends.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    path::PathBuf,
};

use keyfob_exec::Directory;
use tokio::sync::mpsc::Receiver;

use super::{
    Layout, LayoutError,
    files::{LOOK_AGAIN, locked},
};
use crate::{Blob, Digest, digest::Hasher};

/// How many times to check another pull's download that makes no progress before giving up on it: ten seconds.
const LOOKS: u32 = 200;

/// Receiving this many bytes counts as progress and resets the count.
const PROGRESS: u64 = 256 << 10;

/// A blob in the making, which nobody else writes.
#[derive(Debug)]
pub(crate) struct Partial {
    layout: Layout,
    digest: Digest,
    folder: Directory,
    name: String,
    /// Whether nobody else will ever go on with it.
    is_private: bool,
    file: File,
    hasher: Hasher,
    length: u64,
    is_mixed: bool,
    is_inherited: bool,
}

/// Somebody else writes it.
#[derive(Debug)]
struct Theirs {
    /// How much of it is there.
    length: u64,
}

/// Waits for somebody else's download while it goes on.
#[derive(Debug, Default)]
struct Patience {
    length: u64,
    looks: u32,
}

impl Patience {
    /// Whether to wait until the next look.
    fn lasts(&mut self, length: u64) -> bool {
        if length >= self.length + PROGRESS {
            *self = Self { length, looks: 0 };
        }
        self.looks += 1;
        self.looks <= LOOKS
    }
}

/// What comes of trying to keep a blob.
pub(crate) enum Kept {
    /// It is here, whole.
    Here,
    /// Its content is that of another digest.
    Wrong(Box<Partial>, Digest),
}

impl Partial {
    /// Locks the partial download of a blob from a registry. If another pull holds it and makes no progress, starts a private
    /// copy beside it.
    pub(super) async fn hold(
        layout: &Layout,
        blob: &Blob,
        registry: &str,
    ) -> Result<Self, LayoutError> {
        let registry = Digest::sha256(registry.as_bytes());
        let registry = registry.hex().get(..16).unwrap_or_default();
        let name = format!("{}-{}-{registry}", blob.digest.algorithm(), blob.digest.hex());
        let mut patience = Patience::default();
        loop {
            let (its_layout, its_blob, its_name) = (layout.clone(), blob.clone(), name.clone());
            let length = match layout
                .off_thread(move || Self::try_hold(its_layout, &its_blob, its_name))
                .await??
            {
                Ok(partial) => return Ok(partial),
                Err(Theirs { length }) => length,
            };
            if !patience.lasts(length) {
                tracing::debug!(digest = %blob.digest, "another download of a blob hardly goes on; it is not waited for");
                let (its_layout, its_blob) = (layout.clone(), blob.clone());
                return layout
                    .off_thread(move || Self::private(its_layout, &its_blob, &name))
                    .await?;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn try_hold(
        layout: Layout,
        blob: &Blob,
        name: String,
    ) -> Result<Result<Self, Theirs>, LayoutError> {
        let folder = layout.ours()?;
        let path = folder.path().join(&name);
        let Some(file) = locked(&folder, &name).map_err(LayoutError::io("lock", &path))? else {
            // It may be complete by now, and have another name.
            let length = folder.metadata(&name).map_err(LayoutError::io("look at", &path))?;
            return Ok(Err(Theirs { length: length.map_or(0, |found| found.len()) }));
        };
        let mut partial = Self::new(layout, blob, folder, name, file);
        partial.take_stock(blob.size).map_err(LayoutError::io("read", &path))?;
        Ok(Ok(partial))
    }

    /// One that is begun anew, under a name that nobody else knows.
    fn private(layout: Layout, blob: &Blob, name: &str) -> Result<Self, LayoutError> {
        let folder = layout.ours()?;
        let created = folder.create_unique(&format!("{name}-")).and_then(|(name, file)| {
            file.try_lock()?;
            Ok((name, file))
        });
        let (name, file) = created.map_err(LayoutError::io("write in", folder.path()))?;
        let mut partial = Self::new(layout, blob, folder, name, file);
        partial.is_private = true;
        Ok(partial)
    }

    fn new(layout: Layout, blob: &Blob, folder: Directory, name: String, file: File) -> Self {
        let (digest, hasher) = (blob.digest.clone(), blob.digest.hasher());
        let (is_private, length, is_mixed, is_inherited) = (false, 0, false, false);
        Self {
            layout,
            digest,
            folder,
            name,
            is_private,
            file,
            hasher,
            length,
            is_mixed,
            is_inherited,
        }
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

    /// Whether it was assembled from several responses, one of which may have been wrong.
    pub(crate) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Whether some of it was here when it was taken hold of.
    pub(crate) fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Whether what is here of it is what its name says.
    pub(crate) fn is_right(&self) -> bool {
        self.hasher.digest() == self.digest
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
            outcome.map_err(LayoutError::io("write", &self.path())).map(|()| self)
        };
        layout.off_thread(write).await?
    }

    /// Gives it its name, if it is what that says; else it is empty again.
    pub(crate) async fn keep(mut self) -> Result<Kept, LayoutError> {
        let layout = self.layout.clone();
        let keep = move || {
            let found = self.hasher.digest();
            if found != self.digest {
                let path = self.path();
                self.start_over().map_err(LayoutError::io("write", &path))?;
                return Ok(Kept::Wrong(self.into(), found));
            }
            let blobs = self.layout.make_blobs(&self.digest)?;
            let rename = || self.folder.rename(&self.name, &blobs, self.digest.hex());
            let renamed = self.file.sync_data().and_then(|()| rename());
            renamed.map_err(LayoutError::io("write", &self.layout.blob_path(&self.digest)))?;
            Ok(Kept::Here)
        };
        layout.off_thread(keep).await?
    }

    /// Leaves nothing of it. If that cannot be done, the next who holds it will see to it.
    pub(crate) fn discard(self) {
        self.folder.remove(&self.name).unwrap_or_default();
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
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

impl Drop for Partial {
    fn drop(&mut self) {
        if self.is_private {
            // What is not removed now is removed when it is stale.
            self.folder.remove(&self.name).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlobKind;

    fn blob() -> Blob {
        Blob { digest: Digest::sha256(b"content"), size: 7, kind: BlobKind::Layer }
    }

    fn names(layout: &Layout) -> Vec<String> {
        let mut names = layout.ours().unwrap().names().unwrap();
        names.retain(|name| name.starts_with("sha256-"));
        names
    }

    #[test]
    fn a_download_is_waited_for_while_it_goes_on() {
        let looks = |lengths: &mut dyn Iterator<Item = u64>| {
            let mut patience = Patience::default();
            lengths.take_while(|length| patience.lasts(*length)).count()
        };
        let most = LOOKS as usize;
        assert_eq!(looks(&mut std::iter::repeat(0)), most);
        assert_eq!(looks(&mut (0..100_000)), most, "a byte for each look is no progress");
        assert_eq!(looks(&mut (0..10 * LOOKS).map(|look| u64::from(look) * 10_000)), 10 * most);
        let falls_back = (0..).map(|look| if look % 2 == 0 { 0 } else { PROGRESS });
        assert!(looks(&mut falls_back.into_iter()) <= most + 2, "nor is the same again and again");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_holds_a_blob_and_sends_nothing_holds_up_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(directory.path().join("oci")).unwrap();
        let held = layout.partial(&blob(), "https://r.example").await.unwrap();

        let elsewhere = layout.partial(&blob(), "https://other.example").await.unwrap();
        let beside = layout.partial(&blob(), "https://r.example").await.unwrap();

        assert!(!held.is_private && !elsewhere.is_private && beside.is_private);
        assert_eq!(names(&layout).len(), 3);
        drop(beside);
        assert_eq!(names(&layout).len(), 2, "nobody would go on with it");
    }
}
