//! Many connections that do nothing.

use std::time::Duration;

use keyfob_net::server::Limits;
use keyfob_testkit::{HostileClient, closed, raise_file_limit, request_again};

use super::{Rig, is_ok, patient, small};

#[tokio::test]
async fn idle_keep_alive_connections_of_one_address_lock_nobody_out() {
    let rig = Rig::start(Limits::default()).await;
    let idle = rig.client(1).idle(256, "/livez").await;
    assert_eq!(idle.len(), 256);

    is_ok(rig.client(2).ask("GET", "/livez", "").await);
    is_ok(rig.client(1).ask("GET", "/livez", "").await);
    rig.stop().await;
}

#[tokio::test]
async fn open_connections_are_counted_until_they_are_closed() {
    let rig = Rig::start(patient()).await;
    let open = rig.open.clone();
    let idle = rig.client(1).idle(3, "/livez").await;
    assert_eq!(open.count(), 3);
    drop(idle);
    while open.count() > 0 {
        tokio::task::yield_now().await;
    }
    let _idle = rig.client(1).idle(2, "/livez").await;
    assert_eq!(open.count(), 2);
    rig.stop().await;
    assert_eq!(open.count(), 0, "a server that has stopped has none");
}

#[tokio::test]
async fn ten_thousand_connections_from_one_address_do_not_affect_another() {
    let files = raise_file_limit();
    let connections = files.saturating_sub(2_000).clamp(300, 10_000);
    let idle = Duration::from_hours(1);
    let rig = Rig::start(Limits { idle, idle_when_crowded: idle, ..Limits::default() }).await;
    let mut kept = rig.client(2).idle(1, "/livez").await;

    let attacker = rig.client(1);
    let attack = tokio::spawn(async move { attacker.silent(connections).await });
    while !attack.is_finished() {
        is_ok(rig.client(2).ask("POST", "/validate", "a review").await);
    }

    assert!(attack.await.unwrap().len() > connections / 2);
    is_ok(rig.client(2).ask("GET", "/livez", "").await);
    request_again(&mut kept[0], "/livez")
        .await
        .expect("an idle connection that nobody needed to evict");
    rig.stop().await;
}

#[tokio::test]
async fn connections_from_many_addresses_make_way_for_a_newcomer() {
    let rig = Rig::start(patient()).await;
    let mut idle = Vec::new();
    for number in 0..=255 {
        let attacker = HostileClient::plain([127, 1, 1, number], rig.address);
        idle.extend(attacker.idle(2, "/livez").await);
    }
    assert_eq!(idle.len(), 512);

    is_ok(rig.client(2).ask("GET", "/livez", "").await);
    rig.stop().await;
}

#[tokio::test]
async fn a_peer_beyond_its_share_loses_its_own_longest_idle_connection() {
    let rig = Rig::start(patient()).await;
    let mut other = rig.client(2).idle(3, "/livez").await;
    let mut first = rig.client(1).idle(4, "/livez").await;
    // Now the first connection is not the one that is idle for the longest.
    request_again(&mut first[0], "/livez").await.unwrap();

    let newcomer = rig.client(1).idle(1, "/livez").await;

    closed(first.remove(1)).await;
    assert_eq!(newcomer.len(), 1);
    for stream in first.iter_mut().chain(&mut other) {
        request_again(stream, "/livez").await.unwrap();
    }
    rig.stop().await;
}

#[tokio::test]
async fn requests_that_are_being_answered_are_not_evicted_by_a_flood() {
    let rig = Rig::start(patient()).await;
    let wait = b"GET /wait HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let waiting = rig.client(2).unfinished(4, wait).await;
    for number in 3..100 {
        drop(rig.client(number).idle(4, "/livez").await);
    }
    // A fifth of this address waits in vain: none of its own requests makes way.
    assert!(rig.client(2).ask("GET", "/livez", "").await.is_err());
    is_ok(rig.client(1).ask("GET", "/livez", "").await);

    rig.event.notify_waiters();
    for stream in waiting {
        assert!(closed(stream).await.ends_with("waited"));
    }
    rig.stop().await;
}

#[tokio::test]
async fn heads_that_trickle_in_make_way_and_are_cut_off() {
    let rig = Rig::start(patient()).await;
    let head = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
    let slow = rig.client(1).unfinished(4, head).await;
    is_ok(rig.client(1).ask("GET", "/livez", "").await);
    drop(slow);
    rig.stop().await;

    let rig = Rig::start(small()).await;
    for slow in rig.client(1).unfinished(4, head).await {
        closed(slow).await;
    }
    for idle in rig.client(1).idle(4, "/livez").await {
        closed(idle).await;
    }
    for silent in rig.client(1).silent(4).await {
        closed(silent).await;
    }
    rig.stop().await;
}
