//! What came back.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use keyfob_api::{Secret, SecretSet};
use keyfob_net::{ConnectionError, retry_after};
use tokio::time::{Instant, timeout_at};

use super::{pace::Pace, said::said};
use crate::PullError;

/// What a failure may say at most.
const LARGEST_COMPLAINT: u64 = 64 << 10;

/// An answer whose body is still to come.
#[derive(Debug)]
pub(crate) struct Answer {
    what: String,
    response: reqwest::Response,
    is_elsewhere: bool,
    pace: Pace,
    began: Instant,
    received: u64,
}

impl Answer {
    /// `what` was asked. `is_elsewhere`: a redirect led to another server than the one that knows our credentials.
    pub(super) fn new(
        what: String,
        response: reqwest::Response,
        is_elsewhere: bool,
        pace: Pace,
    ) -> Self {
        Self { what, response, is_elsewhere, pace, began: Instant::now(), received: 0 }
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers().get(name).map(HeaderValue::to_str)?.ok()
    }

    /// How many bytes are to come, if that is told.
    pub(crate) fn length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// Whether it is our credential that the other side looks at.
    pub(crate) fn wants_a_credential(&self) -> bool {
        self.status() == StatusCode::UNAUTHORIZED && !self.is_elsewhere
    }

    /// The next piece of the body. A server that has not sent enough by then is not waited for.
    pub(crate) async fn piece(
        &mut self,
    ) -> Result<Option<impl AsRef<[u8]> + Send + 'static + use<>>, PullError> {
        let deadline = self.pace.deadline(self.began, self.received);
        let piece = timeout_at(deadline, self.response.chunk()).await.map_err(|_| {
            let reason = format!("sends less than {} bytes a second", self.pace.slowest);
            PullError::unavailable(self.what.clone(), reason)
        })?;
        let piece = piece.map_err(|error| {
            PullError::unanswered(self.what.clone(), ConnectionError::of(error))
        })?;
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Ok(piece)
    }

    /// The whole body of a document, if it is no larger than this and comes in time. A server that declares no size has the
    /// time of the largest.
    pub(crate) async fn body(&mut self, largest: u64) -> Result<Secret<Vec<u8>>, PullError> {
        let too_large = |what: &str| PullError::BadAnswer {
            what: what.to_owned(),
            reason: format!("the answer is larger than {} KiB", largest >> 10),
        };
        if self.length().is_some_and(|length| length > largest) {
            return Err(too_large(&self.what));
        }
        let limit = self.pace.document(self.length().unwrap_or(largest));
        let deadline = self.began + limit;
        let received = timeout_at(deadline, async {
            let mut body = Vec::new();
            while let Some(piece) = self.piece().await? {
                body.extend_from_slice(piece.as_ref());
                if body.len() as u64 > largest {
                    return Err(too_large(&self.what));
                }
            }
            Ok(Secret::new(body))
        });
        received.await.unwrap_or_else(|_| {
            let reason = format!("did not send its answer within {} s", limit.as_secs());
            Err(PullError::unavailable(self.what.clone(), reason))
        })
    }

    /// What it means that it is no success.
    pub(crate) async fn failure(mut self, secrets: &SecretSet) -> PullError {
        // What cannot be read says nothing, and the status is told anyway.
        let body = self.body(LARGEST_COMPLAINT).await.unwrap_or_default();
        let (reason, status) = (said(body.expose(), secrets), self.status().as_u16());
        let is_refused = is_about_the_grant(body.expose());
        let what = self.what;
        match status {
            // Storage that refuses its own signature: it was not asked with our credential, and the next is newer.
            401 | 403 if self.is_elsewhere => PullError::unavailable(what, coded(status, &reason)),
            401 | 403 => PullError::Refused { what, status, reason },
            400 if is_refused => PullError::Refused { what, status, reason },
            404 | 410 => PullError::NotFound { what, reason },
            408 | 429 | 500.. => {
                let retry_after = retry_after(self.response.headers());
                let reason = coded(status, &reason);
                PullError::Unavailable { what, reason, retry_after, attempts: 1 }
            }
            _ => PullError::BadAnswer { what, reason: coded(status, &reason) },
        }
    }
}

fn coded(status: u16, reason: &str) -> String {
    let separator = if reason.is_empty() { "" } else { ": " };
    format!("responded with status code {status}{separator}{reason}")
}

/// How OAuth refuses a token that was sent to get another with.
fn is_about_the_grant(body: &[u8]) -> bool {
    const REFUSALS: [&str; 4] =
        ["access_denied", "invalid_client", "invalid_grant", "unauthorized_client"];
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    body.get("error").and_then(|code| code.as_str()).is_some_and(|code| REFUSALS.contains(&code))
}
