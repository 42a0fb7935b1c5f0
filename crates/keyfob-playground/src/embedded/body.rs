//! What stands in the body of a request.

use axum::http::{HeaderMap, header::CONTENT_TYPE};
use serde_json::Value;

use super::{protobuf, status::Refusal};

const OBJECTS: [&str; 2] = ["application/json", protobuf::MEDIA_TYPE];
const PATCHES: [&str; 2] =
    ["application/merge-patch+json", "application/strategic-merge-patch+json"];

/// An object.
pub(super) fn json(headers: &HeaderMap, body: &[u8]) -> Result<Value, Refusal> {
    read(headers, body, &OBJECTS)
}

/// A patch, of one of the kinds that are merged.
pub(super) fn patch(headers: &HeaderMap, body: &[u8]) -> Result<Value, Refusal> {
    if !headers.contains_key(CONTENT_TYPE) {
        return Err(Refusal::unsupported_media_type(&PATCHES.join(", ")));
    }
    read(headers, body, &PATCHES)
}

fn read(headers: &HeaderMap, body: &[u8], accepted: &[&str]) -> Result<Value, Refusal> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if kind.is_some_and(|kind| !accepted.contains(&kind)) {
        return Err(Refusal::unsupported_media_type(&accepted.join(", ")));
    }
    if kind == Some(protobuf::MEDIA_TYPE) {
        return protobuf::read(body).map_err(|error| Refusal::bad_request(error.to_string()));
    }
    // What is wrong could quote a token.
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Refusal::bad_request(format!("the body is not JSON: line {line} column {column}"))
    })
}
