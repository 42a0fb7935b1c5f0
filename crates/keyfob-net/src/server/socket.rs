//! A connection's socket, below TLS.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    connections::{Connection, Slot},
    listener::Io,
    pace::Stopwatch,
};

/// Reports what happens to the table of connections, and fails when the client does not read. The connection's place is free when
/// the socket is closed, also if the socket outlives the server's part of it because of an upgrade.
pub(super) struct Socket {
    stream: Box<dyn Io>,
    stopwatch: Stopwatch,
    is_blocked: bool,
    // Dropped after the stream.
    slot: Slot,
}

impl Socket {
    pub(super) fn new(stream: Box<dyn Io>, slot: Slot) -> Self {
        let stopwatch = Stopwatch::new(slot.connection.limits().response);
        Self { stream, stopwatch, is_blocked: false, slot }
    }

    fn connection(&self) -> &Connection {
        &self.slot.connection
    }

    /// Passes on what a write to the stream came to, unless it has been waiting for too long.
    fn wrote<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(Ok(written)) => {
                let bytes = bytes(&written);
                self.stopwatch.progress(bytes);
                if bytes > 0 || self.is_blocked {
                    self.is_blocked = false;
                    self.connection().has_written();
                }
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if !self.is_blocked {
                    self.is_blocked = true;
                    self.connection().is_blocked();
                }
                // The two ends of an upgraded connection agree on their pace among themselves.
                if self.connection().is_upgraded() {
                    return Poll::Pending;
                }
                ready!(self.stopwatch.poll_waits(context));
                let why = "the client does not read its response";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.connection().has_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, written, |bytes| *bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wrote(context, written, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        ready!(self.wrote(context, flushed, |()| 0))?;
        if self.connection().is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wrote(context, closed, |()| 0)
    }
}
