//! What is kept: blobs, and which repository has which.
//!
//! A blob is kept once, and seen only through the repositories that it was pushed or mounted to: else whoever may pull from
//! one could have the layers of all. Manifests and tags are always in memory.

mod blob;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Bytes;
use thiserror::Error;

pub(super) use self::blob::{Blob, Reading};
use super::{
    StartError,
    digest::Digest,
    name::{Reference, Repository},
};

/// Where a registry keeps its images. Clones share them, so that a registry which was stopped can come back.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    directory: Option<PathBuf>,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    blobs: HashMap<Digest, Blob>,
    repositories: BTreeMap<Repository, Contents>,
    used: u64,
}

/// What a repository has.
#[derive(Default)]
struct Contents {
    blobs: HashSet<Digest>,
    manifests: HashMap<Digest, Manifest>,
    tags: BTreeMap<String, Digest>,
}

#[derive(Clone)]
pub(super) struct Manifest {
    pub(super) media_type: String,
    pub(super) body: Bytes,
    pub(super) digest: Digest,
}

/// Why something cannot be kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotKept {
    /// A blob is larger than it may be.
    #[error("more than {0} bytes")]
    TooLarge(u64),
    /// There is no room.
    #[error("the registry is full: it keeps {0} bytes")]
    Full(u64),
    /// It is not what it is said to be.
    #[error("the content's digest is {0}")]
    Digest(String),
    /// A file cannot be written.
    #[error("a blob cannot be written: {0}")]
    Disk(#[from] io::Error),
}

impl Storage {
    /// All in memory.
    pub fn memory() -> Self {
        Self::new(None)
    }

    /// Blobs are files of this directory, which is made if it is not there; nobody else is to use it.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self::new(Some(path.into()))
    }

    fn new(directory: Option<PathBuf>) -> Self {
        Self(Arc::new(Inner { directory, shelf: Mutex::default() }))
    }

    pub(super) fn prepare(&self) -> Result<(), StartError> {
        let Some(path) = &self.0.directory else { return Ok(()) };
        fs::create_dir_all(path).map_err(|error| StartError::Storage(path.clone(), error))
    }

    /// The file of a blob or of an upload, if there are files.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.0.directory.as_ref()?.join(name))
    }

    /// Sets room aside, if there is as much.
    pub(super) fn reserve(&self, bytes: usize, most: u64) -> Result<(), NotKept> {
        self.shelf().reserve(bytes, most)
    }

    pub(super) fn release(&self, bytes: u64) {
        let mut kept = self.shelf();
        kept.used = kept.used.saturating_sub(bytes);
    }

    /// Puts a blob on the shelf; whether there was none like it.
    pub(super) fn add_blob(&self, repository: &Repository, digest: Digest, blob: Blob) -> bool {
        let mut kept = self.shelf();
        kept.contents(repository).blobs.insert(digest);
        kept.blobs.insert(digest, blob).is_none()
    }

    /// Shows a blob of one repository in another, too.
    pub(super) fn mount(&self, digest: Digest, from: &Repository, to: &Repository) -> bool {
        let mut kept = self.shelf();
        let is_there = kept.has_blob(from, &digest);
        if is_there {
            kept.contents(to).blobs.insert(digest);
        }
        is_there
    }

    pub(super) fn blob(&self, repository: &Repository, digest: &Digest) -> Option<Blob> {
        let kept = self.shelf();
        kept.has_blob(repository, digest).then(|| kept.blobs.get(digest).cloned())?
    }

    /// Adds a manifest, and the tag for it, if there is room.
    pub(super) fn add_manifest(
        &self,
        repository: &Repository,
        manifest: Manifest,
        tag: Option<&str>,
        most: u64,
    ) -> Result<(), NotKept> {
        let mut kept = self.shelf();
        let digest = manifest.digest;
        if !kept.contents(repository).manifests.contains_key(&digest) {
            kept.reserve(manifest.body.len(), most)?;
        }
        let contents = kept.contents(repository);
        contents.manifests.insert(digest, manifest);
        contents.tags.extend(tag.map(|tag| (tag.to_owned(), digest)));
        Ok(())
    }

    pub(super) fn manifest(&self, name: &Repository, reference: &Reference) -> Option<Manifest> {
        let kept = self.shelf();
        let contents = kept.repositories.get(name)?;
        let digest = match reference {
            Reference::Tag(tag) => contents.tags.get(tag)?,
            Reference::Digest(digest) => digest,
        };
        contents.manifests.get(digest).cloned()
    }

    /// The tags of a repository, in order; nothing if there is no such repository.
    pub(super) fn tags(&self, repository: &Repository) -> Option<Vec<String>> {
        let kept = self.shelf();
        Some(kept.repositories.get(repository)?.tags.keys().cloned().collect())
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn reserve(&mut self, bytes: usize, most: u64) -> Result<(), NotKept> {
        let used = self.used.saturating_add(bytes as u64);
        if used > most {
            return Err(NotKept::Full(most));
        }
        self.used = used;
        Ok(())
    }

    fn contents(&mut self, repository: &Repository) -> &mut Contents {
        self.repositories.entry(repository.clone()).or_default()
    }

    fn has_blob(&self, repository: &Repository, digest: &Digest) -> bool {
        self.repositories.get(repository).is_some_and(|contents| contents.blobs.contains(digest))
    }
}

/// Where, not what.
impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.directory {
            Some(path) => f.debug_tuple("Storage").field(path).finish(),
            None => f.write_str("Storage(memory)"),
        }
    }
}
