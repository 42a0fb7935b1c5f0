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

mod index;
mod names;
mod partial;
mod proofs;
mod stored;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use keyfob_exec::read_bounded;
use thiserror::Error;

use self::index::Index;
pub use self::stored::StoredImage;
pub(crate) use self::{
    index::{NAME, PULLED},
    partial::{Kept, Partial},
    proofs::{Asker, Found, Proof, Sample},
    stored::{DEEPEST_INDEX, local_images},
};
use crate::{Blob, Descriptor, Digest, Platform};

/// The only version there is.
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// Where nobody else looks. Inside `blobs`, other tools would take a blob in the making for garbage.
const OURS: &str = ".keyfob";

/// An index of this size lists tens of thousands of images.
const LARGEST_INDEX: u64 = 16 << 20;

/// A directory of images. Clones are the same directory.
#[derive(Clone, Debug)]
pub struct Layout {
    root: Arc<Path>,
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
    /// The layout in this directory. One is made of an empty directory, or of none.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, LayoutError> {
        let root: PathBuf = path.into();
        fs::create_dir_all(&root).map_err(LayoutError::io("make the directory", &root))?;
        let layout = Self { root: root.into() };
        if !layout.has_mark()? {
            layout.refuse_other_directory()?;
            let _lock = layout.lock()?;
            if !layout.has_mark()? {
                layout.replace(&layout.index_path(), &Index::default().encode())?;
                layout.replace(&layout.root.join("oci-layout"), LAYOUT)?;
            }
        }
        layout.check_version()?;
        Ok(layout)
    }

    /// The layout that is in this directory.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LayoutError> {
        let root: PathBuf = path.into();
        let layout = Self { root: root.into() };
        if !layout.has_mark()? {
            return Err(layout.none("it has no file oci-layout"));
        }
        layout.check_version()?;
        Ok(layout)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Where the content of this name is, or would be.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.algorithm()).join(digest.hex())
    }

    /// Whether a content is here, in its full size.
    pub(crate) fn has(&self, digest: &Digest, size: u64) -> bool {
        let found = fs::metadata(self.blob_path(digest));
        found.is_ok_and(|found| found.is_file() && found.len() == size)
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
    pub(crate) fn add(&self, manifest: &[u8], descriptor: &Descriptor) -> Result<(), LayoutError> {
        let _lock = self.lock()?;
        // One that is here may be corrupt.
        if self.read(descriptor).is_none() {
            let path = self.blob_path(&descriptor.digest);
            make_parent(&path)?;
            self.replace(&path, manifest)?;
        }
        let mut index = self.index()?;
        index.put(descriptor);
        self.replace(&self.index_path(), &index.encode())
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
        let content = read_bounded(&self.blob_path(&descriptor.digest), descriptor.size).ok()?;
        let content = content.expose();
        (descriptor.digest.alike(content) == descriptor.digest).then(|| content.clone())
    }

    fn index(&self) -> Result<Index, LayoutError> {
        let path = self.index_path();
        match read_bounded(&path, LARGEST_INDEX) {
            Ok(bytes) => {
                Index::read(bytes.expose()).ok_or_else(|| self.none("its index.json is no index"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Index::default()),
            Err(error) => Err(LayoutError::io("read", &path)(error)),
        }
    }

    fn index_path(&self) -> PathBuf {
        self.root.join("index.json")
    }

    /// Nobody else changes the index while this lives.
    fn lock(&self) -> Result<File, LayoutError> {
        let path = self.ours("lock")?;
        let failed = LayoutError::io("lock", &path);
        let locked = || {
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        locked().map_err(failed)
    }

    /// Writes a small file in one step. Only under the lock: the name in between is always the same.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), LayoutError> {
        let new = self.ours("new")?;
        let written = || {
            let mut file = File::create(&new)?;
            file.write_all(content)?;
            file.sync_data()?;
            fs::rename(&new, path)
        };
        written().map_err(LayoutError::io("write", path))
    }

    /// A path in our own directory, which is made if it is missing.
    fn ours(&self, name: &str) -> Result<PathBuf, LayoutError> {
        let directory = self.root.join(OURS);
        fs::create_dir_all(&directory)
            .map_err(LayoutError::io("make the directory", &directory))?;
        Ok(directory.join(name))
    }

    fn has_mark(&self) -> Result<bool, LayoutError> {
        let path = self.root.join("oci-layout");
        path.try_exists().map_err(LayoutError::io("look at", &path))
    }

    fn check_version(&self) -> Result<(), LayoutError> {
        let path = self.root.join("oci-layout");
        let mark = read_bounded(&path, 1 << 16).map_err(LayoutError::io("read", &path))?;
        let mark: serde_json::Value = serde_json::from_slice(mark.expose()).unwrap_or_default();
        let version = mark.get("imageLayoutVersion").and_then(|version| version.as_str());
        if version.is_some_and(|version| version.starts_with("1.")) {
            return Ok(());
        }
        Err(self.none("its file oci-layout names no version that is known here"))
    }

    /// Nobody's documents become a layout by a slip of the hand.
    fn refuse_other_directory(&self) -> Result<(), LayoutError> {
        let entries = fs::read_dir(&self.root).map_err(LayoutError::io("list", &self.root))?;
        let is_other = |entry: fs::DirEntry| {
            ![OURS, "index.json"].iter().any(|name| entry.file_name() == *name)
        };
        if entries.flatten().any(is_other) {
            return Err(self.none("it has other files, and no file oci-layout"));
        }
        Ok(())
    }

    fn none(&self, why: &'static str) -> LayoutError {
        LayoutError::NotALayout { path: self.root.to_path_buf(), why }
    }
}

fn make_parent(path: &Path) -> Result<(), LayoutError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(LayoutError::io("make the directory", parent))
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
            for image in 0..IMAGES {
                let content = format!("{writer} {image}");
                let mut descriptor = Descriptor::of("x/y", content.as_bytes());
                descriptor.annotations.insert(NAME.into(), content.clone());
                layout.add(content.as_bytes(), &descriptor).unwrap();
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
