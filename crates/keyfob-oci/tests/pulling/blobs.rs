//! Layers that come whole, in pieces, twice, wrong or not at all.

use std::{fs, time::Duration};

use keyfob_oci::{Digest, PullError};
use keyfob_testkit::{Request, Response};

use crate::{
    Kind, Node, client, puller,
    registry::{Contents, Registry, counter, noise},
};

const SIZE: usize = 300_000;

fn layer() -> Vec<u8> {
    noise(SIZE, 7)
}

/// A registry of one layer, whose answers for it are numbered from 0.
fn twisted(
    twist: impl Fn(usize, &Request, Response) -> Response + Send + Sync + 'static,
) -> Registry {
    let (path, count) = (format!("/blobs/{}", Digest::sha256(&layer())), counter());
    Registry::twisted(Contents::image(&[&layer()]), move |request, honest| {
        if request.path().ends_with(&path) { twist(count(), request, honest) } else { honest }
    })
}

#[tokio::test]
async fn a_layer_that_breaks_off_goes_on_where_it_was() {
    let registry = twisted(|number, _, honest| match number {
        0 => honest.cut_after(100_000),
        1 => honest.cut_after(0),
        2 => honest.cut_after(150_000),
        _ => honest,
    });
    let node = Node::new();

    node.pull(&registry.image(), None).await.unwrap();

    assert!(node.has(&layer()));
    assert_eq!(registry.ranges(&layer()), ["-", "bytes=100000-", "bytes=100000-", "bytes=250000-"]);
    assert_eq!(node.seen.of(SIZE), ["started at 0", "retried", "retried", "retried", "finished"]);
    assert!(!registry.partial(node.layout(), &layer()).exists());
}

#[tokio::test]
async fn a_server_that_falls_silent_is_asked_again() {
    let registry = twisted(|number, _, honest| match number {
        0 => honest.silent_after(100_000),
        1 => Response::never(),
        _ => honest,
    });
    let node = Node::with(client().stall_timeout(Duration::from_millis(300)));

    node.pull(&registry.image(), None).await.unwrap();

    assert!(node.has(&layer()));
    assert_eq!(registry.ranges(&layer()), ["-", "bytes=100000-", "bytes=100000-"]);
}

#[tokio::test]
async fn a_server_without_ranges_begins_anew() {
    for without_ranges in [
        |_: Response| Response::text(layer()),
        // One that knows ranges, and not this one.
        |_: Response| Response::status(416),
    ] {
        let registry = twisted(move |number, request, honest| match request.header("range") {
            Some(_) => without_ranges(honest),
            None if number == 0 => honest.cut_after(100_000),
            None => honest,
        });
        let node = Node::new();

        node.pull(&registry.image(), None).await.unwrap();

        assert!(node.has(&layer()));
        assert_eq!(node.seen.of(SIZE), ["started at 0", "retried", "restarted", "finished"]);
    }
}

#[tokio::test]
async fn the_next_pull_goes_on_where_one_that_failed_was() {
    let registry = twisted(|number, _, honest| match number {
        0 => honest.cut_after(200_000),
        1..=4 => Response::status(500),
        _ => honest,
    });
    let node = Node::new();

    let error = node.pull(&registry.image(), None).await.unwrap_err();
    assert!(matches!(error, PullError::Unavailable { attempts: 5, .. }), "{error:?}");
    assert_eq!(fs::read(registry.partial(node.layout(), &layer())).unwrap(), layer()[..200_000]);

    node.pull(&registry.image(), None).await.unwrap();
    assert!(node.has(&layer()));
    assert_eq!(node.seen.of(SIZE)[5..], ["started at 200000", "finished"]);
    assert_eq!(registry.ranges(&layer()).last().unwrap(), "bytes=200000-");
}

#[tokio::test]
async fn what_was_left_and_is_wrong_is_thrown_away_once() {
    for left in [vec![0; 1000], vec![0; SIZE], vec![0; SIZE + 1]] {
        let registry = twisted(|_, _, honest| honest);
        let node = Node::new();
        fs::write(registry.partial(node.layout(), &layer()), &left).unwrap();

        node.pull(&registry.image(), None).await.unwrap();

        assert!(node.has(&layer()), "{} bytes", left.len());
        let asked: &[&str] = if left.len() < SIZE { &["bytes=1000-", "-"] } else { &["-"] };
        assert_eq!(registry.ranges(&layer()), asked);
    }
    // And if the whole is wrong too, that is the end.
    let registry = twisted(|_, request, honest| match request.header("range") {
        None => Response::text(vec![0; SIZE]),
        Some(_) => honest,
    });
    let node = Node::new();
    fs::write(registry.partial(node.layout(), &layer()), [0; 1000]).unwrap();
    let error = node.pull(&registry.image(), None).await.unwrap_err();
    assert!(matches!(error, PullError::WrongDigest { .. }), "{error}");
    assert_eq!(registry.ranges(&layer()), ["bytes=1000-", "-"]);
}

#[tokio::test]
async fn a_content_that_is_not_what_its_name_says_is_not_kept() {
    let registry = twisted(|_, _, _| Response::text(vec![0; SIZE]));
    let node = Node::new();

    let error = node.pull(&registry.image(), None).await.unwrap_err();

    let (found, wanted) = (Digest::sha256(&vec![0; SIZE]), Digest::sha256(&layer()));
    let expected = format!(": the content has the digest {found} and not {wanted}");
    assert!(error.to_string().ends_with(&expected), "{error}");
    assert_eq!(registry.ranges(&layer()), ["-"]);
    assert!(!node.layout().blob_path(&wanted).exists());
    assert!(!registry.partial(node.layout(), &layer()).exists());
    assert_eq!(node.layout().images().unwrap(), []);
}

type Twist = fn(Response) -> Response;

#[tokio::test]
async fn no_more_bytes_are_taken_than_a_content_has() {
    let rows: [(Twist, &str); 6] = [
        (|_| Response::text(vec![0; SIZE + 1]), "the content has 300001 bytes and not 300000"),
        (|_| Response::text(vec![0; 10]), "the content has 10 bytes and not 300000"),
        (
            |_| Response::text(vec![0; 100 * SIZE]).without_length(),
            "the content has more than its 300000 bytes",
        ),
        (|_| Response::status(204), "no content, and no error either"),
        (
            |it| it.with_status(206).header("Content-Range", "bytes 5-9/300000"),
            "no content, and no error either",
        ),
        (|_| Response::status(418), "responded with status code 418"),
    ];
    for (answer, expected) in rows {
        let registry = twisted(move |_, _, honest| answer(honest));
        let node = Node::new();

        let error = node.pull(&registry.image(), None).await.unwrap_err();

        assert!(error.to_string().ends_with(expected), "{error}");
        assert_eq!(Kind::of(&error), Kind::Other);
        assert_eq!(registry.ranges(&layer()), ["-"]);
        let kept =
            fs::metadata(registry.partial(node.layout(), &layer())).map_or(0, |kept| kept.len());
        assert!(kept <= SIZE as u64, "{kept}");
    }
}

#[tokio::test]
async fn another_part_than_was_asked_for_is_not_taken() {
    for range in [
        "bytes 5-9/300000",
        "bytes 100000-299999/300001",
        "bytes x-y/z",
        "",
        "items 100000-299999/300000",
    ] {
        let registry = twisted(move |number, _, honest| match number {
            0 => honest.cut_after(100_000),
            _ => Response::text(vec![0; 200_000]).with_status(206).header("Content-Range", range),
        });
        let error = Node::new().pull(&registry.image(), None).await.unwrap_err();
        assert_eq!(Kind::of(&error), Kind::Other, "{range}: {error}");
    }
}

#[tokio::test]
async fn a_content_is_fetched_once_however_often_it_is_needed() {
    let (one, two) = (noise(1000, 1), noise(2000, 2));
    let registry = Registry::honest(Contents::image(&[&one, &two, &one, &one]));
    let node = Node::new();

    node.pull(&registry.image(), None).await.unwrap();
    node.pull(&registry.image(), None).await.unwrap();

    assert_eq!((registry.ranges(&one).len(), registry.ranges(&two).len()), (1, 1));
    assert_eq!(node.seen.of(1000), ["started at 0", "finished", "skipped"]);
    // The configuration, which is fetched before the layers, too.
    let config = r#"{"architecture":"amd64","os":"linux"}"#.len();
    assert_eq!(node.seen.of(config), ["started at 0", "finished", "skipped"]);
}

#[tokio::test]
async fn a_content_of_the_wrong_size_is_fetched_again() {
    let registry = Registry::honest(Contents::image(&[&layer()]));
    let node = Node::new();
    node.pull(&registry.image(), None).await.unwrap();
    fs::write(node.layout().blob_path(&Digest::sha256(&layer())), "cut").unwrap();
    assert_eq!(node.layout().images().unwrap(), []);

    node.pull(&registry.image(), None).await.unwrap();

    assert!(node.has(&layer()));
}

#[tokio::test]
async fn an_empty_content_is_not_asked_for() {
    let registry = Registry::honest(Contents::image(&[b""]));
    let node = Node::new();

    node.pull(&registry.image(), None).await.unwrap();

    assert!(node.has(b""));
    assert_eq!(registry.ranges(b"").len(), 0);
}

#[tokio::test]
async fn two_who_pull_the_same_into_one_directory_fetch_it_once() {
    let layers: Vec<_> = (0..6).map(|seed| noise(50_000, seed)).collect();
    let registry =
        Registry::honest(Contents::image(&layers.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    let node = Node::new();
    let (other, _) = puller(&node.directory, client(), Some("linux/amd64"));
    let image = keyfob_api::ImageRef::parse(&registry.image()).unwrap();

    let (one, two) = tokio::join!(
        node.puller.pull_image(&image, &image, None),
        other.pull_image(&image, &image, None),
    );

    assert_eq!(one.unwrap(), two.unwrap());
    for layer in &layers {
        assert_eq!(registry.ranges(layer), ["-"]);
    }
    assert_eq!(node.layout().images().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_busy_is_given_time() {
    let registry = twisted(|number, _, honest| match number {
        0 => Response::status(429).header("Retry-After", "0"),
        1 => Response::status(502),
        2 => Response::status(408),
        _ => honest,
    });
    Node::new().pull(&registry.image(), None).await.unwrap();

    for (wait, asked) in [("3600", 1), (&u64::MAX.to_string(), 1), ("Tomorrow", 5)] {
        let wait = wait.to_owned();
        let registry = Registry::twisted(Contents::default(), move |_, _| {
            let said = r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#;
            Response::json(said).with_status(429).header("Retry-After", &wait)
        });
        let error = Node::new().pull(&registry.image(), None).await.unwrap_err();
        assert_eq!(Kind::of(&error), Kind::Unavailable);
        assert!(
            error.to_string().contains("status code 429: TOOMANYREQUESTS: slow down"),
            "{error}"
        );
        assert_eq!(registry.internet.requests().len(), asked);
    }
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_unavailable() {
    let error = Node::new().pull("127.0.0.1:1/team/app:v1", None).await.unwrap_err();

    assert_eq!(Kind::of(&error), Kind::Unavailable);
    let expected = "GET http://127.0.0.1:1/v2/team/app/manifests/v1: Connection refused (os error 111) (tried 5 times)";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_pull_that_is_given_up_leaves_what_it_has_to_the_next() {
    let registry = twisted(|number, _, honest| match number {
        0 => honest.silent_after(100_000),
        _ => honest,
    });
    let (node, image) = (Node::new(), registry.image());
    let some_is_there = async {
        while fs::metadata(registry.partial(node.layout(), &layer())).map_or(0, |it| it.len())
            < 100_000
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        pulled = node.pull(&image, None) => panic!("{pulled:?}"),
        () = some_is_there => {}
    }

    node.pull(&registry.image(), None).await.unwrap();

    assert!(node.has(&layer()));
    assert_eq!(registry.ranges(&layer()), ["-", "bytes=100000-"]);
}
