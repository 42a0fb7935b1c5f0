//! Clients who mean it ill, or are merely broken: each ends alone.

use std::{sync::Arc, time::Duration};

use keyfob_control::{embedded::Options, server::Limits};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{Cluster, get};

/// Impatient, so that nobody waits in a test.
fn limits() -> Limits {
    let soon = Duration::from_millis(200);
    Limits {
        connections: 4,
        handshake: soon,
        head: soon,
        body: soon,
        body_size: 1000,
        write: soon,
        drain: soon,
    }
}

async fn cluster() -> Cluster {
    Cluster::with(Options { limits: limits(), ..Options::default() }).await
}

async fn plain(cluster: &Cluster) -> TcpStream {
    TcpStream::connect(cluster.server.address()).await.unwrap()
}

async fn secure(cluster: &Cluster) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(cluster.server.authority().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, plain(cluster).await).await.unwrap()
}

/// What comes until the server hangs up.
async fn rest(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    let read = timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    // A connection may be cut rather than closed.
    drop(read.await.expect("the server hangs up"));
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn answers(cluster: &Cluster) {
    let asked = timeout(Duration::from_secs(20), get(&cluster.admin, "/version"));
    assert!(asked.await.expect("an answer").is_ok());
}

#[tokio::test]
async fn garbage_instead_of_a_handshake_ends_the_connection() {
    let cluster = cluster().await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], &[0x16, 3, 1, 0xff, 0xff, 1]] {
        let mut stream = plain(&cluster).await;
        stream.write_all(garbage).await.unwrap();
        rest(stream).await;
        answers(&cluster).await;
    }
    assert!(cluster.logs.text().contains("connection dropped"));
    cluster.end().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_or_never_ends_its_head_is_cut_off() {
    let cluster = cluster().await;
    rest(plain(&cluster).await).await;
    rest(secure(&cluster).await).await;
    let mut slow = secure(&cluster).await;
    slow.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\na: ").await.unwrap();
    rest(slow).await;
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn heads_and_bodies_have_a_size_and_a_time() {
    let cluster = cluster().await;
    let mut head = secure(&cluster).await;
    let long = format!("GET /version HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "b".repeat(100_000));
    // The server may hang up before it has all, and before its answer is read.
    drop(head.write_all(long.as_bytes()).await);
    let answer = rest(head).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let post = "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let mut body = secure(&cluster).await;
    let long = format!("{post}content-length: 2000\r\n\r\n{}", "b".repeat(2000));
    body.write_all(long.as_bytes()).await.unwrap();
    assert!(rest(body).await.starts_with("HTTP/1.1 413"));
    let mut slow = secure(&cluster).await;
    slow.write_all(format!("{post}content-length: 10\r\n\r\nhalf").as_bytes()).await.unwrap();
    assert!(rest(slow).await.starts_with("HTTP/1.1 408"));
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn a_client_that_reads_no_answers_is_cut_off() {
    let cluster = cluster().await;
    let mut deaf = secure(&cluster).await;
    let ask = async {
        while deaf.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n").await.is_ok() {}
    };
    timeout(Duration::from_mins(2), ask).await.expect("the server hangs up");
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn more_connections_than_there_is_room_for_wait_their_turn() {
    let cluster = cluster().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(plain(&cluster).await);
    }
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn a_watch_and_a_silent_client_do_not_hold_up_the_stop() {
    let cluster = cluster().await;
    let silent = plain(&cluster).await;
    let path = "/api/v1/pods?watch=1";
    let request = axum::http::Request::get(path).body(Vec::new()).unwrap();
    let watch = cluster.admin.request_stream(request).await.unwrap();
    timeout(Duration::from_secs(20), cluster.end()).await.expect("it stops");
    drop((silent, watch));
}
