//! Sends the spans of the agent to a collector, as OTLP over HTTP in its JSON form.
//!
//! The feature `otlp` brings it in, and the standard variables `OTEL_EXPORTER_OTLP_ENDPOINT` (or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) turn it on. It needs no crate that keyfob does not have anyway. A request never waits for it:
//! spans go into a queue of limited length, those that find it full are lost, and a collector that does not answer only costs the spans that it was
//! sent. It has a thread of its own, so that it needs nothing of the agent's runtime. At the end of the process, [`Exporter`] sends the
//! spans that wait.

mod headers;
mod json;

use std::{
    io,
    sync::{Arc, mpsc::RecvTimeoutError},
    thread,
    time::{Duration, SystemTime},
};

use aws_lc_rs::rand;
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use keyfob_exec::{Clock, Environment, SystemClock};
use keyfob_net::Clients;
use serde_json::Value;
use thiserror::Error;
use tokio::{
    runtime,
    sync::{
        mpsc::{self, Receiver, Sender},
        oneshot,
    },
    time::timeout,
};
use tracing::{
    Metadata, Subscriber,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

/// How many spans wait for the collector at most: some 2 MB.
const QUEUE: usize = 4096;
/// How many are sent at once.
const BATCH: usize = 512;
/// How long a collector may take for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the end of the process waits for the spans that are left. The thread that ends the process after a signal allows this
/// beside what requests may take. A collector that takes longer for the batch that it has already got loses all of them.
pub(crate) const LAST_SPANS: Duration = Duration::from_millis(1500);

/// Why no spans are sent although a collector is named.
#[derive(Debug, Error)]
pub(crate) enum OtlpError {
    #[error(transparent)]
    Headers(#[from] headers::HeadersError),
    #[error("the thread that sends them cannot start")]
    Thread(#[from] io::Error),
}

/// Spans that end are put into the queue.
pub(crate) struct OtlpLayer {
    queue: Sender<SpanRecord>,
    clock: Arc<dyn Clock>,
}

/// The thread that sends the spans.
#[derive(Debug)]
#[must_use = "the last spans are sent when it is dropped"]
pub(crate) struct Exporter {
    stop: Option<oneshot::Sender<()>>,
    ended: std::sync::mpsc::Receiver<()>,
}

impl Drop for Exporter {
    /// Sends the spans that have ended by now, and waits [`LAST_SPANS`] for that.
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.ended.recv_timeout(LAST_SPANS) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("the collector did not take the last spans in time");
        }
    }
}

/// A span, for as long as it lasts and while it waits to be sent.
#[derive(Debug)]
struct SpanRecord {
    name: &'static str,
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    start: SystemTime,
    end: SystemTime,
    attributes: Vec<(&'static str, Value)>,
}

/// Where spans are sent, how, and from which host.
struct Collector {
    endpoint: String,
    headers: HeaderMap,
    clients: Clients,
    host: String,
}

impl OtlpLayer {
    /// Nothing if no collector is named. Starts the thread that sends.
    pub(crate) fn from_environment(
        environment: &dyn Environment,
    ) -> Result<Option<(Self, Exporter)>, OtlpError> {
        let Some(endpoint) = endpoint(environment) else { return Ok(None) };
        let (queue, spans) = mpsc::channel(QUEUE);
        let clients = Clients::builder().proxies(environment).connect_timeout(PATIENCE).build();
        let mut headers = headers::headers(environment)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let collector = Collector { endpoint, headers, clients, host: host_name() };
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (ends, ended) = std::sync::mpsc::channel();
        let send = move || {
            // Dropped when everything is sent.
            let _ends = ends;
            runtime.block_on(send_all(spans, &collector, stopped));
        };
        thread::Builder::new().name("otlp".to_owned()).spawn(send)?;
        let layer = Self { queue, clock: Arc::new(SystemClock) };
        Ok(Some((layer, Exporter { stop: Some(stop), ended })))
    }

    /// The spans of our own libraries: those of others may have anything in their attributes.
    pub(crate) fn is_wanted(metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("keyfob")
    }
}

/// The variable for traces has the whole address, the one for everything has its beginning.
fn endpoint(environment: &dyn Environment) -> Option<String> {
    let variable = |name| {
        let value = environment.var(name)?.into_string().ok()?;
        Some(value).filter(|value| !value.is_empty())
    };
    variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
        let all = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        Some(format!("{}/v1/traces", all.trim_end_matches('/')))
    })
}

/// What the kernel calls this host. In a pod of its own network that is the name of the pod.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for OtlpLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let (Some(own), Some(fresh)) = (random(), random()) else { return };
        let parent = span.parent().and_then(|parent| identity(&parent));
        let start = self.clock.now();
        let mut record = SpanRecord {
            name: span.name(),
            trace: parent.map_or(fresh, |(trace, _)| trace),
            id: own,
            parent: parent.map(|(_, id)| id),
            start,
            end: start,
            attributes: Vec::new(),
        };
        attributes.record(&mut record);
        span.extensions_mut().insert(record);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(record) = span.extensions_mut().get_mut::<SpanRecord>() {
            values.record(record);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(mut record) = span.extensions_mut().remove::<SpanRecord>() else { return };
        record.end = self.clock.now();
        // If the queue is full the span is lost: nobody waits for a collector.
        self.queue.try_send(record).unwrap_or_default();
    }
}

/// The trace and the id of a span.
fn identity<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> Option<([u8; 16], [u8; 8])> {
    let extensions = span.extensions();
    extensions.get::<SpanRecord>().map(|record| (record.trace, record.id))
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Sends spans until it is stopped, and then those that wait.
async fn send_all(
    mut spans: Receiver<SpanRecord>,
    collector: &Collector,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let count = tokio::select! {
            _ = &mut stopped, if !spans.is_closed() => {
                spans.close();
                continue;
            }
            count = spans.recv_many(&mut batch, BATCH) => count,
        };
        if count == 0 {
            return;
        }
        let body = json::export_request(&batch, &collector.host).to_string();
        batch.clear();
        let sent = timeout(PATIENCE, collector.send(body)).await;
        if !matches!(sent, Ok(Some(()))) {
            // The address may have a password in it, the headers have one, and what the collector says is its own.
            tracing::debug!(count, "the collector did not take these spans");
        }
    }
}

impl Collector {
    async fn send(&self, body: String) -> Option<()> {
        let client = self.clients.client(self.endpoint.starts_with("https://")).ok()?;
        let request = client.post(&self.endpoint).headers(self.headers.clone()).body(body);
        request.send().await.ok()?.status().is_success().then_some(())
    }
}

#[cfg(test)]
mod tests;
