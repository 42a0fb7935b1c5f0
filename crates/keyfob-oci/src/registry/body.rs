//! What a client sends, piece by piece.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::refusal::{Code, Refusal};

/// The body of a request. No piece is waited for longer than the client may be silent.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    body: &'a mut Body,
    patience: Duration,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(body: &'a mut Body, patience: Duration) -> Self {
        Self { body, patience }
    }

    /// The next piece; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let Ok(frame) = timeout(self.patience, self.body.frame()).await else {
                let slow = Refusal::new(Code::BlobUploadInvalid, "the body did not come in time");
                return Err(slow.status(StatusCode::REQUEST_TIMEOUT));
            };
            match frame {
                None => return Ok(None),
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

    /// Takes in what is left of a body that nobody reads, so that the client hears why: a connection that is closed with
    /// bytes unread loses its answer. A long one is not waited for.
    pub(super) async fn forget(mut self) {
        const MOST: usize = 1 << 20;
        let patience = self.patience;
        let reading = async {
            let mut read = 0;
            while let Ok(Some(piece)) = self.next().await
                && read <= MOST
            {
                read += piece.len();
            }
        };
        // Whether it came to its end or not, the answer goes out.
        timeout(patience, reading).await.unwrap_or_default();
    }
}
