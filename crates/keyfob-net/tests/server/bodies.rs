//! Request bodies that do not end.

use keyfob_net::server::Limits;
use keyfob_testkit::{HostileClient, closed};

use super::{Rig, is_ok, patient, small};

#[tokio::test]
async fn a_body_that_trickles_in_is_cut_off_and_its_memory_is_free_again() {
    let limits = Limits { connections_per_peer: 6, buffered: 1 << 20, ..small() };
    let rig = Rig::start(limits).await;
    let unfinished = HostileClient::unfinished_body("/", 1 << 20, 100_000);
    let slow = rig.client(1).unfinished(6, &unfinished).await;
    for stream in slow {
        assert!(closed(stream).await.starts_with("HTTP/1.1 408 "));
    }
    // It takes up all the memory that there is for bodies.
    is_ok(rig.client(2).ask("POST", "/", &"x".repeat(1 << 20)).await);
    rig.stop().await;
}

#[tokio::test]
async fn unfinished_bodies_make_way_for_a_newcomer_and_for_its_body() {
    let limits = Limits { buffered: 1 << 20, ..patient() };
    let rig = Rig::start(limits).await;
    let unfinished = HostileClient::unfinished_body("/", 1 << 20, 500_000);
    let mut slow = Vec::new();
    for number in 1..=20 {
        slow.extend(rig.client(number).unfinished(4, &unfinished).await);
    }
    // There is neither a place nor memory left.
    is_ok(rig.client(30).ask("POST", "/", &"x".repeat(500_000)).await);
    is_ok(rig.client(1).ask("POST", "/", &"x".repeat(500_000)).await);
    drop(slow);
    rig.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_with_a_reason() {
    let rig = Rig::start(Limits { body_size: 1_000, ..small() }).await;
    let answer = rig.client(1).ask("POST", "/", &"x".repeat(500_000)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let chunked = "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = format!("{chunked}fff\r\n{}\r\n0\r\n\r\n", "x".repeat(0xfff));
    let answer = closed(rig.client(1).send(chunked.as_bytes()).await.unwrap()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    rig.stop().await;
}
