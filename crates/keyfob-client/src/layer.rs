//! The header of a request, and what follows a 401.
//!
//! A request that has an `Authorization` of its own is passed on as it is. Any other gets the credential that is there, or
//! waits for one. After a 401 a request that can be sent again is sent again with a new credential: the plugin is run, unless
//! there is a newer credential already. After the last attempt the 401 is handed on and the credential invalidated; the plugin
//! is not run for that, but for the next request. So a server that refuses everything costs two runs for the first request.
//!
//! With a credential that is there nothing is boxed, locked or allocated: a request is copied as bytes into the future that
//! sends it, because the first clone of a [`Uri`](http::Uri) or of a header's value allocates.
//!
//! Upstream: `roundTripper` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: a request is sent again after a 401 (upstream never does); the plugin is run only for an answer that a request uses
//! (upstream: after each 401, before it is handed on).

mod body;
mod copy;
mod future;
mod send;

use std::{
    fmt, mem,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use thiserror::Error;
use tower::{BoxError, Layer, Service};

pub use body::ReplayBody;
pub use future::ExecFuture;

use crate::{AuthError, Authenticator, Credential, UnusableToken};
use copy::{CloneBody, RequestCopy};
use future::{Sent, Slow, Stage};

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

impl<S: Clone, B> Layer<S> for ExecLayer<B> {
    type Service = ExecService<S, B>;

    fn layer(&self, inner: S) -> ExecService<S, B> {
        let authenticator = self.authenticator.clone();
        let shared = Arc::new(Shared { authenticator, spare: Mutex::new(inner.clone()) });
        ExecService { inner, shared, clone_body: self.clone_body, kept: None }
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
    shared: Arc<Shared<S>>,
    clone_body: CloneBody<B>,
    /// The credential of the last request: most of the time it is that of the next.
    kept: Option<Arc<Credential>>,
}

/// What a request needs again after a 401. One reference, whatever the service costs to clone.
struct Shared<S> {
    authenticator: Authenticator,
    spare: Mutex<S>,
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
    type Future = ExecFuture<S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> ExecFuture<S, B, R> {
        let mut copy = RequestCopy::of_body(&request, self.clone_body);
        if copy.fill(&request) {
            let stage = Stage::Sent { future: self.inner.call(request) };
            return ExecFuture { stage, sent: None, copy };
        }
        let authenticator = &self.shared.authenticator;
        authenticator.keep_current(&mut self.kept);
        match &self.kept {
            Some(kept) if authenticator.is_usable(kept) => {
                if let Err(error) = authorize(request.headers_mut(), kept) {
                    let stage = Stage::Slow {
                        future: Box::pin(async move { Err(ExecError::Token(error).into()) }),
                    };
                    return ExecFuture { stage, sent: None, copy };
                }
                let generation = kept.generation();
                let is_new = !authenticator.has_been_accepted(generation);
                let sent = Some(Sent { shared: Arc::clone(&self.shared), generation, is_new });
                ExecFuture { stage: Stage::Sent { future: self.inner.call(request) }, sent, copy }
            }
            _ => {
                let stage = Stage::Slow { future: self.wait(request, copy) };
                ExecFuture { stage, sent: None, copy: RequestCopy::empty() }
            }
        }
    }
}

impl<S, B> ExecService<S, B> {
    /// There is no credential yet.
    #[cold]
    fn wait<R>(&mut self, request: Request<B>, copy: RequestCopy<B>) -> Slow<R>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Send + 'static,
        R: Send + 'static,
    {
        // The service that is ready is the one to call.
        let spare = self.inner.clone();
        let ready = mem::replace(&mut self.inner, spare);
        Box::pin(send::wait_and_send(Arc::clone(&self.shared), ready, request, copy))
    }
}

impl<S: Clone, B> Clone for ExecService<S, B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: Arc::clone(&self.shared),
            clone_body: self.clone_body,
            kept: self.kept.clone(),
        }
    }
}

impl<S, B> fmt::Debug for ExecService<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExecService").field(&self.shared.authenticator).finish()
    }
}

/// The generation that was fetched for a request, in its extensions. It is good for this request whatever its expiry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetched(pub(crate) u64);

/// Sets the header, if the credential has a token.
#[inline]
fn authorize(headers: &mut HeaderMap, credential: &Credential) -> Result<(), UnusableToken> {
    if let Some(value) = credential.authorization()? {
        headers.insert(AUTHORIZATION, value.clone());
    }
    Ok(())
}

/// Whether the caller has set the header; an empty one is none.
#[inline]
fn is_authorized(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|value| !value.is_empty())
}

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
