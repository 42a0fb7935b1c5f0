//! Responses that nobody reads, and responses that take their time.

use std::time::Duration;

use keyfob_net::server::Limits;
use keyfob_testkit::{Stream, closed};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Rig, is_ok, small};

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let rig = Rig::start(small()).await;
    let ask = b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let deaf = rig.client(1).unfinished(4, ask).await;
    let answered = async {
        while rig.client(1).ask("GET", "/livez", "").await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), answered).await.expect("a place is free again");
    drop(deaf);
    rig.stop().await;
}

/// Reads until these bytes came.
async fn read_until(stream: &mut (impl Stream + ?Sized), end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.push(timeout(Duration::from_secs(30), stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_silent_watch_and_an_upgraded_connection_are_not_idle() {
    let rig = Rig::start(small()).await;
    let watch = b"GET /watch HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut watch = rig.client(1).send(watch).await.unwrap();
    read_until(&mut watch, "first\n\r\n").await;
    let upgrade =
        b"GET /upgrade HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    let mut upgraded = rig.client(1).send(upgrade).await.unwrap();
    let head = read_until(&mut upgraded, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");

    // Longer than any connection may be idle, and more than fit.
    for idle in rig.client(1).idle(10, "/livez").await {
        closed(idle).await;
    }

    upgraded.write_all(b"hello\n").await.unwrap();
    assert_eq!(read_until(&mut upgraded, "\n").await, "hello\n");
    rig.event.notify_waiters();
    assert!(closed(watch).await.contains("second\n"));
    drop(upgraded);
    rig.stop().await;
}

#[tokio::test]
async fn the_stop_waits_for_requests_and_for_nobody_else() {
    let rig = Rig::start(Limits { drain: Duration::from_hours(1), ..small() }).await;
    let wait = b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let waiting = rig.client(1).send(wait).await.unwrap();
    let idle = rig.client(1).idle(1, "/livez").await;
    let Rig { stop, mut task, event, .. } = rig;
    stop.send(()).unwrap();
    for stream in idle {
        closed(stream).await;
    }
    assert!(timeout(Duration::from_millis(50), &mut task).await.is_err());
    event.notify_waiters();
    assert!(closed(waiting).await.ends_with("waited"));
    timeout(Duration::from_secs(30), task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_keep_alive_connection_is_used_again() {
    let rig = Rig::start(small()).await;
    let mut kept = rig.client(1).idle(1, "/livez").await;
    keyfob_testkit::request_again(&mut kept[0], "/livez").await.unwrap();
    is_ok(rig.client(1).ask("GET", "/livez", "").await);
    rig.stop().await;
}
