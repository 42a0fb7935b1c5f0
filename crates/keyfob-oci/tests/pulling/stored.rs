//! Which images are in a layout, and by which names.

use std::fs;

use keyfob_api::ImageRef;
use keyfob_oci::{Digest, Layout, LayoutError, PullError, StoredImage};
use serde_json::{Value, json};

use crate::{
    Node,
    registry::{Contents, OCI_INDEX, OCI_MANIFEST, Registry},
};

fn name(image: &str) -> ImageRef {
    ImageRef::parse(image).unwrap()
}

impl Node {
    async fn pull_as(&self, image: &str, from: &str) -> Result<StoredImage, PullError> {
        self.puller.pull_image(&name(image), &name(from), None).await
    }

    async fn find(&self, image: &str) -> Option<StoredImage> {
        self.puller.find(&name(image)).await.unwrap()
    }
}

#[tokio::test]
async fn an_image_that_was_pulled_is_here_under_the_name_that_the_pod_wrote() {
    let mut contents = Contents::default();
    let image = contents.add_image("linux/amd64", &[b"layer"], OCI_MANIFEST);
    let index = contents.add_index(OCI_INDEX, &[("linux/amd64", &image)]);
    contents.tag("v1", &index);
    let mirror = Registry::honest(contents);
    let node = Node::new();
    assert_eq!(node.find("nginx:1.27").await, None);

    let pulled = node.pull_as("nginx:1.27", &mirror.image()).await.unwrap();

    let config = json!({"os": "linux", "architecture": "amd64"}).to_string();
    assert_eq!(pulled.id, Digest::sha256(config.as_bytes()));
    let (index, manifest) = (index["digest"].as_str().unwrap(), image["digest"].as_str().unwrap());
    for written in [
        "nginx:1.27",
        "docker.io/nginx:1.27",
        "index.docker.io/library/nginx:1.27",
        &format!("nginx@{index}"),
        &format!("library/nginx@{manifest}"),
        &format!("nginx:another@{index}"),
    ] {
        assert_eq!(node.find(written).await.as_ref(), Some(&pulled), "{written}");
    }
    let other = Digest::sha256(b"other");
    for other in ["nginx:latest", "r.io/library/nginx:1.27", &format!("nginx@{other}")] {
        assert_eq!(node.find(other).await, None, "{other}");
    }
    let size = config.len() + "layer".len();
    assert_eq!(pulled.size, image["size"].as_u64().unwrap() + size as u64);

    assert_eq!(node.puller.images().await.unwrap(), std::slice::from_ref(&pulled));
    let (repo_tags, repo_digests) = (pulled.repo_tags(), pulled.repo_digests());
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
    assert_eq!(node.find("nginx:1.27").await, None);
    assert_eq!(node.puller.images().await.unwrap(), []);
}

#[tokio::test]
async fn a_digest_that_the_pod_wrote_decides_whatever_a_mirror_has() {
    let mut contents = Contents::image(&[b"old"]);
    let new = contents.add_image("linux/amd64", &[b"new"], OCI_MANIFEST);
    let mirror = Registry::honest(contents);
    let node = Node::new();
    let pinned = format!("r.io/app:v1@{}", new["digest"].as_str().unwrap());

    node.pull_as(&pinned, &mirror.image()).await.unwrap();
    assert!(node.has(b"new") && !node.has(b"old"));
    let listed = node.puller.images().await.unwrap();
    assert!(listed[0].repo_digests().contains(&pinned), "{listed:?}");
    assert_eq!(listed[0].repo_tags(), Vec::<String>::new());

    let other = format!("r.io/app@{}", Digest::sha256(b"other"));
    let error = node.pull_as(&other, &mirror.image()).await.unwrap_err();
    assert!(matches!(error, PullError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_tag_that_moved_is_the_newer_image() {
    let node = Node::new();
    let mut ids = Vec::new();
    for layer in [b"old", b"new"] {
        let mut contents = Contents::default();
        let config = contents.add_blob(&[b"{}", layer.as_slice()].concat());
        let layer = contents.add_blob(layer);
        let manifest = json!({"mediaType": OCI_MANIFEST, "config": config, "layers": [layer]});
        let manifest = contents.add_manifest(&manifest);
        contents.tag("v1", &manifest);
        let registry = Registry::honest(contents);
        let pulled = node.pull_as("r.io/app:v1", &registry.image()).await.unwrap();
        assert_eq!(node.find("r.io/app:v1").await.as_ref(), Some(&pulled));
        ids.push(pulled.id);
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
    assert_eq!(node.find("v1").await, None);
    assert_eq!(node.puller.images().await.unwrap()[0].id, images[0].id);

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
