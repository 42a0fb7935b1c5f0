//! The server, and clients that try to lock each other out of it.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod bodies;
mod crowds;
mod processes;
mod responses;

use std::{convert::Infallible, future, io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Bytes, Frame},
    service::service_fn,
    upgrade,
};
use hyper_util::rt::TokioIo;
use keyfob_net::server::{Limits, OpenConnections, Pace, RequestBody, serve_counted};
use keyfob_testkit::HostileClient;
use tokio::{
    net::TcpListener,
    sync::{Notify, oneshot},
    task::JoinHandle,
};

/// A server without TLS, on a task of its own.
struct Rig {
    address: SocketAddr,
    /// `/wait` is answered, and `/watch` has an event, once this is notified.
    event: Arc<Notify>,
    open: OpenConnections,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Rig {
    async fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let event = Arc::new(Notify::new());
        let (stop, stopped) = oneshot::channel();
        let answering = Arc::clone(&event);
        let service = service_fn(move |request| answer(request, Arc::clone(&answering)));
        let stopped = async { stopped.await.unwrap_or_default() };
        let open = OpenConnections::default();
        let task =
            tokio::spawn(serve_counted(listener, None, service, (limits, open.clone()), stopped));
        Self { address, event, open, stop, task }
    }

    /// A client at 127.0.0.N.
    fn client(&self, number: u8) -> HostileClient {
        HostileClient::plain([127, 0, 0, number], self.address)
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

#[track_caller]
fn is_ok(answer: io::Result<String>) {
    let answer = answer.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Small and impatient, so that nobody waits in a test.
fn small() -> Limits {
    let soon = Duration::from_millis(300);
    let pace = Pace { patience: soon, bytes_per_second: 1 << 20 };
    Limits {
        connections: 8,
        connections_per_peer: 4,
        handshake: soon,
        idle: soon,
        idle_when_crowded: soon,
        head: soon,
        body: pace,
        body_size: 1 << 20,
        response: pace,
        drain: soon,
        ..Limits::default()
    }
}

/// Small, and it waits for everybody: whoever makes way does so for another, not because of the time.
fn patient() -> Limits {
    let long = Duration::from_hours(1);
    let pace = Pace { patience: long, bytes_per_second: 1 };
    let timeless = Limits { idle: long, idle_when_crowded: long, head: long, ..small() };
    Limits { body: pace, response: pace, ..timeless }
}

async fn answer(
    mut request: Request<RequestBody>,
    event: Arc<Notify>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let text = |text: String| Full::from(text).boxed();
    let body = match request.uri().path() {
        "/wait" => {
            event.notified().await;
            text("waited".to_owned())
        }
        "/watch" => {
            let first = stream::once(future::ready("first\n"));
            let later = stream::once(async move {
                event.notified().await;
                "second\n"
            });
            let frames = first.chain(later).map(|it| Ok(Frame::data(Bytes::from(it))));
            BodyExt::boxed(StreamBody::new(frames))
        }
        "/large" => text("large".repeat(4 << 20)),
        "/upgrade" => {
            tokio::spawn(echo(upgrade::on(&mut request)));
            let response = Response::builder().status(101).header("upgrade", "echo");
            let response = response.header("connection", "upgrade");
            return Ok(response.body(text(String::new())).unwrap());
        }
        _ => match request.into_body().into_bytes().await {
            Ok(body) => text(format!("{} bytes", body.len())),
            Err(error) => {
                let response = Response::builder().status(error.status());
                return Ok(response.body(text(error.to_string())).unwrap());
            }
        },
    };
    Ok(Response::new(body))
}

async fn echo(upgrade: upgrade::OnUpgrade) {
    let (mut from, mut to) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
    tokio::io::copy(&mut from, &mut to).await.unwrap_or_default();
}
