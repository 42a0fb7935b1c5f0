//! Clients who mean it ill, or are merely broken: each ends alone.

use std::time::Duration;

use keyfob_control::server::{Limits, Pace};
use keyfob_playground::embedded::Options;
use keyfob_testkit::{HostileClient, closed};
use tokio::{io::AsyncWriteExt as _, time::timeout};

use super::{Cluster, get};

/// Impatient, so that nobody waits in a test.
fn limits() -> Limits {
    let soon = Duration::from_millis(200);
    let pace = Pace { patience: soon, bytes_per_second: 1 << 20 };
    Limits {
        connections: 4,
        handshake: soon,
        idle: soon,
        head: soon,
        body: pace,
        body_size: 1000,
        response: pace,
        drain: soon,
        ..Limits::default()
    }
}

async fn cluster() -> Cluster {
    Cluster::with(Options { limits: limits(), ..Options::default() }).await
}

/// A client at 127.0.0.N.
fn client(cluster: &Cluster, number: u8) -> HostileClient {
    HostileClient::tls([127, 0, 0, number], cluster.server.address())
}

async fn answers(cluster: &Cluster) {
    let asked = timeout(Duration::from_secs(20), get(&cluster.admin, "/version"));
    assert!(asked.await.expect("an answer").is_ok());
}

#[tokio::test]
async fn garbage_instead_of_a_handshake_ends_the_connection() {
    let cluster = cluster().await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], &[0x16, 3, 1, 0xff, 0xff, 1]] {
        let mut stream = client(&cluster, 1).connect().await.unwrap();
        stream.write_all(garbage).await.unwrap();
        closed(stream).await;
        answers(&cluster).await;
    }
    assert!(cluster.logs.text().contains("connection dropped"));
    cluster.end().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_or_never_ends_its_head_is_cut_off() {
    let cluster = cluster().await;
    closed(client(&cluster, 1).connect().await.unwrap()).await;
    closed(client(&cluster, 1).open().await.unwrap()).await;
    let head = b"GET /version HTTP/1.1\r\nhost: x\r\na: ";
    closed(client(&cluster, 1).send(head).await.unwrap()).await;
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn heads_and_bodies_have_a_size_and_a_time() {
    let cluster = cluster().await;
    let mut head = client(&cluster, 1).open().await.unwrap();
    let long = format!("GET /version HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "b".repeat(100_000));
    // The server may hang up before it has all, and before its answer is read.
    drop(head.write_all(long.as_bytes()).await);
    let answer = closed(head).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let post = "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let mut body = client(&cluster, 1).open().await.unwrap();
    let long = format!("{post}content-length: 2000\r\n\r\n{}", "b".repeat(2000));
    body.write_all(long.as_bytes()).await.unwrap();
    assert!(closed(body).await.starts_with("HTTP/1.1 413"));
    let mut slow = client(&cluster, 1).open().await.unwrap();
    slow.write_all(format!("{post}content-length: 10\r\n\r\nhalf").as_bytes()).await.unwrap();
    assert!(closed(slow).await.starts_with("HTTP/1.1 408"));
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn a_client_that_reads_no_answers_is_cut_off() {
    let cluster = cluster().await;
    let mut deaf = client(&cluster, 1).open().await.unwrap();
    let ask = async {
        while deaf.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n").await.is_ok() {}
    };
    timeout(Duration::from_mins(2), ask).await.expect("the server hangs up");
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn more_connections_than_there_is_room_for_make_way() {
    let cluster = cluster().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(client(&cluster, 1).connect().await.unwrap());
    }
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn a_watch_and_a_silent_client_do_not_hold_up_the_stop() {
    let cluster = cluster().await;
    let silent = client(&cluster, 1).connect().await.unwrap();
    let path = "/api/v1/pods?watch=1";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let watch = cluster.admin.request_stream(request).await.unwrap();
    timeout(Duration::from_secs(20), cluster.end()).await.expect("it stops");
    drop((silent, watch));
}

#[tokio::test]
async fn idle_tls_connections_of_one_address_lock_nobody_out() {
    let cluster = Cluster::start().await;
    let idle = client(&cluster, 1).idle(256, "/livez").await;
    assert_eq!(idle.len(), 256);

    let answer = client(&cluster, 2).ask("GET", "/livez", "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    // From the attacker's own address, too.
    answers(&cluster).await;
    cluster.end().await;
}

#[tokio::test]
async fn half_open_handshakes_lock_nobody_out() {
    let cluster = Cluster::start().await;
    let mut half_open = client(&cluster, 1).silent(1_000).await;
    for number in 0..=255 {
        let attacker = client(&cluster, 1).at([127, 1, 1, number]);
        half_open.extend(attacker.silent(4).await);
    }

    let answer = client(&cluster, 2).ask("GET", "/livez", "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    answers(&cluster).await;
    cluster.end().await;
}
