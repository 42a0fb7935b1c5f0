//! HTTP/1.1 over TLS, for the webhook, and for the API server of `keyfob-playground`.
//!
//! Connections, their limits and who makes way for whom are [`keyfob_net::server`]'s. Here are the certificates, and one rule: a
//! request is read as a whole before anybody answers it, so that nothing behind this waits for a client.

mod certificates;
mod tls;

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use hyper::service::{Service as _, service_fn};
use hyper_util::service::TowerToHyperService;
use keyfob_net::server::{self, RequestBody};
use rustls::ServerConfig;
use tokio::net::TcpListener;

pub use certificates::{CertificateError, Certificates};
pub use keyfob_net::server::{Limits, Pace};
pub use tls::{TlsError, tls_from_pem, tls_with};

/// Serves until `stop` is done, then lets requests finish for as long as the limits say.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    app: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |request| answer(request, app.clone()));
    server::serve(listener, Some(tls), service, limits, stop).await;
}

async fn answer(
    request: http::Request<RequestBody>,
    app: TowerToHyperService<Router>,
) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    match body.into_bytes().await {
        Ok(body) => app.call(Request::from_parts(parts, Body::from(body))).await,
        Err(error) => Ok((error.status(), format!("{error}\n")).into_response()),
    }
}
