//! What an API server asks a webhook: an `AdmissionReview`.

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, UserInfo};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::rule::{Asked, BoundObject};

/// The version that is read and answered.
pub(crate) const API_VERSION: &str = "admission.k8s.io/v1";

/// One review.
#[derive(Debug)]
pub(crate) struct Review {
    /// The number of this review, which goes into the answer.
    pub(crate) uid: String,
    pub(crate) subject: Subject,
}

/// What it is about.
#[derive(Debug, PartialEq)]
pub(crate) enum Subject {
    /// A token is asked for.
    Token(Asked),
    /// One should be, but the object is none.
    Malformed(&'static str),
    /// Something that nobody should have sent here.
    Another(String),
}

impl Review {
    pub(crate) fn read(body: &[u8]) -> Result<Self, ReviewError> {
        // The parser's words quote what it read, and nobody needs them: an API server writes well.
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|error| ReviewError::NotJson { line: error.line(), column: error.column() })?;
        if (wire.api_version.as_str(), wire.kind.as_str()) != (API_VERSION, "AdmissionReview") {
            return Err(ReviewError::AnotherKind);
        }
        let request = wire.request.ok_or(ReviewError::NoRequest)?;
        Ok(Self { uid: request.uid.clone(), subject: request.subject() })
    }
}

/// Why a body is no review.
#[derive(Debug, Error)]
pub(crate) enum ReviewError {
    #[error("the body is no AdmissionReview: line {line}, column {column}")]
    NotJson { line: usize, column: usize },
    #[error(
        "the body must be an AdmissionReview of {API_VERSION}: have it in admissionReviewVersions"
    )]
    AnotherKind,
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    operation: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resource: String,
}

impl Request {
    fn subject(self) -> Subject {
        let of =
            [&self.operation, &self.resource.group, &self.resource.resource, &self.sub_resource];
        if of != ["CREATE", "", "serviceaccounts", "token"] {
            return Subject::Another(self.to_string());
        }
        // Nobody is no node, and would pass.
        let Some(user) = self.user_info.username.filter(|user| !user.is_empty()) else {
            return Subject::Malformed("the request does not say whose it is: userInfo.username");
        };
        // A request has no token yet; if it has one all the same, it is dropped here, unseen.
        match serde_json::from_value::<TokenRequest>(self.object) {
            Ok(wanted) => {
                let spec = wanted.spec.unwrap_or_default();
                Subject::Token(Asked {
                    user,
                    groups: self.user_info.groups.unwrap_or_default(),
                    namespace: self.namespace,
                    service_account: self.name,
                    audiences: spec.audiences.unwrap_or_default(),
                    bound: spec.bound_object_ref.map(BoundObject::from),
                })
            }
            Err(_) => Subject::Malformed("the object of the request is no TokenRequest"),
        }
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.operation, self.resource.resource)?;
        if !self.sub_resource.is_empty() {
            write!(f, "/{}", self.sub_resource)?;
        }
        Ok(())
    }
}

impl From<BoundObjectReference> for BoundObject {
    fn from(reference: BoundObjectReference) -> Self {
        Self {
            api_version: reference.api_version.unwrap_or_default(),
            kind: reference.kind.unwrap_or_default(),
            name: reference.name.unwrap_or_default(),
            uid: reference.uid.unwrap_or_default(),
        }
    }
}
