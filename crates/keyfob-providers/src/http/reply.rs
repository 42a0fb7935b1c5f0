//! An answer, read to its end.

use http::HeaderMap;
use keyfob_api::Secret;
use serde::{Deserialize, de::DeserializeOwned};

use super::{HttpError, error::Fault};
use crate::shortened::shortened;

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

/// How OAuth, Google and others say what is wrong.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Complaint {
    error: serde_json::Value,
    error_description: String,
    message: String,
}

impl Reply {
    pub(super) async fn receive(mut response: reqwest::Response) -> Result<Self, Fault> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(Fault::of)? {
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
        serde_json::from_slice(self.body.expose()).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let wrong = match error.classify() {
                serde_json::error::Category::Data => "a field is missing or of the wrong type",
                _ => "a syntax error",
            };
            let fault = Fault::NotTheJson(format!("{wrong} (line {line}, column {column})"));
            HttpError::new(self.what.clone(), fault)
        })
    }
}

/// What the body of a failure says, if it says it as OAuth and others do; it is cut before it gets long.
pub(crate) fn complaint(body: &[u8]) -> String {
    const LONGEST: usize = 300;
    let Ok(complaint) = serde_json::from_slice::<Complaint>(body) else { return String::new() };
    let error = match &complaint.error {
        serde_json::Value::String(code) => code.as_str(),
        object => object.get("message").and_then(|text| text.as_str()).unwrap_or_default(),
    };
    let said = [error, &complaint.error_description, &complaint.message];
    let said: Vec<_> = said.into_iter().filter(|said| !said.is_empty()).collect();
    shortened(&said.join(": "), LONGEST)
}
