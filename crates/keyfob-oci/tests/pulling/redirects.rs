//! Being sent elsewhere.

use std::sync::{Arc, OnceLock};

use keyfob_oci::PullError;
use keyfob_testkit::{Internet, LeakCheck, Response};

use crate::{
    Kind, Node, login,
    registry::{Contents, Registry, counter},
};

/// A registry that wants a password and sends whoever asks for a blob to this address.
fn leading_to(location: impl Fn(&str) -> String + Send + Sync + 'static) -> Registry {
    Registry::twisted(Contents::image(&[b"layer"]), move |request, honest| {
        if request.header("authorization").is_none() {
            return Response::status(401).header("WWW-Authenticate", "Basic");
        }
        if request.path().contains("/blobs/") {
            return Response::status(307).header("Location", &location(request.path()));
        }
        honest
    })
}

#[tokio::test]
async fn a_blob_may_be_elsewhere_and_no_secret_goes_there() {
    let contents = Contents::image(&[b"layer"]);
    let storage = Internet::start(move |request| contents.answer(request));
    let at = storage.url();
    let registry = leading_to(move |path| format!("{at}{path}?signature=hunter3"));
    let node = Node::new();

    node.pull(&registry.image(), Some(&login("ada", "hunter2"))).await.unwrap();

    assert!(node.has(b"layer"));
    let requests = storage.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.header("authorization").is_none()));
    assert!(requests.iter().all(|request| request.target.ends_with("?signature=hunter3")));
}

#[tokio::test]
async fn a_secret_does_not_come_back_with_the_way() {
    let address = Arc::new(OnceLock::new());
    let back: Arc<OnceLock<String>> = Arc::clone(&address);
    let storage = Internet::start(move |request| {
        Response::status(302)
            .header("Location", &format!("{}/back{}", back.get().unwrap(), request.target))
    });
    let at = storage.url();
    let registry = Registry::twisted(Contents::image(&[b"layer"]), move |request, honest| {
        match (request.header("authorization"), request.path()) {
            (shown, path) if path.starts_with("/back") => {
                Response::status(if shown.is_some() { 500 } else { 404 })
            }
            (None, _) => Response::status(401).header("WWW-Authenticate", "Basic"),
            (_, path) if path.contains("/blobs/") => {
                Response::status(302).header("Location", &format!("{at}{path}"))
            }
            _ => honest,
        }
    });
    address.set(registry.internet.url()).unwrap();

    let error = Node::new().pull(&registry.image(), Some(&login("ada", "x"))).await.unwrap_err();

    assert!(matches!(error, PullError::BadAnswer { .. }), "{error}");
}

#[tokio::test]
async fn a_way_within_the_registry_is_gone_with_the_secret() {
    let registry = leading_to(|path| match path.strip_prefix("/moved") {
        Some(path) => path.to_owned(),
        None => format!("/moved{path}"),
    });
    // The registry leads around in a circle, so it is only seen who shows what.
    let error = Node::new().pull(&registry.image(), Some(&login("ada", "x"))).await.unwrap_err();

    assert!(
        error.to_string().ends_with("leads on to another address more than 5 times"),
        "{error}"
    );
    assert_eq!(Kind::of(&error), Kind::Other);
    let requests = registry.internet.requests();
    let blobs: Vec<_> =
        requests.iter().filter(|request| request.path().contains("/blobs/")).collect();
    assert!(
        blobs.len() >= 6 && blobs.iter().all(|request| request.header("authorization").is_some())
    );
}

#[tokio::test]
async fn the_way_to_plain_http_elsewhere_is_not_gone() {
    for (location, expected) in [
        (
            "http://storage.example/layer?signature=hunter3",
            "http://storage.example/layer: plain http is spoken only with",
        ),
        (
            "https://ada:hunter3@storage.example/",
            "https://storage.example/: not an address that can be asked",
        ),
        ("file:///etc/passwd?hunter3", "file:///etc/passwd: not an address that can be asked"),
        ("http://[", "leads on to something that is no address"),
    ] {
        let registry = leading_to(|_| location.to_owned());
        let error =
            Node::new().pull(&registry.image(), Some(&login("ada", "x"))).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        LeakCheck::new(["hunter3"]).error(&error);
    }
}

#[tokio::test]
async fn storage_that_refuses_its_own_signature_is_asked_again_with_a_new_one() {
    let (contents, count) = (Contents::image(&[b"layer"]), counter());
    let storage = Internet::start(move |request| match count() {
        0 => Response::status(403),
        1 => Response::status(401).header("WWW-Authenticate", "Basic"),
        _ => contents.answer(request),
    });
    let at = storage.url();
    let registry = leading_to(move |path| format!("{at}{path}"));
    let node = Node::new();

    node.pull(&registry.image(), Some(&login("ada", "x"))).await.unwrap();
    assert_eq!(storage.requests().len(), 4);

    let storage = Internet::start(|_| Response::status(403));
    let at = storage.url();
    let registry = leading_to(move |path| format!("{at}{path}"));
    let error = Node::new().pull(&registry.image(), Some(&login("ada", "x"))).await.unwrap_err();
    assert_eq!(Kind::of(&error), Kind::Unavailable);
}
