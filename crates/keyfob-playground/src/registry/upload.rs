//! A blob that is not complete yet.

use std::{fmt, fs, io, path::PathBuf};

use tokio::{
    fs::File,
    io::{AsyncWriteExt as _, BufWriter},
};

use super::{
    digest::{Digest, Summing},
    limits::Limits,
    name::Repository,
    storage::{Blob, NotKept, Storage},
};

/// So much is collected before it goes to a file.
const BUFFER: usize = 256 << 10;

/// What has come of a blob so far. What is dropped before its end is as if it had never been.
pub(super) struct Upload {
    storage: Storage,
    sum: Summing,
    size: u64,
    draft: Draft,
}

enum Draft {
    Memory(Vec<u8>),
    File { file: BufWriter<File>, path: PathBuf },
}

impl Upload {
    /// Nothing yet. The id is a name that no other upload has.
    pub(super) async fn begin(storage: &Storage, id: &str) -> Result<Self, NotKept> {
        let draft = match storage.path(&format!("upload-{id}")) {
            None => Draft::Memory(Vec::new()),
            Some(path) => {
                let file = File::options().write(true).create_new(true).open(&path).await?;
                Draft::File { file: BufWriter::with_capacity(BUFFER, file), path }
            }
        };
        Ok(Self { storage: storage.clone(), sum: Summing::default(), size: 0, draft })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// One more piece. After a failure the upload is of no use.
    pub(super) async fn write(&mut self, piece: &[u8], limits: &Limits) -> Result<(), NotKept> {
        let size = self.size + piece.len() as u64;
        if size > limits.blob {
            return Err(NotKept::TooLarge(limits.blob));
        }
        self.storage.reserve(piece.len(), limits.stored)?;
        self.size = size;
        self.sum.add(piece);
        match &mut self.draft {
            Draft::Memory(bytes) => bytes.extend_from_slice(piece),
            Draft::File { file, .. } => file.write_all(piece).await?,
        }
        Ok(())
    }

    /// Makes it a blob of a repository, if it is the one that it is said to be.
    pub(super) async fn keep(
        mut self,
        repository: &Repository,
        said: Digest,
    ) -> Result<(), NotKept> {
        let digest = self.sum.digest();
        if digest != said {
            return Err(NotKept::Digest(digest.to_string()));
        }
        let blob = self.finished(&digest).await?;
        if self.storage.add_blob(repository, digest, blob) {
            // The room that was set aside is the blob's now.
            self.size = 0;
        }
        Ok(())
    }

    async fn finished(&mut self, digest: &Digest) -> io::Result<Blob> {
        match &mut self.draft {
            Draft::Memory(bytes) => Ok(Blob::Memory(std::mem::take(bytes).into())),
            Draft::File { file, path } => {
                file.flush().await?;
                let kept = path.with_file_name(digest.to_string().replace(':', "-"));
                tokio::fs::rename(path, &kept).await?;
                Ok(Blob::File { path: kept, size: self.size })
            }
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.storage.release(self.size);
        if let Draft::File { path, .. } = &self.draft {
            // It is not there any more if it has become a blob.
            fs::remove_file(path).unwrap_or_default();
        }
    }
}

/// How much, not what.
impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({} bytes)", self.size)
    }
}
