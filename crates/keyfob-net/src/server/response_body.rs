//! A response on its way.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Frame, SizeHint};

use super::Connection;

/// The body of a response. When it is dropped the request is answered, and its connection is idle.
pub(super) struct ResponseBody<B> {
    body: Pin<Box<B>>,
    connection: Connection,
}

impl<B> ResponseBody<B> {
    pub(super) fn new(body: B, connection: Connection) -> Self {
        Self { body: Box::pin(body), connection }
    }
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        self.connection.is_answered();
    }
}
