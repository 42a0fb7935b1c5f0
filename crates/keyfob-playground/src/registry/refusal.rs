//! What a client is told when it does not get what it wants.
//!
//! Upstream: the error codes of the distribution specification.

use axum::body::Body;
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use serde_json::{Value, json};

use super::storage::NotKept;

/// A refusal in the form of the specification that the path follows.
#[derive(Debug)]
pub(super) struct Refusal {
    code: Code,
    status: StatusCode,
    message: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The specification's codes, and some that registries add to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    BlobUnknown,
    BlobUploadInvalid,
    BlobUploadUnknown,
    Denied,
    DigestInvalid,
    /// OAuth's, for every token that cannot be traded.
    InvalidRequest,
    ManifestBlobUnknown,
    ManifestInvalid,
    ManifestUnknown,
    NameInvalid,
    NameUnknown,
    RangeInvalid,
    SizeInvalid,
    TooManyRequests,
    Unauthorized,
    Unknown,
    Unsupported,
}

impl Code {
    fn row(self) -> (&'static str, StatusCode) {
        match self {
            Self::BlobUnknown => ("BLOB_UNKNOWN", StatusCode::NOT_FOUND),
            Self::BlobUploadInvalid => ("BLOB_UPLOAD_INVALID", StatusCode::BAD_REQUEST),
            Self::BlobUploadUnknown => ("BLOB_UPLOAD_UNKNOWN", StatusCode::NOT_FOUND),
            Self::Denied => ("DENIED", StatusCode::FORBIDDEN),
            Self::DigestInvalid => ("DIGEST_INVALID", StatusCode::BAD_REQUEST),
            Self::InvalidRequest => ("invalid_request", StatusCode::BAD_REQUEST),
            Self::ManifestBlobUnknown => ("MANIFEST_BLOB_UNKNOWN", StatusCode::BAD_REQUEST),
            Self::ManifestInvalid => ("MANIFEST_INVALID", StatusCode::BAD_REQUEST),
            Self::ManifestUnknown => ("MANIFEST_UNKNOWN", StatusCode::NOT_FOUND),
            Self::NameInvalid => ("NAME_INVALID", StatusCode::BAD_REQUEST),
            Self::NameUnknown => ("NAME_UNKNOWN", StatusCode::NOT_FOUND),
            Self::RangeInvalid => ("RANGE_INVALID", StatusCode::RANGE_NOT_SATISFIABLE),
            Self::SizeInvalid => ("SIZE_INVALID", StatusCode::PAYLOAD_TOO_LARGE),
            Self::TooManyRequests => ("TOOMANYREQUESTS", StatusCode::TOO_MANY_REQUESTS),
            Self::Unauthorized => ("UNAUTHORIZED", StatusCode::UNAUTHORIZED),
            Self::Unknown => ("UNKNOWN", StatusCode::INTERNAL_SERVER_ERROR),
            Self::Unsupported => ("UNSUPPORTED", StatusCode::METHOD_NOT_ALLOWED),
        }
    }
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, status: code.row().1, message: message.into(), headers: Vec::new() }
    }

    /// There is nothing at such a path.
    pub(super) fn no_such_path() -> Self {
        Self { status: StatusCode::NOT_FOUND, ..Self::new(Code::Unsupported, "no such path") }
    }

    /// There is something, but not for this method.
    pub(super) fn method(allowed: &'static str) -> Self {
        Self::new(Code::Unsupported, format!("only {allowed} here"))
            .header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// The disk, or the machine's random numbers.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Unknown, message)
    }

    /// A token that cannot be traded, and why.
    pub(super) fn exchange(reason: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, reason)
    }

    pub(super) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.headers);
        response
    }

    fn body(&self) -> Value {
        let (code, message) = (self.code.row().0, &self.message);
        match self.code {
            Code::InvalidRequest => json!({"error": code, "error_description": message}),
            _ => json!({"errors": [{"code": code, "message": message, "detail": null}]}),
        }
    }
}

impl From<NotKept> for Refusal {
    fn from(error: NotKept) -> Self {
        let code = match error {
            NotKept::TooLarge(_) | NotKept::Full(_) => Code::SizeInvalid,
            NotKept::Digest(_) => Code::DigestInvalid,
            NotKept::Disk(_) => Code::Unknown,
        };
        Self::new(code, error.to_string())
    }
}
