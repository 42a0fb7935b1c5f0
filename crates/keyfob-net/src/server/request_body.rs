//! The body of a request, in bounded time and memory.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::StatusCode;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use thiserror::Error;

use super::{Connection, connections::Reservation, pace::Stopwatch};

/// The body of a request. It fails if it arrives too slowly.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    stopwatch: Stopwatch,
    connection: Connection,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, connection: Connection) -> Self {
        connection.has_a_request(body.is_end_stream());
        Self { body, stopwatch: Stopwatch::new(connection.limits().body), connection }
    }

    /// The connection that the request came on.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads all of it into memory, which counts against [`Limits::buffered`](super::Limits::buffered) until the last clone of the
    /// bytes is dropped.
    pub async fn into_bytes(mut self) -> Result<Bytes, BodyError> {
        let most = self.connection.limits().body_size;
        let read = self.read_up_to(most).await;
        if let Err(BodyError::TooLarge(_) | BodyError::TooBusy) = &read {
            self.discard().await;
        }
        read.map(Bytes::from_owner)
    }

    async fn read_up_to(&mut self, most: usize) -> Result<Buffer, BodyError> {
        let mut buffer = Buffer { bytes: Vec::new(), room: self.connection.reservation() };
        let size = usize::try_from(self.body.size_hint().lower()).unwrap_or(usize::MAX);
        if size > most {
            return Err(BodyError::TooLarge(most));
        }
        while let Some(data) = self.next_data().await {
            buffer.append(&data?, most).await?;
        }
        Ok(buffer)
    }

    /// Reads some of what is left and throws it away: a connection that is closed with unread bytes loses its response, and the
    /// client would not learn what was wrong.
    pub async fn discard(&mut self) {
        const MOST: usize = 1 << 20;
        let mut read = 0;
        while read < MOST
            && let Some(Ok(data)) = self.next_data().await
        {
            read += data.len();
        }
    }

    /// The next piece of the body. Trailers are skipped.
    async fn next_data(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            match poll_fn(|context| Pin::new(&mut *self).poll_frame(context)).await? {
                Err(error) => return Some(Err(error)),
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
            }
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => {
                ready!(self.stopwatch.poll_waits(context));
                Poll::Ready(Some(Err(BodyError::TooSlow)))
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.stopwatch.progress(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyError::Broken(error)))),
            Poll::Ready(None) => {
                self.connection.has_the_body();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.connection.has_the_body();
    }
}

/// The bytes of a body, and the room in memory that was reserved for them.
struct Buffer {
    bytes: Vec<u8>,
    room: Reservation,
}

impl Buffer {
    /// The data is copied: a piece of a body may keep alive all that was read from the connection with it.
    async fn append(&mut self, data: &[u8], most: usize) -> Result<(), BodyError> {
        let length = self.bytes.len() + data.len();
        if length > most {
            return Err(BodyError::TooLarge(most));
        }
        if length > self.bytes.capacity() {
            let capacity = (2 * self.bytes.capacity()).max(length).min(most);
            if !self.room.grow(capacity - self.bytes.capacity()).await {
                return Err(BodyError::TooBusy);
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Why there is no body.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It does not end in time.
    #[error("the body of the request arrives too slowly")]
    TooSlow,
    /// It is longer than the server reads.
    #[error("the body of the request has more than {0} bytes")]
    TooLarge(usize),
    /// The bodies of other requests take up the memory that there is for bodies.
    #[error("the server holds too many request bodies; try again later")]
    TooBusy,
    /// The client broke off.
    #[error("the body of the request cannot be read")]
    Broken(#[source] hyper::Error),
}

impl BodyError {
    /// How an HTTP response puts it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooBusy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}
