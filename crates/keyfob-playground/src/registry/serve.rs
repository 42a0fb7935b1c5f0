//! HTTP/1.1 on loopback. What a client may cost is up to [`keyfob_net::server`].

use std::{convert::Infallible, sync::Arc};

use hyper::service::service_fn;
use keyfob_net::server;
use tokio::net::TcpListener;

use super::Server;

/// Serves until the registry is to stop, then lets requests end for as long as the limits say.
pub(super) async fn serve(listener: TcpListener, server: Arc<Server>) {
    let answering = Arc::clone(&server);
    let service = service_fn(move |request| {
        let server = Arc::clone(&answering);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let limits = server::Limits::from(&server.limits);
    server::serve(listener, None, service, limits, server.stopped()).await;
}
