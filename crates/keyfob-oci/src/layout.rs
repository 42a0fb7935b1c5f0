//! Images in a directory, as the OCI image specification lays them out.
//!
//! ```text
//! oci-layout      says that it is one
//! index.json      the images, by name
//! blobs/ALG/HEX   manifests, configurations and layers, each under its digest
//! .keyfob/        ours: a lock, what has come of blobs that are not complete, and who proved access to those that are
//! ```
//!
//! Several processes may use one directory, and any of them may be killed at any moment:
//!
//! - What has its final name is complete. It is written elsewhere, verified, brought to the disk (`fdatasync`, as skopeo
//!   does too) and then renamed, so that not even a machine that loses its power leaves a name without its content. The
//!   names themselves are not brought to the disk: a blob whose name was lost is fetched again.
//! - `index.json` is read, changed and replaced by one process at a time, and never written in place.
//! - An image is here only if its manifest, its configuration and all its layers are, in their full size.
//! - What other tools wrote is read, and kept as it is. What no name leads to any more stays until somebody cleans up.
//!
//! Manifests are kept as they came, docker's too, so that their digests are those of the registry. A skopeo before 1.19 does
//! not find docker's by name: in a layout of one image it needs none (`oci:DIR`).
//!
//! Upstream: `image-layout.md` of the OCI image specification, 1.1.

mod files;
mod index;
mod names;
mod partial;
mod proofs;
mod stored;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyfob_exec::Directory;
use thiserror::Error;

pub use self::stored::StoredImage;
use self::{files::OURS, index::Index};
pub(crate) use self::{
    index::{NAME, PULLED},
    partial::{Kept, Partial},
    proofs::{Asker, Found, Proof, Sample, Written},
    stored::DEEPEST_INDEX,
};
use crate::{Blob, Descriptor, Digest, Platform};

/// The only version there is.
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// The file that makes a directory a layout.
const MARK: &str = "oci-layout";

/// The file that lists the images.
const INDEX: &str = "index.json";

/// An index of this size lists tens of thousands of images.
const LARGEST_INDEX: u64 = 16 << 20;

/// A directory of images. Clones are the same directory.
#[derive(Clone, Debug)]
pub struct Layout {
    root: Arc<Directory>,
}

/// What is wrong with a directory of images.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The system says no.
    #[error("cannot {doing} {}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It is something else, or of another version.
    #[error("{} is no OCI image layout: {why}", .path.display())]
    NotALayout {
        /// The directory.
        path: PathBuf,
        /// How that can be seen.
        why: &'static str,
    },
    /// A thread of this process failed.
    #[error("a thread that worked on {} did not come to its end", .path.display())]
    Thread {
        /// The directory.
        path: PathBuf,
    },
}

impl LayoutError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

impl Layout {
    /// The layout in this directory. One is made of an empty directory, or of none. What is made is for its owner alone.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, LayoutError> {
        let path: PathBuf = path.into();
        let root =
            Directory::create(&path).map_err(LayoutError::io("make the directory", &path))?;
        let layout = Self { root: root.into() };
        if !layout.has_mark()? {
            layout.refuse_other_directory()?;
            // Several may do so at once. Nobody's index is replaced.
            layout.create_file(&layout.root, INDEX, &Index::default().encode())?;
            layout.create_file(&layout.root, MARK, LAYOUT)?;
        }
        layout.check_version()?;
        Ok(layout)
    }

    /// The layout that is in this directory.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LayoutError> {
        let path: PathBuf = path.into();
        let root = Directory::open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                LayoutError::NotALayout { path: path.clone(), why: "there is no such directory" }
            }
            _ => LayoutError::io("open", &path)(source),
        })?;
        let layout = Self { root: root.into() };
        if !layout.has_mark()? {
            return Err(layout.none("it has no file oci-layout"));
        }
        layout.check_version()?;
        Ok(layout)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Whether a content is here, in its full size.
    pub(crate) fn has(&self, digest: &Digest, size: u64) -> bool {
        let found = self.blobs(digest).and_then(|blobs| blobs.metadata(digest.hex()));
        matches!(found, Ok(Some(found)) if found.is_file() && found.len() == size)
    }

    /// What a registry has sent of a blob so far, held so that nobody else writes it.
    pub(crate) async fn partial(
        &self,
        blob: &Blob,
        registry: &str,
    ) -> Result<Partial, LayoutError> {
        Partial::hold(self, blob, registry).await
    }

    /// Adds a manifest under the name that its descriptor has, in the place of what had that name.
    pub(crate) async fn add(
        &self,
        manifest: Vec<u8>,
        descriptor: Descriptor,
    ) -> Result<(), LayoutError> {
        let (layout, lock) = (self.clone(), self.lock().await?);
        let add = move || {
            // One that is here may be corrupt.
            if layout.read(&descriptor).is_none() {
                let blobs = layout.make_blobs(&descriptor.digest)?;
                layout.replace(&blobs, descriptor.digest.hex(), &manifest)?;
            }
            let mut index = layout.index()?;
            index.put(&descriptor);
            layout.replace(&layout.root, INDEX, &index.encode())?;
            drop(lock);
            Ok(())
        };
        self.off_thread(add).await?
    }

    /// What the configuration of an image says that it runs on.
    pub(crate) fn platform_of(&self, config: &Descriptor) -> Option<Platform> {
        let platform: Platform = serde_json::from_slice(&self.read(config)?).ok()?;
        let is_named = !platform.os.is_empty() && !platform.architecture.is_empty();
        is_named.then_some(platform)
    }

    /// A content, if it is here and is what its name says. It is no larger than a manifest may be.
    fn read(&self, descriptor: &Descriptor) -> Option<Vec<u8>> {
        const LARGEST: u64 = 4 << 20;
        if descriptor.size > LARGEST {
            return None;
        }
        let blobs = self.blobs(&descriptor.digest).ok()?;
        let content = blobs.read(descriptor.digest.hex(), descriptor.size).ok()?;
        let content = content.expose();
        (descriptor.digest.alike(content) == descriptor.digest).then(|| content.clone())
    }

    fn index(&self) -> Result<Index, LayoutError> {
        match self.root.read(INDEX, LARGEST_INDEX) {
            Ok(bytes) => {
                Index::read(bytes.expose()).ok_or_else(|| self.none("its index.json is no index"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Index::default()),
            Err(error) => Err(LayoutError::io("read", &self.path().join(INDEX))(error)),
        }
    }

    fn has_mark(&self) -> Result<bool, LayoutError> {
        let found = self.root.metadata(MARK);
        let found = found.map_err(LayoutError::io("look at", &self.path().join(MARK)))?;
        Ok(found.is_some())
    }

    fn check_version(&self) -> Result<(), LayoutError> {
        let mark = self.root.read(MARK, 1 << 16);
        let mark = mark.map_err(LayoutError::io("read", &self.path().join(MARK)))?;
        let mark: serde_json::Value = serde_json::from_slice(mark.expose()).unwrap_or_default();
        let version = mark.get("imageLayoutVersion").and_then(|version| version.as_str());
        if version.is_some_and(|version| version.starts_with("1.")) {
            return Ok(());
        }
        Err(self.none("its file oci-layout names no version that is known here"))
    }

    /// Nobody's documents become a layout by a slip of the hand.
    fn refuse_other_directory(&self) -> Result<(), LayoutError> {
        let names = self.root.names().map_err(LayoutError::io("list", self.path()))?;
        if names.iter().any(|name| ![OURS, INDEX].contains(&name.as_str())) {
            return Err(self.none("it has other files, and no file oci-layout"));
        }
        Ok(())
    }

    fn none(&self, why: &'static str) -> LayoutError {
        LayoutError::NotALayout { path: self.path().to_owned(), why }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn many_who_write_at_once_lose_nothing_and_nobody_sees_half_an_index() {
        const WRITERS: usize = 6;
        const IMAGES: usize = 15;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("oci");
        let add = |writer: usize| {
            // Each as a process of its own would: a lock holds between open files.
            let layout = Layout::create(&path).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.unwrap();
            for image in 0..IMAGES {
                let content = format!("{writer} {image}");
                let mut descriptor = Descriptor::of("x/y", content.as_bytes());
                descriptor.annotations.insert(NAME.into(), content.clone());
                let added = layout.add(content.into_bytes(), descriptor.clone());
                runtime.block_on(added).unwrap();
                assert!(layout.index().unwrap().descriptors().any(|each| each == descriptor));
            }
        };
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || add(writer));
            }
        });

        let layout = Layout::open(&path).unwrap();
        let index = layout.index().unwrap();
        assert_eq!(index.descriptors().count(), WRITERS * IMAGES);
        assert!(index.descriptors().all(|each| layout.has(&each.digest, each.size)));
    }
}
