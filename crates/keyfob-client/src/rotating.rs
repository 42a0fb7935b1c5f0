//! Connections that are always made with the current certificate.
//!
//! A rustls configuration resumes sessions, and a pool keeps connections: both remember who the client was. So each identity
//! gets a service of its own, with its own sessions and its own pool, and the one before is closed or left to drain.
//!
//! Upstream: `UpdateTransportConfig` in `plugin/pkg/client/auth/exec/exec.go` and `util/connrotation`.
//! Differs: a connection that is being set up with the new certificate is never closed with the old ones, whatever the clock says
//! (kubernetes/kubernetes#106768); connections may also be left to drain. A handshake never runs the plugin for a request that
//! it was run for already, even if the answer has expired by then: the header and the certificate are of one answer.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll},
};

use arc_swap::ArcSwapOption;
use http::Request;
use keyfob_exec::BoxFuture;
use rustls::{
    ClientConfig,
    client::{ResolvesClientCert, Resumption},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tower::{BoxError, Service, ServiceExt as _};

use crate::{
    AuthError, Authenticator, Credential, Identity, IdentityObserver, OldConnections,
    layer::Fetched,
};

/// Sends each request through a service that was made for the current identity.
///
/// `poll_ready` of the services is awaited inside of `call`: they come and go.
pub struct Rotating<S>(Arc<Shared<S>>);

/// A service that knows one identity, and how to end its connections.
#[expect(clippy::exhaustive_structs, reason = "callers build it, and nothing else is needed")]
pub struct Opened<S> {
    /// The service.
    pub service: S,
    /// Ends every connection that it has, and those that it is making.
    pub close: Box<dyn Fn() + Send + Sync>,
}

type Open<S> = Box<dyn Fn(Option<&Arc<Identity>>) -> Opened<S> + Send + Sync>;

struct Shared<S> {
    authenticator: Authenticator,
    open: Open<S>,
    current: ArcSwapOption<Era<S>>,
    /// Held while an era begins, so that no two begin at once.
    beginning: Mutex<()>,
}

/// The time of one identity.
struct Era<S> {
    identity: Option<Arc<Identity>>,
    opened: Opened<S>,
}

impl<S: Clone + Send + Sync + 'static> Rotating<S> {
    /// Opens a service for each identity of an authenticator, when it is needed.
    pub fn new(
        authenticator: Authenticator,
        open: impl Fn(Option<&Arc<Identity>>) -> Opened<S> + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            authenticator,
            open: Box::new(open),
            current: ArcSwapOption::empty(),
            beginning: Mutex::default(),
        });
        let observer: Weak<dyn IdentityObserver> = Arc::downgrade(&shared) as _;
        shared.authenticator.observe(observer);
        Self(shared)
    }
}

impl<S> Shared<S> {
    /// A credential that is good, or was fetched for this very request.
    async fn credential(&self, fetched: Option<Fetched>) -> Result<Arc<Credential>, AuthError> {
        if let Some(credential) = self.authenticator.ready() {
            return Ok(credential);
        }
        let current = self.authenticator.current();
        match current.filter(|current| Some(Fetched(current.generation())) == fetched) {
            Some(credential) => Ok(credential),
            None => self.authenticator.credential().await,
        }
    }
}

impl<S: Clone> Shared<S> {
    fn service(&self, identity: Option<&Arc<Identity>>) -> S {
        if let Some(era) = self.current.load().as_ref().filter(|era| era.is_of(identity)) {
            return era.opened.service.clone();
        }
        let _beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(era) = self.current.load().as_ref().filter(|era| era.is_of(identity)) {
            return era.opened.service.clone();
        }
        let era = Era { identity: identity.cloned(), opened: (self.open)(identity) };
        let service = era.opened.service.clone();
        let before = self.current.swap(Some(Arc::new(era)));
        if let Some(before) = before
            && self.authenticator.behaviour().old_connections == OldConnections::Close
        {
            (before.opened.close)();
        }
        service
    }
}

impl<S> Era<S> {
    fn is_of(&self, identity: Option<&Arc<Identity>>) -> bool {
        match (&self.identity, identity) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            (None, None) => true,
            _ => false,
        }
    }
}

/// Nobody waits for the next request: a watch may be all there is, for hours.
impl<S: Clone + Send + Sync> IdentityObserver for Shared<S> {
    fn identity_changed(&self, identity: Option<&Arc<Identity>>) {
        if self.current.load().is_some() {
            self.service(identity);
        }
    }
}

impl<S, B> Service<Request<B>> for Rotating<S>
where
    S: Service<Request<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let fetched = request.extensions().get().copied();
            let credential = shared.credential(fetched).await?;
            let service = shared.service(credential.identity());
            service.oneshot(request).await.map_err(Into::into)
        })
    }
}

/// The configuration for one identity, or for none: it presents that certificate and remembers sessions of nobody else.
#[must_use]
pub fn presenting(config: &ClientConfig, identity: Option<&Arc<Identity>>) -> ClientConfig {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(256);
    config.client_auth_cert_resolver = match identity {
        Some(identity) => Arc::new(SingleCertAndKey::from(Arc::clone(identity.certified()))),
        None => Arc::new(Nobody),
    };
    config
}

/// Presents nothing.
#[derive(Debug)]
struct Nobody;

impl ResolvesClientCert for Nobody {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

impl<S> Clone for Rotating<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> fmt::Debug for Rotating<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotating")
            .field("authenticator", &self.0.authenticator)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for Opened<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConfig, RootCertStore};

    use super::*;

    #[test]
    fn a_configuration_for_nobody_presents_nothing_and_keeps_its_own_sessions() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        assert!(!presenting(&config, None).client_auth_cert_resolver.has_certs());
    }
}
