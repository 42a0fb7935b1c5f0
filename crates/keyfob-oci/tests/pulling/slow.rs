//! Servers that send something all the time, and hardly anything.

use std::{num::NonZeroU32, time::Duration};

use keyfob_oci::{ClientBuilder, Digest, Patience, PullError};
use keyfob_testkit::{Request, Response};
use tokio::time::timeout;

use crate::{
    Kind, Node, client,
    registry::{Contents, Registry, noise},
};

/// For each byte. A whole answer would take minutes, but for the manifest.
const PAUSE: Duration = Duration::from_millis(100);

/// One that asks once, and does not wait for long. No single byte comes too late for it.
fn impatient() -> ClientBuilder {
    let patience = Patience { attempts: 1, ..Patience::default() };
    let slowest = NonZeroU32::new(1_000).unwrap();
    client().patience(patience).stall_timeout(Duration::from_millis(500)).slowest(slowest)
}

type Twist = fn(&Request, Response) -> Response;

#[tokio::test]
async fn one_byte_at_a_time_keeps_no_pull_alive() {
    fn long() -> Vec<u8> {
        vec![b' '; 2_000]
    }
    let rows: [(&str, Twist); 5] =
        [
            ("manifest", |request, honest| {
                if request.path().contains("/manifests/") { honest.slowly(PAUSE) } else { honest }
            }),
            ("manifest without a length", |request, honest| {
                let is_manifest = request.path().contains("/manifests/");
                if is_manifest { honest.without_length().slowly(PAUSE) } else { honest }
            }),
            ("error", |_, _| Response::json(long()).with_status(404).slowly(PAUSE)),
            ("token", |request, honest| match request.path() {
                "/token" => Response::json(long()).slowly(PAUSE),
                _ if request.header("authorization").is_some() => honest,
                _ => {
                    let host = request.header("host").unwrap();
                    let challenge = format!("Bearer realm=\"http://{host}/token\"");
                    Response::status(401).header("WWW-Authenticate", &challenge)
                }
            }),
            ("blob", |request, honest| {
                if request.path().contains("/blobs/") { honest.slowly(PAUSE) } else { honest }
            }),
        ];
    for (what, twist) in rows {
        let registry = Registry::twisted(Contents::image(&[&noise(2_000, 1)]), twist);
        let node = Node::with(impatient());

        let pull = timeout(Duration::from_mins(1), node.pull(&registry.image(), None)).await;

        let error = pull.expect("an end before that of the answer").unwrap_err();
        match error {
            PullError::NotFound { .. } => assert_eq!(what, "error"),
            error => {
                assert_eq!(Kind::of(&error), Kind::Unavailable, "{what}");
                let said = error.to_string();
                assert!(said.ends_with(": sends less than 1000 bytes a second"), "{what}: {said}");
            }
        }
    }
}

/// Fast enough for a blob. A whole manifest must come sooner.
#[tokio::test]
async fn a_slow_manifest_has_a_limit_that_scales_with_its_declared_size() {
    let registry = Registry::twisted(Contents::image(&[&noise(30, 1)]), |request, honest| {
        let is_manifest = request.path().contains("/manifests/");
        if is_manifest { honest.slowly(Duration::from_millis(10)) } else { honest }
    });
    let node = Node::with(impatient().slowest(NonZeroU32::new(30).unwrap()));

    let error = node.pull(&registry.image(), None).await.unwrap_err();

    assert_eq!(Kind::of(&error), Kind::Unavailable);
    assert!(error.to_string().contains(": did not send its answer within "), "{error}");
}

#[tokio::test]
async fn a_server_that_is_slow_and_fast_enough_is_heard_out() {
    let layer = noise(30, 1);
    let path = format!("/blobs/{}", Digest::sha256(&layer));
    let registry = Registry::twisted(Contents::image(&[&layer]), move |request, honest| {
        if request.path().ends_with(&path) { honest.slowly(PAUSE) } else { honest }
    });
    // Three seconds, of which each byte allows for one.
    let client = client().stall_timeout(Duration::from_secs(2)).slowest(NonZeroU32::MIN);
    let node = Node::with(client);

    node.pull(&registry.image(), None).await.unwrap();

    assert!(node.has(&layer));
}
