//! What a client sends, piece by piece.

use axum::body::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use keyfob_net::server::{BodyError, RequestBody};

use super::refusal::{Code, Refusal};

/// The body of a request. The server sees to it that it does not arrive too slowly.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    body: &'a mut RequestBody,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(body: &'a mut RequestBody) -> Self {
        Self { body }
    }

    /// The next piece; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(BodyError::TooSlow)) => {
                    let slow =
                        Refusal::new(Code::BlobUploadInvalid, "the body did not come in time");
                    return Err(slow.status(StatusCode::REQUEST_TIMEOUT));
                }
                Some(Err(_)) => {
                    return Err(Refusal::new(Code::BlobUploadInvalid, "the body broke off"));
                }
                // What is not data is a trailer, which says nothing here.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// All of it, if it is not longer than this.
    pub(super) async fn whole(&mut self, longest: usize) -> Result<Vec<u8>, Refusal> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            if all.len() + piece.len() > longest {
                return Err(Refusal::new(Code::SizeInvalid, format!("more than {longest} bytes")));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}
