//! A blob, in memory or in a file, and how it is read.

use std::{
    io::{self, SeekFrom},
    path::PathBuf,
};

use axum::body::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _},
};

/// So much of a file is in memory at a time.
const PIECE: usize = 256 << 10;

/// Bytes that are complete, and known by their digest.
#[derive(Clone)]
pub(in crate::registry) enum Blob {
    Memory(Bytes),
    File { path: PathBuf, size: u64 },
}

/// A blob's bytes, in pieces.
pub(in crate::registry) type Reading = BoxStream<'static, io::Result<Bytes>>;

impl Blob {
    pub(in crate::registry) fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }

    /// A part of it, which must be there.
    pub(in crate::registry) async fn read(&self, first: u64, length: u64) -> io::Result<Reading> {
        match self {
            Self::Memory(bytes) => {
                let part = slice(bytes, first, length).ok_or(io::ErrorKind::UnexpectedEof)?;
                Ok(stream::iter([Ok(part)]).boxed())
            }
            Self::File { path, .. } => {
                let mut file = File::open(path).await?;
                file.seek(SeekFrom::Start(first)).await?;
                let pieces = stream::try_unfold(file.take(length), |mut file| async move {
                    let mut piece = Vec::with_capacity(PIECE);
                    let read = file.read_buf(&mut piece).await?;
                    Ok((read > 0).then(|| (Bytes::from(piece), file)))
                });
                Ok(pieces.boxed())
            }
        }
    }
}

fn slice(bytes: &Bytes, first: u64, length: u64) -> Option<Bytes> {
    let first = usize::try_from(first).ok()?;
    let end = first.checked_add(usize::try_from(length).ok()?)?;
    Some(bytes.slice_ref(bytes.get(first..end)?))
}
