//! The header of a request, and what follows a 401.
//!
//! A request that has an `Authorization` of its own is passed on as it is. Any other gets the credential that is there, or
//! waits for one. After a 401 a request that can be sent again is sent again with a new credential: the plugin is run, unless
//! there is a newer credential already. After the last attempt the 401 is handed on and the credential invalidated; the plugin
//! is not run for that, but for the next request. So a server that refuses everything costs two runs for the first request.
//!
//! Upstream: `roundTripper` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: a request is sent again after a 401 (upstream never does); the plugin is run only for an answer that a request uses
//! (upstream: after each 401, before it is handed on).

mod body;
mod replay;
mod send;

use std::{
    fmt, mem,
    task::{Context, Poll},
};

use http::{Request, Response};
use keyfob_exec::BoxFuture;
use thiserror::Error;
use tower::{BoxError, Layer, Service};

pub use body::ReplayBody;

use crate::{AuthError, Authenticator, UnusableToken};
use replay::CloneBody;
use send::Sender;

/// Sets the `Authorization` header of requests with bodies `B`, and handles their 401s.
pub struct ExecLayer<B> {
    authenticator: Authenticator,
    clone_body: CloneBody<B>,
}

impl<B: ReplayBody> ExecLayer<B> {
    /// A layer that sends requests again after a 401, unless the authenticator's behaviour forbids it.
    pub fn new(authenticator: Authenticator) -> Self {
        let replays = authenticator.behaviour().replay;
        Self { authenticator, clone_body: if replays { B::try_clone } else { |_| None } }
    }
}

impl<B> ExecLayer<B> {
    /// A layer for bodies that cannot be sent twice: a 401 is handed on, and the next request gets a new credential.
    pub fn without_replay(authenticator: Authenticator) -> Self {
        Self { authenticator, clone_body: |_| None }
    }
}

impl<S, B> Layer<S> for ExecLayer<B> {
    type Service = ExecService<S, B>;

    fn layer(&self, inner: S) -> ExecService<S, B> {
        ExecService { inner, layer: self.clone() }
    }
}

impl<B> Clone for ExecLayer<B> {
    fn clone(&self) -> Self {
        Self { authenticator: self.authenticator.clone(), clone_body: self.clone_body }
    }
}

impl<B> fmt::Debug for ExecLayer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExecLayer").field(&self.authenticator).finish()
    }
}

/// A service behind an [`ExecLayer`].
///
/// Its errors are those of the service itself, or an [`ExecError`] in a box.
pub struct ExecService<S, B> {
    inner: S,
    layer: ExecLayer<B>,
}

impl<S, B, R> Service<Request<B>> for ExecService<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<R>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that is ready is the one to call.
        let next = self.inner.clone();
        let service = mem::replace(&mut self.inner, next);
        let ExecLayer { authenticator, clone_body } = self.layer.clone();
        Box::pin(Sender { authenticator, clone_body, service }.send(request))
    }
}

impl<S: Clone, B> Clone for ExecService<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, B> fmt::Debug for ExecService<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExecService").field(&self.layer.authenticator).finish()
    }
}

/// The generation that was fetched for a request, in its extensions. It is good for this request whatever its expiry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetched(pub(crate) u64);

/// Why a request was not sent.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ExecError {
    /// There is no credential. Upstream's sentence, so it is no source.
    #[error("getting credentials: {0}")]
    Credentials(AuthError),
    /// There is one, and it cannot be sent.
    #[error("{0}")]
    Token(UnusableToken),
}
