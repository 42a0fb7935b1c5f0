//! HTTP/1.1 on loopback.
//!
//! Nothing that a client does takes the registry down: heads, bodies and answers have a time, heads and bodies a size,
//! connections a number, and what goes wrong with one of them ends that one.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{
    Server,
    line::{Line, Scissors},
};

/// The bytes of a request's head.
const HEAD_SIZE: usize = 64 << 10;
/// What is read of a body, and kept of an answer that is not taken, at a time.
const BUFFER: usize = 256 << 10;
/// When the system has no socket left, trying again at once would only burn a core.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

/// Serves until the registry is to stop, then lets requests end for as long as the limits say.
pub(super) async fn serve(listener: TcpListener, server: Arc<Server>) {
    let mut connections = JoinSet::new();
    let graceful = GracefulShutdown::new();
    let free = Arc::new(Semaphore::new(server.limits.connections));
    let mut stopped = std::pin::pin!(server.stopped());
    loop {
        tokio::select! {
            () = &mut stopped => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    debug!(%error, "a connection ended badly");
                }
            }
            Some(connection) = accept(&server, &listener, &graceful, &free) => {
                connections.spawn(connection);
            }
        }
    }
    drop(listener);
    if timeout(server.limits.drain, graceful.shutdown()).await.is_err() {
        debug!(connections = connections.len(), "requests went on after the stop; cut off");
    }
    connections.shutdown().await;
}

/// The next connection, once there is room for one more.
async fn accept(
    server: &Arc<Server>,
    listener: &TcpListener,
    graceful: &GracefulShutdown,
    free: &Arc<Semaphore>,
) -> Option<impl Future<Output = ()> + use<>> {
    let room = Arc::clone(free).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            let (server, watcher) = (Arc::clone(server), graceful.watcher());
            Some(async move {
                if let Err(error) = talk(server, stream, watcher).await {
                    debug!(%error, "connection dropped");
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

async fn talk(server: Arc<Server>, stream: TcpStream, watcher: Watcher) -> hyper::Result<()> {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "small answers may come late");
    }
    let limits = server.limits;
    let scissors = Scissors::default();
    let line = Line::new(stream, limits.silence, scissors.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, scissors) = (Arc::clone(&server), scissors.clone());
        async move { Ok::<_, Infallible>(server.answer(request.map(Body::new), &scissors).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(HEAD_SIZE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(line), service);
    watcher.watch(connection).await
}
