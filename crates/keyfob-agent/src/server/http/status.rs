//! The status page over HTTP: its headers, and its stream of updates.

use std::sync::Arc;

use ::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};

use super::{Body, respond, text};
use crate::{
    agent::Shared,
    status::{ICON, SCRIPT, STYLE},
};

/// What a browser may do with the page: run its script, use its style, follow the agent, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(super) async fn page(shared: &Arc<Shared>) -> Response<Body> {
    match shared.status_page.html(shared).await {
        Some(html) => protected("text/html; charset=utf-8", html),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "the agent stops\n"),
    }
}

pub(super) fn style() -> Response<Body> {
    protected("text/css; charset=utf-8", STYLE)
}

pub(super) fn script() -> Response<Body> {
    protected("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) fn icon() -> Response<Body> {
    protected("image/svg+xml", ICON)
}

/// Updates of the page, until the reader goes away or the agent stops.
pub(super) fn events(shared: &Arc<Shared>) -> Response<Body> {
    let Some(events) = shared.status_page.events(shared) else {
        let message = "too many pages follow this agent already; close one of them\n";
        return text(StatusCode::SERVICE_UNAVAILABLE, message);
    };
    let mut response = protected("text/event-stream", "");
    *response.body_mut() = StreamBody::new(events).boxed_unsync();
    response
}

fn protected(content_type: &'static str, body: impl Into<hyper::body::Bytes>) -> Response<Body> {
    let mut response = respond(StatusCode::OK, content_type, body);
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
