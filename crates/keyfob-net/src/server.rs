//! The HTTP/1.1 server of every command that listens.
//!
//! The server assumes hostile clients. Each connection belongs to a [`Peer`], and a peer has a share of the connections: a
//! newcomer beyond it replaces the peer's own longest-idle connection. When all places are taken, the longest-idle connection of
//! the peer with the most connections makes way. So a newcomer gets in as long as some connection is idle, whoever opened it.
//!
//! - `limits`: what a client may cost. `peer`: who counts as one client. `listener`: where connections come from.
//! - `socket_file`: makes a unix socket, and removes it.
//! - `loopback`: by which names a server on loopback may be called.
//! - `connections`: the table of open connections; it decides who makes way. Everything else only reports to it.
//! - `socket`: reports reads and writes, and cuts off clients that do not read. `pace`: how slow is too slow.
//! - `request_body`: reads a request's body in bounded time and memory.
//!
//! A connection is idle unless a request is being answered: while it is silent, and while the head of a request trickles in. A
//! connection whose request body is still arriving makes way after all idle ones, and one whose client does not read the response
//! after those. A request that is being handled, a response that waits for its next event (a watch) and an upgraded connection
//! never make way.

mod connections;
mod limits;
mod listener;
mod loopback;
mod pace;
mod peer;
mod request_body;
mod response_body;
mod socket;
mod socket_file;

use std::{error::Error, pin::pin, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::TokioIo;
use keyfob_exec::PeerProcess;
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
    time::{Instant, interval, sleep_until, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tracing::debug;

pub use self::{
    connections::{Connection, OpenConnections},
    limits::Limits,
    listener::Listener,
    loopback::LoopbackNames,
    pace::Pace,
    peer::Peer,
    request_body::{BodyError, RequestBody},
    socket_file::{SocketFile, SocketFileError},
};
use self::{
    connections::{Connections, Pool, Reason, Slot},
    listener::{Accepted, Io, is_of_the_connection},
    response_body::ResponseBody,
    socket::Socket,
};

type BoxError = Box<dyn Error + Send + Sync>;

/// How long after the stop a client that has connected before it may take to send its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// How long accepting pauses when the process has no file descriptor or memory left for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until `stop` is done, then lets requests finish for as long as the limits say.
///
/// Whoever connected to a unix socket before the stop is answered too, if the connection still waits in the socket's queue: the client
/// cannot know that it came late. So a socket whose name has been given to another server loses no request.
///
/// With a TLS configuration every connection starts with a handshake. A request that came over a unix socket has the
/// [`PeerProcess`] that opened its connection among its extensions, if the system tells who that is. Dropping the future closes all connections that have not been
/// upgraded.
pub async fn serve<S, B>(
    listener: impl Into<Listener>,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    limits: Limits,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    serve_counted(listener, tls, service, (limits, OpenConnections::default()), stop).await;
}

/// The same as [`serve`], with a count of the connections that somebody else can read.
pub async fn serve_counted<S, B>(
    listener: impl Into<Listener>,
    tls: Option<Arc<ServerConfig>>,
    service: S,
    (limits, open): (Limits, OpenConnections),
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let listener = listener.into();
    let limits = limits.within_the_file_limit(listener.files_per_connection());
    let (draining, drain) = watch::channel(false);
    let server = Server {
        tls: tls.map(TlsAcceptor::from),
        service,
        connections: Connections::new(limits, open),
        drain,
    };
    let mut tasks = JoinSet::new();
    server.accept_until(stop, &listener, &mut tasks).await;
    // New ones may go on to arrive if another process listens on the socket too, so there is a limit.
    for accepted in listener.into_queued().take(limits.connections) {
        server.welcome(accepted, &mut tasks).await;
    }

    draining.send_replace(true);
    server.connections.evict_handshakes();
    // Heads that do not end have their time limit now as before.
    let mut sweep = interval(limits.sweep_interval());
    let all = async {
        loop {
            tokio::select! {
                ended = tasks.join_next() => if ended.is_none() { return },
                _ = sweep.tick() => server.connections.sweep(),
            }
        }
    };
    if timeout(limits.drain, all).await.is_err() {
        debug!(
            connections = tasks.len(),
            "requests went on after the stop; their connections are closed"
        );
    }
    tasks.shutdown().await;
}

/// What all connections of a listener share.
#[derive(Clone)]
struct Server<S> {
    tls: Option<TlsAcceptor>,
    service: S,
    connections: Arc<Connections>,
    /// Becomes true when the server stops.
    drain: watch::Receiver<bool>,
}

impl<S, B> Server<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    async fn accept_until(
        &self,
        stop: impl Future<Output = ()>,
        listener: &Listener,
        tasks: &mut JoinSet<()>,
    ) {
        let mut stop = pin!(stop);
        let mut sweep = interval(self.connections.limits.sweep_interval());
        let mut paused_until = Instant::now();
        loop {
            let accept = async {
                sleep_until(paused_until).await;
                listener.accept().await
            };
            tokio::select! {
                () = &mut stop => return,
                _ = sweep.tick(), if !self.connections.is_empty() => self.connections.sweep(),
                accepted = accept => match accepted {
                    Ok(accepted) => self.welcome(accepted, tasks).await,
                    Err(error) if is_of_the_connection(&error) => {
                        debug!(%error, "a connection ended before it was accepted");
                    }
                    Err(error) => {
                        debug!(%error, "cannot accept a connection; an idle one makes way");
                        self.connections.evict_any();
                        paused_until = Instant::now() + ACCEPT_PAUSE;
                    }
                },
            }
            while tasks.try_join_next().is_some() {}
        }
    }

    /// Serves a connection on a task of its own, if there is a place for it.
    async fn welcome(&self, accepted: Accepted, tasks: &mut JoinSet<()>) {
        let peer = accepted.peer;
        let mut admitted = None;
        if self.tls.is_none() {
            admitted = self.connections.admit(peer, Pool::Requests).await;
        }
        // For a handshake, or to wait for a place.
        if admitted.is_none() {
            admitted = self.connections.admit(peer, Pool::Handshakes).await;
        }
        let Some((slot, evicted)) = admitted else {
            debug!(%peer, "connection refused: no other can make way for it");
            return;
        };
        let server = self.clone();
        tasks.spawn(async move {
            if let Err(error) = server.supervise(accepted, slot, evicted).await {
                debug!(%peer, error, "connection dropped");
            }
        });
    }

    async fn supervise(
        self,
        accepted: Accepted,
        slot: Slot,
        evicted: oneshot::Receiver<Reason>,
    ) -> Result<(), BoxError> {
        tokio::select! {
            biased;
            Ok(reason) = evicted => Err(reason.into()),
            served = self.talk(accepted, slot) => served,
        }
    }

    async fn talk(self, accepted: Accepted, slot: Slot) -> Result<(), BoxError> {
        let Accepted { stream, process, .. } = accepted;
        let connection = slot.connection.clone();
        let socket = Socket::new(stream, slot);
        let stream: Box<dyn Io> = match &self.tls {
            None => Box::new(socket),
            Some(tls) => Box::new(tls.accept(socket).await?),
        };
        connection.gets_a_place().await;
        let limits = self.connections.limits;
        let service = service_fn(|request| self.answer(request, &connection, process.as_ref()));
        let serving = http1::Builder::new()
            // The table of connections watches over idle connections and slow heads.
            .header_read_timeout(None)
            .max_header_size(limits.buffer)
            .max_buf_size(limits.buffer)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let (mut serving, mut drain) = (pin!(serving), self.drain.clone());
        tokio::select! {
            served = serving.as_mut() => return served.map_err(Into::into),
            _ = drain.wait_for(|draining| *draining) => {}
        }
        // A client that has only just connected is about to send its request, or has sent it already.
        if !connection.has_spoken()
            && let Ok(served) = timeout(FIRST_REQUEST, serving.as_mut()).await
        {
            return served.map_err(Into::into);
        }
        serving.as_mut().graceful_shutdown();
        serving.await.map_err(Into::into)
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Connection,
        process: Option<&PeerProcess>,
    ) -> Result<Response<ResponseBody<B>>, S::Error> {
        let mut request = request.map(|body| RequestBody::new(body, connection.clone()));
        if let Some(process) = process {
            request.extensions_mut().insert(process.clone());
        }
        let response = self.service.call(request).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            connection.upgrades();
        }
        Ok(response.map(|body| ResponseBody::new(body, connection.clone())))
    }
}
