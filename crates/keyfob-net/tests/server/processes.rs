//! Which process a request comes from.

use std::{convert::Infallible, future};

use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Bytes, service::service_fn};
use keyfob_exec::PeerProcess;
use keyfob_net::server::{Limits, Listener, RequestBody, serve};
use rustix::process::{getegid, geteuid, getpid};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

/// Answers with what the extensions of the request say about its process.
async fn name_the_process(
    request: Request<RequestBody>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let process = request.extensions().get::<PeerProcess>();
    let described = process.map_or("none".to_owned(), |it| {
        assert!(it.proc_directory().is_ok() && it.is_running().unwrap(), "{it:?}");
        assert_eq!(it.status().unwrap().uids, [it.uid(); 4]);
        format!("{it:?}")
    });
    Ok(Response::new(described.into()))
}

fn start(listener: impl Into<Listener>) {
    let service = service_fn(name_the_process);
    let forever = future::pending();
    tokio::spawn(serve(listener.into(), None, service, Limits::default(), forever));
}

/// Sends two requests over one connection, and returns the bodies of the responses.
async fn ask_twice(stream: impl AsyncRead + AsyncWrite + Unpin) -> [String; 2] {
    let mut stream = BufReader::new(stream);
    let mut bodies = [String::new(), String::new()];
    for body in &mut bodies {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim_end().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).await.unwrap();
        *body = String::from_utf8(bytes).unwrap();
    }
    bodies
}

#[tokio::test]
async fn every_request_of_a_unix_connection_names_the_process_that_opened_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    start(UnixListener::bind(&path).unwrap());
    let (uid, gid, pid) = (geteuid().as_raw(), getegid().as_raw(), getpid().as_raw_pid());
    let own = format!("PeerProcess {{ uid: {uid}, gid: {gid}, pid: {pid}, has_pidfd: ");
    for answer in ask_twice(UnixStream::connect(&path).await.unwrap()).await {
        assert!(answer.starts_with(&own) && answer.ends_with("identified: Ok(()) }"), "{answer}");
    }
}

#[tokio::test]
async fn a_request_of_a_tcp_connection_names_no_process() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    start(listener);
    let stream = TcpStream::connect(address).await.unwrap();
    PeerProcess::of_connection(&stream).unwrap_err();
    assert_eq!(ask_twice(stream).await, ["none", "none"]);
}
