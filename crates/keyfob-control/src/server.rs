//! HTTP/1.1 over TLS, for the webhook and the embedded API server.
//!
//! Nothing that a client does takes it down: handshake, headers, body and answer have a time, headers and body a size,
//! connections a number, and what goes wrong with one of them ends that one.

mod certificates;
mod impatient;
mod tls;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tracing::debug;

use self::impatient::Impatient;
pub use certificates::{CertificateError, Certificates};
pub use tls::{TlsError, tls_from_pem, tls_with};

/// What a client may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time; more wait to be accepted.
    pub connections: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long a connection may be silent before, and need for, the head of a request.
    pub head: Duration,
    /// How long the body of a request may need.
    pub body: Duration,
    /// Bytes of the body of a request.
    pub body_size: usize,
    /// How long a client may leave an answer unread.
    pub write: Duration,
    /// How long requests may go on after the stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            body: Duration::from_secs(10),
            body_size: 1 << 20,
            write: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// The bytes of a request's head.
const HEAD_SIZE: usize = 64 << 10;
/// When the system has no socket left, trying again at once would only burn a core.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

/// Serves until `stop` is done, then lets requests end for as long as the limits say.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    app: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let app = app.layer(middleware::from_fn_with_state(limits, whole_body));
    let server = Server {
        tls: TlsAcceptor::from(tls),
        app,
        limits,
        free: Arc::new(Semaphore::new(limits.connections)),
    };
    server.run(listener, stop).await;
}

/// What every connection shares.
#[derive(Clone)]
struct Server {
    tls: TlsAcceptor,
    app: Router,
    limits: Limits,
    free: Arc<Semaphore>,
}

impl Server {
    async fn run(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        debug!(%error, "a connection ended badly");
                    }
                }
                Some(connection) = self.accept(&listener, &graceful) => {
                    connections.spawn(connection);
                }
            }
        }
        drop(listener);
        if timeout(self.limits.drain, graceful.shutdown()).await.is_err() {
            debug!(connections = connections.len(), "requests went on after the stop; cut off");
        }
        connections.shutdown().await;
    }

    /// The next connection, once there is room for one more.
    async fn accept(
        &self,
        listener: &TcpListener,
        graceful: &GracefulShutdown,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let room = Arc::clone(&self.free).acquire_owned().await.ok()?;
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (server, watcher) = (self.clone(), graceful.watcher());
                Some(async move {
                    if let Err(error) = server.talk(stream, watcher).await {
                        debug!(%peer, error, "connection dropped");
                    }
                    drop(room);
                })
            }
            Err(error) => {
                debug!(%error, "cannot accept a connection");
                sleep(AFTER_FAILED_ACCEPT).await;
                None
            }
        }
    }

    async fn talk(self, stream: TcpStream, watcher: Watcher) -> Result<(), String> {
        let handshake = timeout(self.limits.handshake, self.tls.accept(stream)).await;
        let stream = handshake.map_err(|_| "the handshake took too long".to_owned())?;
        let stream = stream.map_err(|error| error.to_string())?;
        let stream = Impatient::new(stream, self.limits.write);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_header_size(HEAD_SIZE)
            .max_buf_size(HEAD_SIZE)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.app));
        watcher.watch(connection).await.map_err(|error| error.to_string())
    }
}

/// Nobody behind this waits for a client.
async fn whole_body(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match timeout(limits.body, to_bytes(body, limits.body_size)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}
