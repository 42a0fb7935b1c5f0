//! Spans of a request, for whoever traces the agent: `request`, in it `decision`, and in that `plugin_run` of keyfob-host if the answer was
//! not cached.
//!
//! They are of level trace, so that no log that people read is longer because of them. Their attributes are what the audit log has too,
//! and never a secret.

use tracing::{Span, field::Empty, trace_span};

use crate::{access::Granted, error::ApiError};

/// From the head of a request to its answer.
pub(crate) fn request(path: &'static str) -> Span {
    trace_span!("request", path, status = Empty)
}

/// From the rules to the credentials.
pub(crate) fn decision(image: &str, uid: u32) -> Span {
    trace_span!("decision", image, uid, outcome = Empty, rule = Empty)
}

/// What became of it.
pub(crate) fn decided(span: &Span, granted: &Result<Granted, ApiError>) {
    match granted {
        Ok(granted) => {
            span.record("outcome", "allowed");
            span.record("rule", &*granted.rule);
        }
        Err(error) => {
            span.record("outcome", error.code.as_str());
        }
    }
}
