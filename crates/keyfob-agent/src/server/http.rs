//! What people and machines see of the agent over HTTP: metrics, whether it is alive and ready, and its status page.
//!
//! Every user of the node can read it, so nothing secret is served and nothing can be changed. A web page that somebody opens on the node
//! cannot read it under a name of its own (DNS rebinding), because only names of loopback are answered.
//!
//! A new path is an arm of [`HttpServer::route`].

mod status;

use std::{convert::Infallible, sync::Arc, time::Duration};

use ::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Bytes, service::service_fn};
use keyfob_net::server::{Limits, Listener, LoopbackNames, RequestBody, serve_counted};
use tokio::sync::watch;

use super::Body;
use crate::{access::rfc3339, agent::Shared, metrics::exposition};

/// The content type of metrics.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const TEXT: &str = "text/plain; charset=utf-8";

/// Connections at the same time. All clients of a loopback address are one peer.
const CONNECTIONS: usize = 64;
/// How long responses may go on after everything else has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// What all requests share.
pub(super) struct HttpServer {
    pub(super) shared: Arc<Shared>,
    /// Becomes true when the agent begins to stop. A response that never ends by itself ends then.
    pub(super) stop: watch::Receiver<bool>,
    /// By which names it must be called. No browser reaches a socket of the file system.
    names: Option<LoopbackNames>,
}

/// Serves until the other listeners have ended, which is later than `stop`: while the agent stops, `/readyz` says so.
pub(crate) async fn serve_http(
    shared: Arc<Shared>,
    listener: Listener,
    stop: watch::Receiver<bool>,
    others_ended: impl Future<Output = ()>,
) {
    let names = match &listener {
        Listener::Tcp(listener) => {
            // An address that cannot be read is answered under no name.
            let port = listener.local_addr().map_or(0, |address| address.port());
            Some(LoopbackNames::with_port(port).or_without_port())
        }
        _ => None,
    };
    let open = shared.metrics.connections().http.clone();
    let server = Arc::new(HttpServer { shared, stop, names });
    let service = service_fn(move |request: Request<RequestBody>| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    serve_counted(listener, None, service, (limits(), open), others_ended).await;
}

fn limits() -> Limits {
    Limits {
        connections: CONNECTIONS,
        connections_per_peer: CONNECTIONS,
        handshakes: CONNECTIONS,
        handshakes_per_peer: CONNECTIONS,
        // No request has a body that is read.
        body_size: 0,
        buffered: 0,
        buffer: 16 << 10,
        drain: DRAIN,
        ..Limits::default()
    }
}

impl HttpServer {
    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        if let Some(names) = &self.names
            && !names.are_named_in(request.uri(), request.headers())
        {
            let message =
                "the Host header names another host or port; ask for localhost or 127.0.0.1\n";
            return text(StatusCode::MISDIRECTED_REQUEST, message);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response =
                text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            return response;
        }
        self.route(request.uri().path().to_owned()).await
    }

    /// The paths.
    async fn route(&self, path: String) -> Response<Body> {
        match path.as_str() {
            "/" => status::page(&self.shared).await,
            "/events" => status::events(&self.shared),
            "/status.css" => status::style(),
            "/status.js" => status::script(),
            "/status.svg" => status::icon(),
            "/metrics" => self.metrics(),
            "/healthz" => text(StatusCode::OK, "alive\n"),
            "/readyz" => self.ready(),
            _ => text(
                StatusCode::NOT_FOUND,
                "there is nothing here; try /, /metrics, /healthz or /readyz\n",
            ),
        }
    }

    fn metrics(&self) -> Response<Body> {
        respond(StatusCode::OK, OPEN_METRICS, exposition(&self.shared))
    }

    /// Ready from the start, because the agent opens its listeners and reads its configuration before it serves anything, until it stops.
    /// What is wrong with a rejected configuration may quote it, so that only the log and the administrators' socket say it.
    fn ready(&self) -> Response<Body> {
        if *self.stop.borrow() {
            let message = "not ready: the agent stops; requests under way may finish\n";
            return text(StatusCode::SERVICE_UNAVAILABLE, message);
        }
        let config = match self.shared.reloads().last {
            Some(last) if last.error.is_some() => {
                format!(
                    "the new configuration was rejected at {}, and the old one stays in use; `keyfob agent status` says why",
                    rfc3339(last.time)
                )
            }
            Some(last) => format!("read at {}", rfc3339(last.time)),
            None => format!("read at {}", rfc3339(self.shared.started)),
        };
        text(StatusCode::OK, format!("ready\nconfiguration: {config}\n"))
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    respond(status, TEXT, body)
}

/// A response that no browser keeps or takes for something else.
pub(super) fn respond(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
