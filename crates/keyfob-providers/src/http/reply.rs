//! An answer, read to its end.

use http::HeaderMap;
use keyfob_api::Secret;
use keyfob_net::ConnectionError;
use serde::de::DeserializeOwned;

use super::{HttpError, complaint, error::Fault};

/// No answer of a token service or a metadata service comes near this.
const LARGEST: usize = 1 << 20;

/// A status, headers and a body, which may hold a secret.
#[derive(Debug, Clone)]
pub struct Reply {
    what: String,
    status: u16,
    headers: HeaderMap,
    body: Secret<Vec<u8>>,
}

impl Reply {
    pub(super) async fn receive(mut response: reqwest::Response) -> Result<Self, Fault> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(ConnectionError::of)? {
            if body.len() + piece.len() > LARGEST {
                return Err(Fault::TooLarge(LARGEST));
            }
            body.extend_from_slice(&piece);
        }
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        Ok(Self { what: String::new(), status, headers, body: Secret::new(body) })
    }

    pub(super) fn to(self, what: String) -> Self {
        Self { what, ..self }
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body.
    pub fn body(&self) -> &Secret<Vec<u8>> {
        &self.body
    }

    /// Itself, if the status says so; else what the other side complains of.
    pub fn success(self) -> Result<Self, HttpError> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let fault = Fault::Status { status: self.status, reason: complaint(self.body.expose()) };
        Err(HttpError::new(self.what, fault))
    }

    /// The body as JSON. What is wrong with it is said by line and column, never by quoting it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HttpError> {
        keyfob_net::json(self.body.expose())
            .map_err(|error| HttpError::new(self.what.clone(), error.into()))
    }
}
