//! What a caller is told when it gets no credentials.

use http::StatusCode;
use serde::Serialize;

/// An error of the agent's API. Its message and help fit on one line each and contain no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    /// What sort of error it is.
    pub(crate) code: ErrorCode,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
}

/// What sort of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The request makes no sense.
    BadRequest,
    /// No rule allows it, or the caller could not be attested.
    Denied,
    /// There are no credentials, or no such path.
    NotFound,
    /// The caller asks too often.
    RateLimited,
    /// Every provider that could answer has failed.
    Failed,
    /// The agent cannot answer now.
    Unavailable,
}

impl ErrorCode {
    /// As the API has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Denied => "denied",
            Self::NotFound => "not_found",
            Self::RateLimited => "rate_limited",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
        }
    }

    /// The status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Denied => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Failed => StatusCode::BAD_GATEWAY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The body of the response.
    pub(crate) fn body(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'a> {
            error: Error<'a>,
        }
        #[derive(Serialize)]
        struct Error<'a> {
            code: &'a str,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            help: Option<&'a str>,
        }
        let Self { code, message, help } = self;
        let error = Error { code: code.as_str(), message, help: help.as_deref() };
        serde_json::to_vec(&Body { error }).unwrap_or_default()
    }
}
