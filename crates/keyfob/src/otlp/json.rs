//! `ExportTraceServiceRequest` of OTLP in its JSON form: ids in hexadecimal digits, 64-bit numbers as text.

use std::{
    fmt::Debug,
    time::{SystemTime, UNIX_EPOCH},
};

use keyfob_agent::ErrorCode;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};

use super::SpanRecord;

/// The longest value of an attribute, in characters.
const MAX_TEXT: usize = 256;
/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;
/// What makes a span an error: a request was refused or failed, or a plugin failed. `NotFound` is missing because a pull of a public image
/// needs no credentials.
const FAULTS: [ErrorCode; 5] = [
    ErrorCode::BadRequest,
    ErrorCode::Denied,
    ErrorCode::RateLimited,
    ErrorCode::Failed,
    ErrorCode::Unavailable,
];

pub(super) fn export_request(spans: &[SpanRecord], host: &str) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("host.name", &json!(host)),
            attribute("service.name", &json!("keyfob-agent")),
            attribute("service.version", &json!(env!("CARGO_PKG_VERSION"))),
        ]},
        "scopeSpans": [{"scope": {"name": "keyfob"}, "spans": spans}],
    }]})
}

fn span(record: &SpanRecord) -> Value {
    let attributes = record.attributes.iter().map(|(name, value)| attribute(name, value));
    let mut span = json!({
        "traceId": hex::encode(record.trace),
        "spanId": hex::encode(record.id),
        "name": record.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(record.start),
        "endTimeUnixNano": nanoseconds(record.end),
        "attributes": attributes.collect::<Vec<_>>(),
    });
    if let Some(span) = span.as_object_mut() {
        let parent = record.parent.map(|id| json!(hex::encode(id)));
        span.extend(parent.map(|id| ("parentSpanId".to_owned(), id)));
        let status = fault(record).map(|fault| json!({"code": ERROR, "message": fault.as_str()}));
        span.extend(status.map(|status| ("status".to_owned(), status)));
    }
    span
}

/// What went wrong, by the attributes that the agent gives its spans: the status of the response or the outcome.
fn fault(record: &SpanRecord) -> Option<ErrorCode> {
    let is_recorded = |code: &ErrorCode| {
        record.attributes.iter().any(|(name, value)| match *name {
            "outcome" => value == code.as_str(),
            "status" => *value == code.status().as_u16(),
            _ => false,
        })
    };
    FAULTS.into_iter().find(is_recorded)
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Bool(value) => json!({"boolValue": value}),
        value => json!({"stringValue": value}),
    };
    json!({"key": name, "value": value})
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

impl SpanRecord {
    fn set(&mut self, field: &Field, value: Value) {
        self.attributes.push((field.name(), value));
    }
}

impl Visit for SpanRecord {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text: String = format!("{value:?}").chars().take(MAX_TEXT).collect();
        self.set(field, text.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text: String = value.chars().take(MAX_TEXT).collect();
        self.set(field, text.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }
}
