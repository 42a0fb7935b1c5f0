//! A request on its way.

use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::{BoxError, Service};

use super::{Shared, copy::RequestCopy, send};

pin_project! {
    /// The answer of an [`ExecService`](crate::ExecService).
    pub struct ExecFuture<S, B, R>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        pub(super) stage: Stage<S::Future, R>,
        pub(super) sent: Option<Sent<S>>,
        pub(super) copy: RequestCopy<B>,
    }
}

pin_project! {
    #[project = Projected]
    pub(super) enum Stage<F, R> {
        /// On its way.
        Sent { #[pin] future: F },
        /// Waits for a credential, before or after.
        Slow { future: Slow<R> },
    }
}

/// With which credential a request was sent; none if it brought its own.
pub(super) struct Sent<S> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) generation: u64,
    /// Whether nobody knows yet that the server accepts it.
    pub(super) is_new: bool,
}

pub(super) type Slow<R> = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

impl<S, B, R> Future for ExecFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Send + 'static,
    R: Send + 'static,
{
    type Output = Result<Response<R>, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let polled = match this.stage.as_mut().project() {
            Projected::Slow { future } => return future.as_mut().poll(cx),
            Projected::Sent { future } => future.poll(cx),
        };
        // An answer is large, and moved no more than it must be.
        let status = match &polled {
            Poll::Ready(Ok(response)) => response.status(),
            _ => return polled.map_err(Into::into),
        };
        match this.sent {
            Some(sent) if status == StatusCode::UNAUTHORIZED => {
                let response = ready!(polled).map_err(Into::into)?;
                let copy = mem::replace(this.copy, RequestCopy::empty());
                let shared = Arc::clone(&sent.shared);
                let mut refused = Box::pin(send::refused(shared, sent.generation, copy, response));
                let polled = refused.as_mut().poll(cx);
                this.stage.set(Stage::Slow { future: refused });
                return polled;
            }
            Some(sent) if sent.is_new => sent.shared.authenticator.accepted(sent.generation),
            _ => {}
        }
        polled.map_err(Into::into)
    }
}

impl<S, B, R> fmt::Debug for ExecFuture<S, B, R>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecFuture")
    }
}
