//! A stream that is not written to for ever: a client that reads nothing is cut off, else it would keep its connection, and
//! of those there is a number.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Fails a write that waits for too long.
pub(super) struct Impatient<S> {
    stream: S,
    patience: Duration,
    /// When the write that waits has waited enough.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, deadline: None }
    }
}

impl<S: AsyncWrite + Unpin> Impatient<S> {
    fn write<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, S::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, S::poll_shutdown)
    }
}
