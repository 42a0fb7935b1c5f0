//! What can go wrong between a request and the API server's answer.

use http::StatusCode;
use keyfob_net::api_server::ApiError;
use thiserror::Error;

use crate::identity::{IdentityError, ServiceAccountsError};

/// Why an API server gave no service account, pod or token.
///
/// An [`IdentityError`] of [`KubernetesApi`](crate::KubernetesApi) has it: [`ServiceAccountsError::downcast_ref`]. In messages the
/// secrets that the server was shown are hidden.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KubernetesError {
    /// There can be no object of that name, so the server was not asked.
    #[error("no object can be called {name:?} in {namespace:?}")]
    Name {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The request cannot be written.
    #[error("{server}: {error}")]
    Request {
        /// What the server is called.
        server: String,
        /// Why not. Part of the message, and therefore no source.
        error: serde_json::Error,
    },
    /// There is no complete response.
    #[error("{server}: {why}")]
    NoResponse {
        /// What the server is called.
        server: String,
        /// Why there is none.
        why: String,
        /// What that was made of. No source, because the error of `kube` within may quote secrets.
        error: ApiError,
    },
    /// The server refuses.
    #[error("{message}")]
    Refused {
        /// The status of its response.
        status: StatusCode,
        /// Its own words, if it has some.
        message: String,
    },
    /// The response is not what was asked for.
    #[error("{server}: {why}")]
    Response {
        /// What the server is called.
        server: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl From<KubernetesError> for IdentityError {
    fn from(error: KubernetesError) -> Self {
        let kind = match &error {
            KubernetesError::Name { .. } => Self::NotFound,
            KubernetesError::Refused { status, .. } => match *status {
                StatusCode::NOT_FOUND => Self::NotFound,
                StatusCode::CONFLICT => Self::Replaced,
                StatusCode::BAD_REQUEST
                | StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::UNPROCESSABLE_ENTITY => Self::Forbidden,
                _ => Self::Unavailable,
            },
            KubernetesError::Request { .. }
            | KubernetesError::NoResponse { .. }
            | KubernetesError::Response { .. } => Self::Unavailable,
        };
        kind(ServiceAccountsError::new(error))
    }
}
