//! What a webhook answers.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::json;

use crate::webhook::review::API_VERSION;

/// The answer to one review.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    uid: String,
    allowed: bool,
    audit_annotations: AuditAnnotations,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Refusal>,
    /// Shown to whoever asked for the token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct AuditAnnotations {
    /// What decided.
    clause: &'static str,
}

/// Why not: a `Status` of Kubernetes.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal {
    status: &'static str,
    message: String,
    reason: &'static str,
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u32,
}

impl Answer {
    pub(crate) fn allowed(uid: String, clause: &'static str) -> Self {
        let audit_annotations = AuditAnnotations { clause };
        Self { uid, allowed: true, audit_annotations, status: None, warnings: Vec::new() }
    }

    pub(crate) fn allowed_with(warning: String, uid: String, clause: &'static str) -> Self {
        Self { warnings: vec![warning], ..Self::allowed(uid, clause) }
    }

    pub(crate) fn refused(refusal: Refusal, uid: String, clause: &'static str) -> Self {
        Self { allowed: false, status: Some(refusal), ..Self::allowed(uid, clause) }
    }

    /// Something that nobody should have sent here changes nothing, but should not stay unseen.
    pub(crate) fn not_ours(uid: String, what: &str) -> Self {
        let warning = format!("keyfob judges only CREATE of serviceaccounts/token, not {what}");
        Self::allowed_with(warning, uid, "not-a-token-request")
    }

    pub(crate) fn malformed(uid: String, message: &str) -> Self {
        let refusal = Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", message.to_owned());
        Self::refused(refusal, uid, "malformed")
    }
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self { status: "Failure", message, reason, code: code.as_u16(), details: None }
    }

    /// Kubernetes' own client then tries again by itself.
    pub(crate) fn for_now(self) -> Self {
        Self { details: Some(Details { retry_after_seconds: 1 }), ..self }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let kind = "AdmissionReview";
        let review = json!({ "apiVersion": API_VERSION, "kind": kind, "response": self });
        Json(review).into_response()
    }
}

/// What is no review is answered as an API server answers: it shows such a message where the webhook was called.
pub(crate) fn problem(code: StatusCode, message: &str) -> Response {
    let status = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": message,
        "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}
