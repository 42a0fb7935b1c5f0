//! Blobs on their way out: all of one, or a part.

use std::{future, io};

use axum::body::{Body, Bytes};
use futures_util::{StreamExt as _, stream};
use http::{
    HeaderValue, Method, Response, StatusCode,
    header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE},
};

use super::{
    Server,
    answer::{Asked, CONTENT_DIGEST, respond},
    digest::Digest,
    fault::Ending,
    name::Repository,
    range::Part,
    refusal::{Code, Refusal},
    storage::Reading,
};

impl Server {
    pub(super) async fn get_blob(
        &self,
        name: &Repository,
        digest: &Digest,
        asked: &Asked<'_>,
    ) -> Result<Response<Body>, Refusal> {
        let blob = self.storage.blob(name, digest);
        let blob = blob.ok_or_else(|| Refusal::new(Code::BlobUnknown, "no such blob here"))?;
        let size = blob.size();
        let mut headers = vec![
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (CONTENT_DIGEST, digest.to_string()),
            (ACCEPT_RANGES, "bytes".to_owned()),
        ];
        let (status, first, length) = match wanted(asked, size) {
            Part::Whole => (StatusCode::OK, 0, size),
            Part::Between(first, last) => {
                let (told, its_size) =
                    if asked.struck.range_is_wrong() { (0, size + 1) } else { (first, size) };
                headers.push((CONTENT_RANGE, format!("bytes {told}-{last}/{its_size}")));
                (StatusCode::PARTIAL_CONTENT, first, last - first + 1)
            }
            Part::Outside => return Err(outside(size)),
        };
        headers.push((CONTENT_LENGTH, length.to_string()));
        if asked.parts.method == Method::HEAD {
            return respond(status, &headers, Body::empty());
        }
        let reading = blob.read(first, length).await;
        let reading = reading
            .map_err(|error| Refusal::internal(format!("the blob cannot be read: {error}")))?;
        respond(status, &headers, Body::from_stream(self.marred(reading, asked)))
    }

    /// The bytes as they are, unless something is to go wrong.
    fn marred(&self, reading: Reading, asked: &Asked<'_>) -> Reading {
        let reading =
            if asked.struck.blob_is_wrong() { with_a_wrong_byte(reading) } else { reading };
        let reading = if asked.struck.blob_is_zero() { with_zeros(reading) } else { reading };
        let Some((bytes, ending)) = asked.struck.blob_ends() else { return reading };
        let (connection, mut stopping) = (asked.connection.clone(), self.stopping.clone());
        let end = async move {
            match ending {
                Ending::Cut => {
                    connection.cut();
                    future::pending().await
                }
                Ending::Stall => {
                    let stopped = stopping.wait_for(|stopping| *stopping).await;
                    Err(stopped.map_or_else(io::Error::other, |_| io::ErrorKind::TimedOut.into()))
                }
            }
        };
        up_to(reading, bytes).chain(stream::once(end)).boxed()
    }
}

/// Only `GET` has parts.
fn wanted(asked: &Asked<'_>, size: u64) -> Part {
    if asked.parts.method != Method::GET || asked.struck.range_is_ignored() {
        return Part::Whole;
    }
    let range = asked.parts.headers.get(RANGE).and_then(|range| range.to_str().ok());
    Part::parse(range, size)
}

fn outside(size: u64) -> Refusal {
    let refusal = Refusal::new(Code::RangeInvalid, format!("the blob has {size} bytes"));
    match HeaderValue::from_str(&format!("bytes */{size}")) {
        Ok(size) => refusal.header(CONTENT_RANGE, size),
        Err(_) => refusal,
    }
}

fn with_a_wrong_byte(reading: Reading) -> Reading {
    let wrong = |(number, piece): (usize, io::Result<Bytes>)| match (number, piece) {
        (0, Ok(piece)) => {
            let mut piece = piece.to_vec();
            if let Some(first) = piece.first_mut() {
                *first = !*first;
            }
            Ok(piece.into())
        }
        (_, piece) => piece,
    };
    reading.enumerate().map(wrong).boxed()
}

fn with_zeros(reading: Reading) -> Reading {
    let zeros = |piece: io::Result<Bytes>| piece.map(|piece| vec![0; piece.len()].into());
    reading.map(zeros).boxed()
}

fn up_to(reading: Reading, bytes: u64) -> Reading {
    let shorten = |left: &mut u64, piece: io::Result<Bytes>| {
        let shortened = (*left > 0).then(|| {
            piece.map(|mut piece| {
                piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= piece.len() as u64;
                piece
            })
        });
        future::ready(shortened)
    };
    reading.scan(bytes, shorten).boxed()
}
