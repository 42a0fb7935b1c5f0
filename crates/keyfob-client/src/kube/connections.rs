//! Connections that can be ended from outside.
//!
//! Upstream: `util/connrotation`.
//! Differs: a connection that was still being made when the others were closed is closed too.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, ready},
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use keyfob_exec::BoxFuture;
use rustix::net::Shutdown;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tower::{BoxError, Service};

/// The connections of one identity. A clone knows the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    closed: bool,
    open: Vec<Weak<TcpStream>>,
}

impl Connections {
    /// Ends all, whatever is under way on them, and those that come later.
    pub(super) fn close(&self) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.closed = true;
        for stream in list.open.drain(..).filter_map(|stream| stream.upgrade()) {
            end(&stream);
        }
    }

    fn add(&self, stream: TcpStream) -> Tracked {
        let stream = Arc::new(stream);
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.closed {
            end(&stream);
        }
        list.open.retain(|stream| stream.strong_count() > 0);
        list.open.push(Arc::downgrade(&stream));
        Tracked(stream)
    }
}

/// Whoever reads or writes is woken. One that is gone already needs no ending.
fn end(stream: &TcpStream) {
    rustix::net::shutdown(stream, Shutdown::Both).unwrap_or_default();
}

/// Connects, and remembers what it connected.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) http: HttpConnector,
    pub(super) connections: Connections,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Tracked>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.http.call(uri);
        let connections = self.connections.clone();
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(connections.add(stream)))
        })
    }
}

/// A connection that is known.
#[derive(Debug)]
pub(super) struct Tracked(Arc<TcpStream>);

impl Connection for Tracked {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Tracked {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Tracked {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.0, Shutdown::Write).map_err(Into::into))
    }
}
