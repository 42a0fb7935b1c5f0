//! One pool of connections for all clients that would have equal ones.
//!
//! Upstream: `tlsTransportCache` in `transport/cache.go`. As there a proxy makes a transport one of its own.
//! Differs: one that no client uses any more is closed.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use hyper::body::Incoming;
use keyfob_exec::BoxFuture;
use kube::{Config, client::Body};
use tower::{BoxError, Service, ServiceExt as _};

use super::{ClientError, transport::Http};
use crate::{Authenticator, Identity};

/// The transports that are in use. A clone knows the same.
#[derive(Clone, Default)]
pub(super) struct Transports(Arc<Mutex<Vec<Known>>>);

/// One that is there for as long as somebody uses it.
type Known = (Key, Weak<Http>);

impl Transports {
    pub(super) fn get_or_open(
        &self,
        key: Option<Key>,
        open: impl FnOnce() -> Result<Http, ClientError>,
    ) -> Result<Transport, ClientError> {
        let Some(key) = key else { return Ok(Transport(Arc::new(open()?))) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, transport)| transport.strong_count() > 0);
        let found = known.iter().find(|(each, _)| *each == key);
        if let Some(transport) = found.and_then(|(_, transport)| transport.upgrade()) {
            return Ok(Transport(transport));
        }
        let transport = Arc::new(open()?);
        known.push((key, Arc::downgrade(&transport)));
        Ok(Transport(transport))
    }
}

/// What makes two transports equal.
pub(super) struct Key {
    roots: Option<Vec<Vec<u8>>>,
    roots_file: Option<PathBuf>,
    insecure: bool,
    server_name: Option<String>,
    timeouts: [Option<Duration>; 3],
    reset_reader_on_write: bool,
    disable_compression: bool,
    authenticator: Option<Authenticator>,
    identity: Option<Arc<Identity>>,
}

impl Key {
    /// `None` if nobody else can have an equal one.
    pub(super) fn new(
        config: &Config,
        authenticator: Option<&Authenticator>,
        identity: Option<&Arc<Identity>>,
    ) -> Option<Self> {
        config.proxy_url.is_none().then(|| Self {
            roots: config.root_cert.clone(),
            roots_file: config.root_cert_file.clone(),
            insecure: config.accept_invalid_certs,
            server_name: config.tls_server_name.clone(),
            timeouts: [config.connect_timeout, config.read_timeout, config.write_timeout],
            reset_reader_on_write: config.reset_reader_on_write,
            disable_compression: config.disable_compression,
            authenticator: authenticator.cloned(),
            identity: identity.cloned(),
        })
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let same_user = match (&self.identity, &other.identity) {
            (Some(ours), Some(theirs)) => ours.is_same(theirs),
            (None, None) => true,
            _ => false,
        };
        same_user
            && self.authenticator == other.authenticator
            && self.roots == other.roots
            && self.roots_file == other.roots_file
            && self.insecure == other.insecure
            && self.server_name == other.server_name
            && self.timeouts == other.timeouts
            && self.reset_reader_on_write == other.reset_reader_on_write
            && self.disable_compression == other.disable_compression
    }
}

/// A transport that is shared. It is closed with the last clone.
#[derive(Clone)]
pub(super) struct Transport(Arc<Http>);

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.as_ref().clone().oneshot(request))
    }
}

impl fmt::Debug for Transports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transports")
    }
}
