//! The images of a node.

use std::{fs, sync::Arc};

use keyfob_api::ImageRef;
use keyfob_images::{Attempt, ImageService, ImageSpec, LocalImage, PullFailureKind};
use keyfob_keyring::{Login, Logins, Source, select};
use keyfob_oci::{Digest, Layout, LayoutError};
use keyfob_testkit::{LeakCheck, Response};
use serde_json::{Value, json};

use crate::{
    Node,
    registry::{Contents, OCI_INDEX, OCI_MANIFEST, Registry},
};

fn spec(image: &str) -> ImageSpec {
    ImageSpec { image: image.into(), ..ImageSpec::default() }
}

fn from(image: &str, login: Option<Login>) -> Attempt {
    let from = ImageRef::parse(image).unwrap();
    let logins = login
        .map(|login| Arc::new(Logins::new(Source::provider("test"), [(from.registry(), login)])));
    let target = from.target().ok();
    let credential = select(from.repository(), target.as_ref(), &logins).pop();
    Attempt { from, credential }
}

#[tokio::test]
async fn an_image_that_was_pulled_is_here_under_the_name_that_the_pod_wrote() {
    let mut contents = Contents::default();
    let image = contents.add_image("linux/amd64", &[b"layer"], OCI_MANIFEST);
    let index = contents.add_index(OCI_INDEX, &[("linux/amd64", &image)]);
    contents.tag("v1", &index);
    let mirror = Registry::honest(contents);
    let node = Node::new();
    let (puller, nginx) = (&node.puller, spec("nginx:1.27"));
    assert_eq!(puller.image_id(&nginx).await.ok(), Some(None));
    assert_eq!(puller.size(&nginx).await, None);

    let id = puller.pull(&nginx, &from(&mirror.image(), None)).await.unwrap();

    let config = json!({"os": "linux", "architecture": "amd64"}).to_string();
    assert_eq!(id, Digest::sha256(config.as_bytes()).to_string());
    let (index, manifest) = (index["digest"].as_str().unwrap(), image["digest"].as_str().unwrap());
    for written in [
        "nginx:1.27",
        "docker.io/nginx:1.27",
        "index.docker.io/library/nginx:1.27",
        &format!("nginx@{index}"),
        &format!("library/nginx@{manifest}"),
        &format!("nginx:another@{index}"),
    ] {
        assert_eq!(puller.image_id(&spec(written)).await.ok(), Some(Some(id.clone())), "{written}");
    }
    let other = Digest::sha256(b"other");
    for other in ["nginx:latest", "r.io/library/nginx:1.27", &format!("nginx@{other}")] {
        assert_eq!(puller.image_id(&spec(other)).await.ok(), Some(None), "{other}");
    }
    let size = config.len() + "layer".len();
    assert_eq!(puller.size(&nginx).await, Some(image["size"].as_u64().unwrap() + size as u64));

    let listed = puller.list().await.unwrap();
    let [LocalImage { id: listed_id, repo_tags, repo_digests }] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    assert_eq!(*listed_id, id);
    for name in
        ["docker.io/library/nginx:1.27", "nginx:1.27", "library/nginx:1.27", "docker.io/nginx:1.27"]
    {
        assert!(repo_tags.iter().any(|tag| tag == name), "{name}");
    }
    for digest in [index, manifest] {
        for name in ["docker.io/library/nginx", "nginx"] {
            assert!(repo_digests.contains(&format!("{name}@{digest}")), "{name}");
        }
    }

    fs::remove_file(node.layout().blob_path(&Digest::sha256(b"layer"))).unwrap();
    assert_eq!(puller.image_id(&nginx).await.ok(), Some(None));
    assert_eq!(puller.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_digest_that_the_pod_wrote_decides_whatever_a_mirror_has() {
    let mut contents = Contents::image(&[b"old"]);
    let new = contents.add_image("linux/amd64", &[b"new"], OCI_MANIFEST);
    let mirror = Registry::honest(contents);
    let node = Node::new();
    let pinned = spec(&format!("r.io/app:v1@{}", new["digest"].as_str().unwrap()));

    node.puller.pull(&pinned, &from(&mirror.image(), None)).await.unwrap();
    assert!(node.has(b"new") && !node.has(b"old"));
    let listed = node.puller.list().await.unwrap();
    assert!(listed[0].repo_digests.contains(&pinned.image), "{listed:?}");
    assert_eq!(listed[0].repo_tags, Vec::<String>::new());

    let other = spec(&format!("r.io/app@{}", Digest::sha256(b"other")));
    let failure = node.puller.pull(&other, &from(&mirror.image(), None)).await.unwrap_err();
    assert_eq!(failure.kind(), PullFailureKind::Other);
}

#[tokio::test]
async fn a_credential_that_is_refused_is_told_apart_from_a_registry_that_is_down() {
    let node = Node::new();
    let login = Login { username: "ada".into(), password: "hunter2".into(), ..Login::default() };
    for (status, kind) in [
        (401, PullFailureKind::Refused),
        (403, PullFailureKind::Refused),
        (503, PullFailureKind::RegistryUnavailable),
        (404, PullFailureKind::Other),
    ] {
        let registry = Registry::twisted(Contents::default(), move |_, _| {
            Response::text("hunter2").with_status(status).header("WWW-Authenticate", "Basic")
        });
        let attempt = from(&registry.image(), Some(login.clone()));
        assert!(attempt.credential.is_some());
        let failure = node.puller.pull(&spec("r.io/app:v1"), &attempt).await.unwrap_err();
        assert_eq!(failure.kind(), kind, "{failure}");
        LeakCheck::new(["hunter2"]).error(&failure);
    }
    let failure = node.puller.pull(&spec("NO NAME"), &from("r.io/app", None)).await.unwrap_err();
    assert!(failure.to_string().starts_with("couldn't parse image name"), "{failure}");
    assert!(node.puller.image_id(&spec("NO NAME")).await.is_err());
}

#[tokio::test]
async fn a_tag_that_moved_is_the_newer_image() {
    let node = Node::new();
    let app = spec("r.io/app:v1");
    let mut ids = Vec::new();
    for layer in [b"old", b"new"] {
        let mut contents = Contents::default();
        let config = contents.add_blob(&[b"{}", layer.as_slice()].concat());
        let layer = contents.add_blob(layer);
        let manifest = json!({"mediaType": OCI_MANIFEST, "config": config, "layers": [layer]});
        let manifest = contents.add_manifest(&manifest);
        contents.tag("v1", &manifest);
        let registry = Registry::honest(contents);
        ids.push(node.puller.pull(&app, &from(&registry.image(), None)).await.unwrap());
        assert_eq!(node.puller.image_id(&app).await.ok(), Some(ids.last().cloned()));
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(node.layout().images().unwrap().len(), 1);
}

#[tokio::test]
async fn what_another_tool_left_in_the_directory_is_read_and_kept() {
    let node = Node::new();
    let registry = Registry::honest(Contents::image(&[b"layer"]));
    node.pull(&registry.image(), None).await.unwrap();
    let path = node.layout().path().join("index.json");
    let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // As skopeo writes: a name that may be anything, and no platform.
    let mut theirs = index["manifests"][0].clone();
    theirs.as_object_mut().unwrap().remove("platform");
    theirs["annotations"] = json!({"org.opencontainers.image.ref.name": "v1", "their": "own"});
    theirs["something"] = json!(["new"]);
    index["manifests"] = json!([theirs]);
    index["annotations"] = json!({"of": "theirs"});
    fs::write(&path, index.to_string()).unwrap();
    fs::write(node.layout().path().join("README"), "theirs").unwrap();

    let layout = Layout::create(node.layout().path()).unwrap();
    let images = layout.images().unwrap();
    let platform = images[0].platform.as_ref().map(ToString::to_string);
    assert_eq!((images.len(), images[0].name.as_ref()), (1, None));
    assert_eq!(platform.as_deref(), Some("linux/amd64"));
    assert_eq!(node.puller.image_id(&spec("v1")).await.ok(), Some(None));
    assert_eq!(node.puller.list().await.unwrap()[0].id, images[0].id.to_string());

    node.pull(&registry.image(), None).await.unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(kept["manifests"][0], theirs);
    assert_eq!(kept["annotations"], index["annotations"]);
    let name = &kept["manifests"][1]["annotations"]["org.opencontainers.image.ref.name"];
    assert_eq!(*name, json!(registry.image()));
    assert_eq!(kept["manifests"][1]["platform"], json!({"os": "linux", "architecture": "amd64"}));
}

#[test]
fn only_a_layout_or_nothing_becomes_a_layout() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("documents")).unwrap();
    fs::write(at("documents/letter"), "dear ada").unwrap();
    fs::create_dir(at("newer")).unwrap();
    fs::write(at("newer/oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
    fs::write(at("file"), "").unwrap();

    for wrong in ["documents", "newer", "file"] {
        assert!(Layout::create(at(wrong)).is_err(), "{wrong}");
        assert!(Layout::open(at(wrong)).is_err(), "{wrong}");
    }
    assert_eq!(fs::read_dir(at("documents")).unwrap().count(), 1);
    assert!(matches!(Layout::open(at("none")), Err(LayoutError::NotALayout { .. })));
    let made = Layout::create(at("some/where")).unwrap();
    assert_eq!(Layout::open(at("some/where")).unwrap().images().unwrap(), []);
    fs::write(made.path().join("index.json"), "[]").unwrap();
    assert!(matches!(made.images(), Err(LayoutError::NotALayout { .. })));
}
