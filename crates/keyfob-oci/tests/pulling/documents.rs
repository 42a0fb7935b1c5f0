//! From a name to an image.

use keyfob_api::ImageRef;
use keyfob_oci::{Digest, PullError};
use keyfob_testkit::{LeakCheck, LogCapture, Response};
use serde_json::json;

use crate::{
    Node, client, login, puller,
    registry::{Contents, DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Registry},
};

/// What is found under `team/app:v1`.
fn serving(media_type: &str, document: &impl ToString) -> Registry {
    let mut contents = Contents::default();
    contents.put("v1", media_type, document.to_string().into_bytes());
    Registry::honest(contents)
}

/// A registry with an image for each of these platforms, whose layer is the platform's name.
fn for_platforms(media_type: &str, of_each: &str, platforms: &[&str]) -> Registry {
    let mut contents = Contents::default();
    let image = |platform: &&str| contents.add_image("linux/any", &[platform.as_bytes()], of_each);
    let images: Vec<_> = platforms.iter().map(image).collect();
    let entries: Vec<_> = platforms.iter().copied().zip(&images).collect();
    let index = contents.add_index(media_type, &entries);
    contents.tag("v1", &index);
    Registry::honest(contents)
}

#[tokio::test]
async fn the_image_for_the_platform_is_chosen() {
    let offered = [
        "unknown/unknown",
        "linux/arm/v6",
        "linux/arm/v7",
        "linux/arm64/v8",
        "linux/amd64",
        "linux/386",
    ];
    for (media_type, of_each) in [(OCI_INDEX, OCI_MANIFEST), (DOCKER_LIST, DOCKER_MANIFEST)] {
        let registry = for_platforms(media_type, of_each, &offered);
        for (wanted, chosen) in [
            ("linux/amd64", "linux/amd64"),
            ("linux/arm64", "linux/arm64/v8"),
            ("linux/arm/v7", "linux/arm/v7"),
            ("linux/arm/v6", "linux/arm/v6"),
            ("linux/386", "linux/386"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let (puller, _) = puller(&directory, client(), Some(wanted));
            let name = ImageRef::parse(&registry.image()).unwrap();

            let image = puller.pull_image(&name, &name, None).await.unwrap();

            assert_eq!(image.platform.as_ref().unwrap().to_string(), chosen);
            assert!(puller.layout().blob_path(&Digest::sha256(chosen.as_bytes())).exists());
            assert_ne!(image.pulled, image.manifest);
            assert_eq!(puller.layout().images().unwrap(), [image]);
        }
    }
}

#[tokio::test]
async fn an_image_for_other_platforms_says_for_which() {
    let offered = ["linux/arm64", "windows/amd64", "unknown/unknown", "linux/arm64"];
    let registry = for_platforms(OCI_INDEX, OCI_MANIFEST, &offered);
    let refusal = Node::new().refusal(&registry.image()).await;
    let expected = "is not for linux/amd64: it is for linux/arm64, windows/amd64";
    assert_eq!(refusal, format!("{} {expected}", registry.image()));

    let registry = for_platforms(OCI_INDEX, OCI_MANIFEST, &[]);
    let refusal = Node::new().refusal(&registry.image()).await;
    assert!(refusal.ends_with("it is for no platform that it names"), "{refusal}");
}

#[tokio::test]
async fn an_image_that_is_not_one_of_several_must_be_for_the_platform_that_was_asked_for() {
    let mut contents = Contents::default();
    let image = contents.add_image("linux/s390x", &[b"layer"], OCI_MANIFEST);
    contents.tag("v1", &image);
    let registry = Registry::honest(contents);

    let refusal = Node::new().refusal(&registry.image()).await;
    assert!(refusal.ends_with(" is not for linux/amd64: it is for linux/s390x"), "{refusal}");
    assert_eq!(registry.ranges(b"layer").len(), 0);

    // Whoever asks for none takes what there is, as a node does.
    let directory = tempfile::tempdir().unwrap();
    let (here, _) = puller(&directory, client(), None);
    let name = ImageRef::parse(&registry.image()).unwrap();
    let image = here.pull_image(&name, &name, None).await.unwrap();
    assert_eq!(image.platform.clone().unwrap().to_string(), "linux/s390x");
    assert_eq!(here.layout().images().unwrap(), std::slice::from_ref(&image));
    assert_eq!(here.find(&name).await.unwrap(), Some(image));
    // But that is not here for whoever asks for another.
    let (other, _) = puller(&directory, client(), Some("linux/amd64"));
    assert_eq!(other.find(&name).await.unwrap(), None);
}

#[tokio::test]
async fn lists_of_lists_end_somewhere() {
    let mut contents = Contents::default();
    let mut inner = contents.add_image("linux/amd64", &[b"layer"], OCI_MANIFEST);
    for depth in 1..=6 {
        inner = contents.add_index(OCI_INDEX, &[("", &inner)]);
        contents.tag(&format!("depth-{depth}"), &inner);
    }
    let registry = Registry::honest(contents);
    let node = Node::new();
    for depth in 1..=6 {
        let image = registry.image().replace(":v1", &format!(":depth-{depth}"));
        let pulled = node.pull(&image, None).await;
        match depth {
            1..=3 => assert_eq!(pulled.unwrap().platform.unwrap().to_string(), "linux/amd64"),
            _ => assert!(matches!(pulled.unwrap_err(), PullError::Manifest { .. })),
        }
    }
}

#[tokio::test]
async fn a_digest_must_be_that_of_what_comes() {
    let mut contents = Contents::image(&[b"layer"]);
    let image = contents.add_image("linux/amd64", &[b"layer"], OCI_MANIFEST);
    let digest = image["digest"].as_str().unwrap().to_owned();
    let wrong = Digest::sha256(b"something else").to_string();
    contents.put(&wrong, OCI_MANIFEST, b"{}".to_vec());
    let long = format!("sha512:{}", "0".repeat(128));
    contents.put(&long, OCI_MANIFEST, b"{}".to_vec());
    let registry = Registry::honest(contents);
    let node = Node::new();
    let app = registry.image().replace(":v1", "");

    let stored = node.pull(&format!("{app}@{digest}"), None).await.unwrap();
    assert_eq!(
        (stored.manifest.to_string(), stored.pulled.to_string()),
        (digest.clone(), digest.clone())
    );
    // The digest counts, and not the tag.
    node.pull(&format!("{app}:no-such-tag@{digest}"), None).await.unwrap();
    for wrong in [wrong, long] {
        let error = node.pull(&format!("{app}@{wrong}"), None).await.unwrap_err();
        assert!(matches!(error, PullError::WrongDigest { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_digest_that_spells_the_password_is_refused_before_it_is_logged() {
    let password = "correct-horse-battery";
    let mut bytes = password.as_bytes().to_vec();
    bytes.resize(32, b'!');
    let digits = hex::encode(bytes);
    let blob = |digest: &str| json!({"mediaType": "application/octet-stream", "digest": digest, "size": 5});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": blob(&Digest::sha256(b"config").to_string()),
        "layers": [blob(&format!("sha256:{digits}"))],
    });
    let registry = serving(OCI_MANIFEST, &manifest);
    let logs = LogCapture::start();
    let node = Node::new();

    let error = node.pull(&registry.image(), Some(&login("ada", password))).await.unwrap_err();

    assert!(matches!(error, PullError::BadAnswer { .. }), "{error}");
    assert!(error.to_string().contains("the digest repeats a secret"), "{error}");
    LeakCheck::new([password]).error(&error).text("the log", &logs.text());
}

#[tokio::test]
async fn a_registry_must_not_contradict_itself() {
    for (told, is_good) in [
        (Digest::sha256(b"something else").to_string(), false),
        ("blake3:00".to_owned(), true),
        ("nonsense".to_owned(), true),
    ] {
        let registry = Registry::twisted(Contents::image(&[b"layer"]), move |request, honest| {
            let is_manifest = request.path().contains("/manifests/");
            if is_manifest { honest.header("Docker-Content-Digest", &told) } else { honest }
        });
        let pulled = Node::new().pull(&registry.image(), None).await;
        let is_refused = matches!(&pulled, Err(PullError::WrongDigest { .. }));
        assert_eq!((pulled.is_ok(), is_refused), (is_good, !is_good), "{pulled:?}");
    }
}

#[tokio::test]
async fn an_index_must_be_right_about_what_it_lists() {
    for (field, value, expected) in [
        ("size", json!(7), "and its index says 7"),
        ("mediaType", json!(DOCKER_MANIFEST), "it is sent as application/vnd.docker"),
    ] {
        let mut contents = Contents::default();
        let mut image = contents.add_image("linux/amd64", &[b"layer"], OCI_MANIFEST);
        image[field] = value;
        let index = contents.add_index(OCI_INDEX, &[("linux/amd64", &image)]);
        contents.tag("v1", &index);
        let refusal = Node::new().refusal(&Registry::honest(contents).image()).await;
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[tokio::test]
async fn what_is_no_image_is_refused_with_its_reason() {
    let signed = "application/vnd.docker.distribution.manifest.v1+prettyjws";
    let rows = [
        (signed, json!({"schemaVersion": 1}), "docker's schema 1"),
        ("application/json", json!({"schemaVersion": 1, "fsLayers": []}), "docker's schema 1"),
        (OCI_MANIFEST, json!("a text"), "not the JSON that was expected"),
        (OCI_MANIFEST, json!({"manifests": [], "layers": []}), "a manifest and an index at once"),
        (OCI_INDEX, json!({"mediaType": OCI_MANIFEST}), "it is sent as"),
        ("", json!({"mediaType": "application/x"}), "it is application/x, and neither"),
        (OCI_MANIFEST, json!(" ".repeat(5 << 20)), "the answer is larger than 4096 KiB"),
    ];
    for (media_type, document, expected) in rows {
        let refusal = Node::new().refusal(&serving(media_type, &document).image()).await;
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.len() < 400, "{refusal}");
    }
    let registry = Registry::twisted(Contents::default(), |_, _| {
        Response::text(vec![b' '; 6 << 20]).without_length()
    });
    let refusal = Node::new().refusal(&registry.image()).await;
    assert!(refusal.ends_with("the answer is larger than 4096 KiB"), "{refusal}");
}

#[tokio::test]
async fn an_image_that_is_not_there_is_said_to_be_not_there() {
    let registry = Registry::honest(Contents::default());
    let error = Node::new().pull(&registry.image(), None).await.unwrap_err();
    assert!(matches!(error, PullError::NotFound { .. }));
    let expected = ": not found: MANIFEST_UNKNOWN: unknown to this registry";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert_eq!(registry.internet.requests().len(), 1);
}

#[tokio::test]
async fn a_layer_that_is_said_to_be_elsewhere_is_left_out() {
    let mut contents = Contents::default();
    let config = contents.add_blob(b"{}");
    let layer = contents.add_blob(b"layer");
    let elsewhere = json!({
        "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "digest": Digest::sha256(b"elsewhere"),
        "size": 1_u64 << 40,
        "urls": ["http://127.0.0.1:1/layer"],
    });
    let manifest =
        json!({"mediaType": DOCKER_MANIFEST, "config": config, "layers": [elsewhere, layer]});
    let manifest = contents.add_manifest(&manifest);
    contents.tag("v1", &manifest);
    let node = Node::new();

    let image = node.pull(&Registry::honest(contents).image(), None).await.unwrap();

    assert!(image.size < 10_000, "{}", image.size);
    assert_eq!(node.layout().images().unwrap(), [image]);
}
