//! Refusals, as `Status` objects in Kubernetes' own words.
//!
//! Upstream: `apimachinery/pkg/api/errors`.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use keyfob_api::Quoted;
use keyfob_control::rule::Verdict;
use serde::Serialize;
use serde_json::{Value, json};

use super::resources::{Resource, qualified};

/// Why a request is refused.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Option<Box<Details>>,
}

/// What a refusal is about.
#[derive(Clone, Debug, Default, Serialize)]
struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
}

/// A field that is wrong.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cause {
    reason: &'static str,
    message: String,
    field: String,
}

impl Cause {
    /// The value as Go prints it: strings in quotes.
    pub(super) fn invalid(field: &str, value: &Value, detail: &str) -> Self {
        let value =
            value.as_str().map_or_else(|| value.to_string(), |text| Quoted(text).to_string());
        let message = format!("Invalid value: {value}: {detail}");
        Self { reason: "FieldValueInvalid", message, field: field.to_owned() }
    }

    pub(super) fn required(field: &str, detail: &str) -> Self {
        let message = format!("Required value: {detail}");
        Self { reason: "FieldValueRequired", message, field: field.to_owned() }
    }
}

impl Refusal {
    pub(super) fn unauthorized() -> Self {
        Self::plain(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// A path that nothing is served at.
    pub(super) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        let details = Some(Box::default());
        Self { details, ..Self::plain(StatusCode::NOT_FOUND, "NotFound", message) }
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let refusal = Self::plain(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        Self { details: Some(Box::default()), ..refusal }
    }

    pub(super) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// What a watch asks for is no longer remembered.
    pub(super) fn expired(asked: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {asked} ({oldest})");
        Self::plain(StatusCode::GONE, "Expired", message)
    }

    pub(super) fn internal(message: &str) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::plain(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {} not found", resource.qualified(), Quoted(name));
        let refusal = Self::plain(StatusCode::NOT_FOUND, "NotFound", message);
        refusal.about(resource.group, resource.plural, name)
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {} already exists", resource.qualified(), Quoted(name));
        let refusal = Self::plain(StatusCode::CONFLICT, "AlreadyExists", message);
        refusal.about(resource.group, resource.plural, name)
    }

    /// `what` is a resource or a kind of the group.
    pub(super) fn conflict(group: &str, what: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            qualified(group, what),
            Quoted(name)
        );
        Self::plain(StatusCode::CONFLICT, "Conflict", message).about(group, what, name)
    }

    /// An empty resource is a path.
    pub(super) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
            _ => format!("{} {} is forbidden: {why}", qualified(group, resource), Quoted(name)),
        };
        Self::plain(StatusCode::FORBIDDEN, "Forbidden", message).about(group, resource, name)
    }

    /// What the rule for nodes refused.
    pub(super) fn by_rule(verdict: &Verdict) -> Self {
        let asked = &verdict.asked;
        let refusal = match (verdict.code(), &asked.bound) {
            (404, Some(pod)) => {
                Self::plain(StatusCode::NOT_FOUND, "NotFound", "").about("", "pod", &pod.name)
            }
            _ => Self::forbidden("", "serviceaccounts", &asked.service_account, ""),
        };
        Self { message: verdict.message(), ..refusal }
    }

    pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let told: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let told = match told.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {} is invalid: {told}", qualified(group, kind), Quoted(name));
        let refusal = Self::plain(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let mut refusal = refusal.about(group, kind, name);
        if let Some(details) = &mut refusal.details {
            details.causes = causes;
        }
        refusal
    }

    /// The object that is answered.
    pub(super) fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        if let (Some(details), Some(status)) = (&self.details, status.as_object_mut()) {
            status.insert("details".to_owned(), json!(details));
        }
        status
    }

    fn plain(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let (name, group, kind) = (name.to_owned(), group.to_owned(), kind.to_owned());
        self.details = Some(Box::new(Details { name, group, kind, causes: Vec::new() }));
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.code, Json(self.to_json())).into_response()
    }
}
