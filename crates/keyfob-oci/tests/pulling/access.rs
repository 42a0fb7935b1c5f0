//! Blobs in a layout, and who may use them: a manifest that names them is no proof of access.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex},
    time::UNIX_EPOCH,
};

use base64::Engine as _;
use keyfob_api::ImageRef;
use keyfob_keyring::Login;
use keyfob_oci::{Digest, PullError};
use keyfob_testkit::{LeakCheck, Request, Response};
use serde_json::json;

use crate::{
    Node, client, login, puller,
    registry::{Contents, OCI_INDEX, OCI_MANIFEST, Registry, noise},
};

const PRIVATE: &str = "private/a";
const STOLEN: &str = "steal/b";
const CONFIG: &[u8] = br#"{"architecture":"amd64","os":"linux"}"#;

fn small() -> Vec<u8> {
    noise(5_000, 1)
}

fn large() -> Vec<u8> {
    noise(300_000, 2)
}

fn contents() -> Contents {
    Contents::image(&[&small(), &large()])
}

fn ada() -> Login {
    login("ada", "hunter2")
}

/// What a thief answers, who knows what an honest repository would.
type Theft = fn(&Request, Response) -> Response;

/// A registry with one image in two repositories: `private/a`, for ada and bob, and `steal/b`, for everybody.
fn registry(contents: Contents, theft: Theft) -> Registry {
    registry_with(contents, theft, || {})
}

/// The same, which does something before it sends the large layer of `private/a`.
fn registry_with(
    contents: Contents,
    theft: Theft,
    before: impl Fn() + Send + Sync + 'static,
) -> Registry {
    let large = Digest::sha256(&large()).to_string();
    let answer = move |request: &Request, _: Response| {
        let target = request.target.replace(PRIVATE, "team/app").replace(STOLEN, "team/app");
        let honest = contents.answer(&Request { target, ..request.clone() });
        if request.target.contains(STOLEN) {
            return theft(request, honest);
        }
        if request.target.ends_with(&large) {
            before();
        }
        let is_known = ["ada", "bob"].map(|name| {
            let login = base64::engine::general_purpose::STANDARD.encode(format!("{name}:hunter2"));
            request.header("authorization") == Some(&format!("Basic {login}"))
        });
        if is_known.contains(&true) {
            return honest;
        }
        Response::status(401).header("WWW-Authenticate", "Basic realm=\"r\"")
    };
    Registry::twisted(Contents::default(), answer)
}

fn is_blob(request: &Request, content: &[u8]) -> bool {
    request.path().ends_with(&Digest::sha256(content).to_string())
}

fn missing() -> Response {
    Response::json(r#"{"errors":[{"code":"BLOB_UNKNOWN"}]}"#).with_status(404)
}

/// A node on which ada has pulled the private image.
async fn node(registry: &Registry) -> Node {
    let node = Node::new();
    node.pull(&registry.image_of(PRIVATE), Some(&ada())).await.unwrap();
    node
}

/// A node has the private image, whole, and nothing else.
fn assert_only_private(node: &Node, registry: &Registry) {
    let images = node.layout().images().unwrap();
    let names: Vec<_> =
        images.iter().map(|image| image.name.as_ref().unwrap().to_string()).collect();
    assert_eq!(names, [registry.image_of(PRIVATE)]);
    assert!([CONFIG, &small(), &large()].iter().all(|content| node.has(content)));
}

fn proofs(node: &Node) -> PathBuf {
    node.layout().path().join(".keyfob/proofs")
}

fn proof(node: &Node, content: &[u8]) -> PathBuf {
    proofs(node).join(format!("sha256-{}", Digest::sha256(content).hex()))
}

#[tokio::test]
async fn a_manifest_that_names_anothers_blobs_does_not_open_a_private_image() {
    let thefts: [Theft; 5] = [
        |request, honest| if request.path().contains("/blobs/") { missing() } else { honest },
        // All but one.
        |request, honest| if is_blob(request, CONFIG) { missing() } else { honest },
        |request, honest| if is_blob(request, &small()) { missing() } else { honest },
        |request, honest| if is_blob(request, &large()) { missing() } else { honest },
        // It says that it has them, to whoever does not look.
        |request, honest| match (request.method.as_str(), request.path().contains("/blobs/")) {
            ("HEAD", _) | (_, false) => honest,
            _ => missing(),
        },
    ];
    for (number, theft) in thefts.into_iter().enumerate() {
        let registry = registry(contents(), theft);
        let node = node(&registry).await;

        for login in [None, Some(login("eve", "x")), Some(ada())] {
            let stolen = node.pull(&registry.image_of(STOLEN), login.as_ref()).await;

            let error = stolen.unwrap_err();
            assert!(matches!(error, PullError::BadAnswer { .. }), "{number}: {error}");
        }
        assert_only_private(&node, &registry);
    }
}

#[tokio::test]
async fn an_index_that_leads_to_anothers_manifest_does_not_open_a_private_image() {
    let mut contents = Contents::default();
    let image = contents.add_image("linux/amd64", &[&small(), &large()], OCI_MANIFEST);
    let index = contents.add_index(OCI_INDEX, &[("linux/amd64", &image)]);
    contents.tag("v1", &index);
    let registry =
        registry(
            contents,
            |request, honest| {
                if request.path().contains("/blobs/") { missing() } else { honest }
            },
        );
    let node = node(&registry).await;

    let error = node.pull(&registry.image_of(STOLEN), None).await.unwrap_err();

    assert!(matches!(error, PullError::BadAnswer { .. }), "{error}");
    assert_only_private(&node, &registry);
}

#[tokio::test]
async fn a_manifest_that_names_anothers_layers_in_another_case_is_refused() {
    let registry = registry(contents(), |_, honest| honest);
    let node = node(&registry).await;
    let descriptor =
        |content: &[u8]| json!({"digest": Digest::sha256(content), "size": content.len()});
    let manifest = json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "comment": "?",
        "config": descriptor(CONFIG), "layers": [descriptor(b"own layer")], "Layers": [descriptor(&large())]});
    // Go reads a text that is not UTF-8, so that this is no way around the check.
    let text = manifest.to_string().into_bytes();
    let not_utf8 = text.iter().map(|byte| if *byte == b'?' { 0xff } else { *byte }).collect();
    for text in [text, not_utf8] {
        let mut stolen = Contents::default();
        stolen.add_blob(CONFIG);
        stolen.add_blob(b"own layer");
        let descriptor = stolen.add_manifest_text(&manifest, text);
        stolen.tag("v1", &descriptor);
        let thief = Registry::honest(stolen);

        let error = node.pull(&thief.image(), None).await.unwrap_err();

        assert!(matches!(error, PullError::Manifest { .. }), "{error}");
        assert_only_private(&node, &registry);
    }
}

#[tokio::test]
async fn a_manifest_that_says_that_anothers_blobs_are_elsewhere_does_not_open_a_private_image() {
    let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    for parts in [&["config"][..], &["layers"], &["config", "layers"]] {
        let registry = registry(contents(), |request, honest| {
            if request.path().contains("/blobs/") { missing() } else { honest }
        });
        let node = node(&registry).await;
        let elsewhere = |part: &str, content: &[u8]| {
            let (digest, size) = (Digest::sha256(content), content.len());
            let mut descriptor = json!({"digest": digest, "size": size});
            if parts.contains(&part) {
                descriptor["mediaType"] = foreign.into();
                descriptor["urls"] = json!(["https://elsewhere.example/layer"]);
            }
            descriptor
        };
        let mut stolen = Contents::default();
        let layers = [small(), large()].map(|layer| elsewhere("layers", &layer));
        let manifest = stolen.add_manifest(&json!({"schemaVersion": 2, "mediaType": OCI_MANIFEST,
            "config": elsewhere("config", CONFIG), "layers": layers}));
        stolen.tag("v1", &manifest);
        if parts == ["layers"] {
            stolen.add_blob(CONFIG);
        }
        let thief = Registry::honest(stolen);

        let error = node.pull(&thief.image(), None).await.unwrap_err();

        assert!(matches!(error, PullError::BadAnswer { .. }), "{error}");
        assert_only_private(&node, &registry);
    }
}

#[tokio::test]
async fn a_registry_that_lies_about_its_blobs_does_not_open_a_private_image() {
    /// Zeros in the place of all that was asked for.
    fn zeros(request: &Request, honest: Response) -> Response {
        let size = [CONFIG, &small(), &large()]
            .into_iter()
            .find(|content| is_blob(request, content))
            .map(<[u8]>::len);
        let Some(size) = size else { return honest };
        let Some(range) = request.header("range") else { return Response::text(vec![0; size]) };
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (first, last): (usize, usize) =
            (first.parse().unwrap(), last.parse().unwrap_or(size - 1));
        let told = format!("bytes {first}-{last}/{size}");
        let zeros = vec![0; last + 1 - first];
        Response::text(zeros).with_status(206).header("Content-Range", &told)
    }
    let thefts: [Theft; 5] = [
        zeros,
        // Other parts than were asked for, or none that can be told.
        |request, honest| match request.header("range") {
            Some(_) => zeros(request, honest).header("Content-Range", "bytes 0-0/1"),
            None => zeros(request, honest),
        },
        |request, honest| match request.header("range") {
            Some(_) => Response::status(206),
            None => zeros(request, honest),
        },
        // Everything, whatever was asked for.
        |request, honest| {
            let is_large = is_blob(request, &large());
            if is_large { Response::text(vec![0; large().len()]) } else { honest }
        },
        |request, honest| {
            let is_blob = request.path().contains("/blobs/");
            if is_blob { Response::status(200) } else { honest }
        },
    ];
    for (number, theft) in thefts.into_iter().enumerate() {
        let registry = registry(contents(), theft);
        let thief = Registry::twisted(contents(), theft);
        let node = node(&registry).await;
        for image in [registry.image_of(STOLEN), thief.image()] {
            let error = node.pull(&image, None).await.unwrap_err();

            let is_refused =
                matches!(error, PullError::WrongDigest { .. } | PullError::BadAnswer { .. });
            assert!(is_refused, "{number}: {image}: {error}");
            assert_only_private(&node, &registry);
        }
    }
}

#[tokio::test]
async fn whoever_waits_for_anothers_download_must_prove_access_too() {
    let asked = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = Arc::clone(&asked);
    // The large layer is sent when the thief has named it.
    let registry = registry_with(
        contents(),
        |request, honest| if is_blob(request, &large()) { missing() } else { honest },
        move || {
            let (lock, changed) = &*waits;
            drop(changed.wait_while(lock.lock().unwrap(), |asked| !*asked).unwrap());
        },
    );
    let node = Node::new();
    let (thief, _) = puller(&node.directory, client(), Some("linux/amd64"));
    let stolen = ImageRef::parse(&registry.image_of(STOLEN)).unwrap();
    let image = registry.image_of(PRIVATE);
    let names_it = async {
        let path = format!("/v2/{STOLEN}/manifests/");
        while registry.asked_for(&path) == 0 {
            tokio::task::yield_now().await;
        }
        *asked.0.lock().unwrap() = true;
        asked.1.notify_all();
    };

    let login = ada();
    let (pulled, stolen, ()) = tokio::join!(
        node.pull(&image, Some(&login)),
        thief.pull_image(&stolen, &stolen, None),
        names_it
    );

    pulled.unwrap();
    let error = stolen.unwrap_err();
    assert!(matches!(error, PullError::BadAnswer { .. }), "{error}");
    assert_only_private(&node, &registry);
}

#[tokio::test]
async fn what_an_interrupted_pull_left_is_no_proof_for_others() {
    let registry =
        registry(
            contents(),
            |request, honest| {
                if is_blob(request, &large()) { missing() } else { honest }
            },
        );
    let thief =
        Registry::twisted(
            contents(),
            |request, honest| {
                if is_blob(request, &large()) { missing() } else { honest }
            },
        );
    for left in [large().len() - 1, large().len()] {
        let node = Node::new();
        node.pull(&registry.image_of(PRIVATE), Some(&ada())).await.unwrap();
        fs::write(registry.partial(node.layout(), &large()), &large()[..left]).unwrap();
        fs::remove_file(node.layout().blob_path(&Digest::sha256(&large()))).unwrap();

        for image in [registry.image_of(STOLEN), thief.image()] {
            let error = node.pull(&image, None).await.unwrap_err();
            assert!(matches!(error, PullError::BadAnswer { .. }), "{left}: {image}: {error}");
        }
    }
}

#[tokio::test]
async fn a_mirror_must_have_what_it_names() {
    let registry = registry(contents(), |_, honest| honest);
    let node = node(&registry).await;
    let name = ImageRef::parse(&registry.image_of(PRIVATE)).unwrap();
    let pull = async |mirror: &Registry| {
        let from = ImageRef::parse(&mirror.image()).unwrap();
        node.puller.pull_image(&name, &from, None).await
    };
    let empty = Registry::twisted(contents(), |request, honest| {
        if request.path().contains("/blobs/") { missing() } else { honest }
    });
    let honest = Registry::honest(contents());

    assert!(matches!(pull(&empty).await, Err(PullError::BadAnswer { .. })));
    pull(&honest).await.unwrap();
    pull(&honest).await.unwrap();

    // It had to send everything, once.
    for content in [CONFIG, &small(), &large()] {
        assert_eq!(honest.ranges_of("team/app", content), ["-"]);
    }
}

#[tokio::test]
async fn what_was_proved_is_not_asked_for_again_and_anything_else_once() {
    let registry = registry(contents(), |_, honest| honest);
    let node = node(&registry).await;
    let sampled = |repository: &str| {
        let ranges = registry.ranges_of(repository, &large());
        ranges.iter().filter(|range| !range.ends_with('-')).count()
    };
    let downloaded = |repository: &str| {
        registry.ranges_of(repository, &large()).iter().filter(|range| *range == "-").count()
    };

    for _ in 0..3 {
        node.pull(&registry.image_of(PRIVATE), Some(&ada())).await.unwrap();
    }
    assert_eq!((sampled(PRIVATE), downloaded(PRIVATE)), (0, 1));

    // Another credential, another repository of the same registry: a few bytes each, once.
    for _ in 0..3 {
        let bob = login("bob", "hunter2");
        node.pull(&registry.image_of(PRIVATE), Some(&bob)).await.unwrap();
        node.pull(&registry.image_of(STOLEN), None).await.unwrap();
    }
    assert_eq!((sampled(PRIVATE), downloaded(PRIVATE)), (1, 1));
    assert_eq!((sampled(STOLEN), downloaded(STOLEN)), (1, 0));
    assert_eq!(registry.ranges_of(STOLEN, &small()), ["bytes=0-4999"]);

    // And those who are not let in are not.
    let eve = login("eve", "hunter2");
    assert!(node.pull(&registry.image_of(PRIVATE), Some(&eve)).await.is_err());
    assert!(node.pull(&registry.image_of(PRIVATE), None).await.is_err());
}

#[tokio::test]
async fn a_registry_without_ranges_sends_everything_again() {
    let registry = registry(contents(), |request, honest| {
        if is_blob(request, &large()) { Response::text(large()) } else { honest }
    });
    let node = node(&registry).await;

    node.pull(&registry.image_of(STOLEN), None).await.unwrap();
    node.pull(&registry.image_of(STOLEN), None).await.unwrap();

    assert_eq!(registry.ranges_of(STOLEN, &large()).len(), 2);
    assert_eq!(registry.ranges_of(STOLEN, &large())[1], "-");
}

#[tokio::test]
async fn a_proof_that_cannot_be_read_is_none() {
    let registry = registry(contents(), |_, honest| honest);
    let ways: [fn(&Node); 6] = [
        |node| fs::remove_dir_all(proofs(node)).unwrap(),
        |node| fs::remove_file(proof(node, &large())).unwrap(),
        |node| fs::write(proof(node, &large()), "{").unwrap(),
        |node| {
            let (real, proof) = (node.directory.path().join("proof"), proof(node, &large()));
            fs::rename(&proof, &real).unwrap();
            symlink(real, proof).unwrap();
        },
        |node| {
            let (real, proofs) = (node.directory.path().join("proofs"), proofs(node));
            fs::rename(&proofs, &real).unwrap();
            symlink(real, proofs).unwrap();
        },
        |node| {
            fs::remove_file(proof(node, &large())).unwrap();
            fs::create_dir(proof(node, &large())).unwrap();
        },
    ];
    for (number, spoil) in ways.into_iter().enumerate() {
        let node = node(&registry).await;
        spoil(&node);
        let before = registry.ranges_of(STOLEN, &large()).len();

        node.pull(&registry.image_of(STOLEN), None).await.unwrap();

        assert_eq!(registry.ranges_of(STOLEN, &large())[before..], ["-"], "{number}");
    }
    // Without its key every credential is a new one. The registry is the same.
    let node = node(&registry).await;
    fs::write(proofs(&node).join("key"), "short").unwrap();
    let before = registry.ranges_of(PRIVATE, &large()).len();
    node.pull(&registry.image_of(PRIVATE), Some(&ada())).await.unwrap();
    node.pull(&registry.image_of(PRIVATE), Some(&ada())).await.unwrap();
    assert_eq!(registry.ranges_of(PRIVATE, &large()).len(), before + 1);
}

#[tokio::test]
async fn proofs_hold_no_login_and_go_with_their_blobs() {
    let registry = registry(contents(), |_, honest| honest);
    let node = node(&registry).await;
    let leaks = LeakCheck::new(["hunter2", "YWRhOmh1bnRlcjI", "ada"]);
    for entry in fs::read_dir(proofs(&node)).unwrap() {
        let path = entry.unwrap().path();
        leaks.text("a proof", &String::from_utf8_lossy(&fs::read(path).unwrap()));
    }
    let other = Registry::honest(Contents::image(&[b"other"]));
    fs::remove_file(node.layout().blob_path(&Digest::sha256(&large()))).unwrap();
    // And what a process left that was killed, both long ago.
    fs::write(proofs(&node).join("new-0123"), "{").unwrap();
    for left in [proof(&node, &large()), proofs(&node).join("new-0123")] {
        fs::File::options().write(true).open(left).unwrap().set_modified(UNIX_EPOCH).unwrap();
    }
    node.pull(&other.image(), None).await.unwrap();

    let mut left: Vec<_> = fs::read_dir(proofs(&node))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let expected = [CONFIG, &small(), b"other"];
    let mut expected =
        expected.map(|content| format!("sha256-{}", Digest::sha256(content).hex())).to_vec();
    expected.push("key".into());
    expected.sort();
    assert_eq!(left, expected);
}

#[tokio::test]
async fn a_corrupt_blob_of_the_right_size_is_fetched_again() {
    let registry = registry(contents(), |_, honest| honest);
    let node = node(&registry).await;
    let image = registry.image_of(PRIVATE);
    let manifest = node.layout().images().unwrap()[0].manifest.clone();
    let spoil = |digest: &Digest| {
        let path = node.layout().blob_path(digest);
        let mut content = fs::read(&path).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        fs::write(path, content).unwrap();
    };
    for _ in 0..3 {
        for content in [CONFIG, &small(), &large()] {
            spoil(&Digest::sha256(content));
            assert!(!node.has(content));

            // Whoever may not have it mends nothing, and breaks nothing.
            assert!(node.pull(&image, None).await.is_err());
            node.pull(&image, Some(&ada())).await.unwrap();

            assert!(node.has(content));
        }
        spoil(&manifest);
        node.pull(&image, Some(&ada())).await.unwrap();
        assert_only_private(&node, &registry);
        node.pull(&image, Some(&ada())).await.unwrap();
    }
}
