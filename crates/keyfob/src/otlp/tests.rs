//! Where spans are sent, what of them, and that nobody waits for a collector.

use keyfob_testkit::MapEnvironment;
use serde_json::json;
use tracing::trace_span;
use tracing_subscriber::{filter::filter_fn, layer::SubscriberExt as _};

use super::*;

#[test]
fn an_endpoint_is_that_of_the_standard_variables() {
    let of = |variables: &[(&str, &str)]| {
        endpoint(&variables.iter().copied().collect::<MapEnvironment>())
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), None);
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/");
    assert_eq!(of(&[all]).unwrap(), "http://localhost:4318/v1/traces");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost:1/x");
    assert_eq!(of(&[all, traces]).unwrap(), "http://localhost:1/x");
}

/// What these spans become, with a queue of this length.
fn exported(length: usize, work: impl FnOnce()) -> Vec<SpanRecord> {
    let (queue, mut spans) = mpsc::channel(length);
    let layer = OtlpLayer { queue, clock: Arc::new(SystemClock) };
    let layer = layer.with_filter(filter_fn(OtlpLayer::is_wanted));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
    std::iter::from_fn(|| spans.try_recv().ok()).collect()
}

#[test]
fn spans_have_their_parents_and_attributes_and_those_of_others_are_left_out() {
    let spans = exported(8, || {
        let outer = trace_span!(target: "keyfob_agent", "outer", path = "/v1", status = tracing::field::Empty);
        let entered = outer.enter();
        let foreign = trace_span!(target: "hyper", "foreign", secret = "hunter2").entered();
        drop(trace_span!(target: "keyfob_host", "inner", uid = 7).entered());
        drop((foreign, entered));
        outer.record("status", 200);
    });
    let [inner, outer] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((outer.name, outer.parent), ("outer", None));
    assert_eq!((inner.name, inner.parent, inner.trace), ("inner", Some(outer.id), outer.trace));
    assert_eq!(inner.attributes, [("uid", json!(7))]);
    assert_eq!(outer.attributes, [("path", json!("/v1")), ("status", json!(200))]);

    let request = json::export_request(&spans, "node-1");
    let host = json!({"key": "host.name", "value": {"stringValue": "node-1"}});
    assert_eq!(request["resourceSpans"][0]["resource"]["attributes"][0], host);
    let sent = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!(sent[0]["parentSpanId"], sent[1]["spanId"]);
    assert_eq!(sent[1]["traceId"].as_str().unwrap().len(), 32);
    assert!(sent[1]["startTimeUnixNano"].as_str().unwrap().len() == 19, "{sent}");
    let status = json!({"key": "status", "value": {"intValue": "200"}});
    assert_eq!(sent[1]["attributes"][1], status);
}

#[test]
fn spans_of_what_was_refused_or_failed_have_the_status_of_an_error() {
    let spans = exported(16, || {
        for status in [200, 404, 403, 502, 503] {
            drop(trace_span!(target: "keyfob_agent", "request", status).entered());
        }
        for outcome in ["allowed", "not_found", "answered", "rate_limited", "failed"] {
            drop(trace_span!(target: "keyfob_agent", "decision", outcome).entered());
        }
        drop(trace_span!(target: "keyfob_agent", "abandoned").entered());
    });
    let request = json::export_request(&spans, "node-1");
    let sent = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let statuses: Vec<_> = sent.iter().map(|span| span["status"].clone()).collect();
    let error = |message| json!({"code": 2, "message": message});
    let [none, denied, failed] = [json!(null), error("denied"), error("failed")];
    assert_eq!(statuses[..5], [none.clone(), none.clone(), denied, failed, error("unavailable")]);
    let outcomes =
        [none.clone(), none.clone(), none.clone(), error("rate_limited"), error("failed"), none];
    assert_eq!(statuses[5..], outcomes);
}

#[test]
fn a_full_queue_loses_spans_and_holds_nobody_up() {
    let spans = exported(2, || {
        for _ in 0..100 {
            drop(trace_span!(target: "keyfob_agent", "request").entered());
        }
    });
    assert_eq!(spans.len(), 2);
}
