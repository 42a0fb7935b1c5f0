//! What a pull is at.

use std::{fmt, time::Duration};

use crate::{Digest, PullError};

/// Is told what a pull is at: to draw bars, or to print lines. It is called from several tasks and must not wait.
///
/// Each blob ends in one of `skipped` and `finished`, or the pull fails.
pub trait Progress: Send + Sync + fmt::Debug {
    /// The manifest is known: so many blobs are to come.
    fn resolved(&self, _manifest: &Digest, _blobs: &[Blob]) {}

    /// A blob is here already, or another process brought it.
    fn skipped(&self, _blob: &Blob) {}

    /// A blob is to be fetched. So many bytes of it are here from an earlier pull.
    fn started(&self, _blob: &Blob, _here: u64) {}

    /// So many more bytes of a blob came.
    fn advanced(&self, _blob: &Blob, _bytes: u64) {}

    /// A blob broke off, and is asked for again after a pause. What came of it stays.
    fn retried(&self, _blob: &Blob, _error: &PullError, _pause: Duration) {}

    /// What came of a blob is thrown away: it counts from nothing again.
    fn restarted(&self, _blob: &Blob) {}

    /// A blob is here, whole and verified.
    fn finished(&self, _blob: &Blob) {}
}

/// One thing to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blob {
    /// Its name.
    pub digest: Digest,
    /// How many bytes it has.
    pub size: u64,
    /// What it is.
    pub kind: BlobKind,
}

/// What a blob is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlobKind {
    /// The image's configuration.
    Config,
    /// A layer.
    Layer,
}

/// Nobody is told.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "has no fields, and callers name it as a value")]
pub struct Silent;

impl Progress for Silent {}
