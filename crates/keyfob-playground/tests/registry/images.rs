//! Images that the registry makes itself.

use keyfob_playground::registry::{
    Access, ImageToMake, Limits, MediaTypes, Options, PushError, Storage,
};
use serde_json::{Value, json};

use super::{Rig, bytes, sha256};

fn image() -> ImageToMake {
    ImageToMake { layers: vec![bytes(70_000), b"second".to_vec()], ..ImageToMake::default() }
}

/// What is in the one file of a layer, unpacked by somebody who knows only the formats.
fn content(layer: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut blocks = &layer[10..];
    let mut archive = Vec::new();
    loop {
        let length = usize::from(u16::from_le_bytes([blocks[1], blocks[2]]));
        archive.extend_from_slice(&blocks[5..5 + length]);
        let is_last = blocks[0] == 1;
        blocks = &blocks[5 + length..];
        if is_last {
            break;
        }
    }
    assert_eq!(blocks.len(), 8, "a sum and a size end it");
    assert_eq!(blocks[4..], u32::try_from(archive.len()).unwrap().to_le_bytes());
    let size = usize::from_str_radix(str::from_utf8(&archive[124..135]).unwrap(), 8).unwrap();
    let content = archive[512..512 + size].to_vec();
    (archive, content)
}

#[tokio::test]
async fn an_image_is_what_its_digests_say() {
    for media_types in [MediaTypes::Oci, MediaTypes::Docker] {
        let rig = Rig::open().await;
        let image = ImageToMake { media_types, ..image() };
        let pushed = rig.registry.push_image("team/app", "v1", &image).await.unwrap();
        assert_eq!(rig.registry.push_image("again", "v1", &image).await.unwrap(), pushed);

        let manifest = rig.get("/v2/team/app/manifests/v1").await;
        assert_eq!(sha256(&manifest.body), pushed.digest);
        assert_eq!([pushed.digest], *pushed.manifests);
        let json = manifest.json();
        assert_eq!(json["mediaType"], manifest.header("content-type"));
        assert_eq!(json["config"]["digest"], Value::from(pushed.configs[0].clone()));

        let mut archives = Vec::new();
        for (number, digest) in pushed.layers.iter().enumerate() {
            let layer = rig.get(&format!("/v2/team/app/blobs/{digest}")).await.body;
            assert_eq!(json["layers"][number]["size"], layer.len());
            assert_eq!(sha256(&layer), *digest);
            let (archive, content) = content(&layer);
            assert_eq!(content, image.layers[number]);
            archives.push(sha256(&archive));
        }
        let config = rig.get(&format!("/v2/team/app/blobs/{}", pushed.configs[0])).await.json();
        let want = json!({
            "os": "linux", "architecture": "amd64", "config": {},
            "rootfs": {"type": "layers", "diff_ids": archives},
        });
        assert_eq!(config, want);
        rig.end().await;
    }
}

#[tokio::test]
async fn an_index_has_an_image_for_each_platform() {
    let rig = Rig::open().await;
    let platforms = ["linux/amd64", "linux/arm64/v8", "windows/amd64"].map(str::to_owned).to_vec();
    let image = ImageToMake { platforms, ..image() };
    let pushed = rig.registry.push_image("app", "v1", &image).await.unwrap();
    let index = rig.get("/v2/app/manifests/v1").await;
    assert_eq!(sha256(&index.body), pushed.digest);
    let listed = index.json()["manifests"].clone();
    let platforms: Vec<&Value> = (0..3).map(|number| &listed[number]["platform"]).collect();
    assert_eq!(
        json!(platforms),
        json!([
            {"os": "linux", "architecture": "amd64"},
            {"os": "linux", "architecture": "arm64", "variant": "v8"},
            {"os": "windows", "architecture": "amd64"},
        ])
    );
    for (number, digest) in pushed.manifests.iter().enumerate() {
        assert_eq!(listed[number]["digest"], Value::from(digest.clone()));
        let manifest = rig.get(&format!("/v2/app/manifests/{digest}")).await;
        assert_eq!((manifest.status, sha256(&manifest.body)), (200, digest.clone()));
        assert_eq!(
            manifest.json()["config"]["digest"],
            Value::from(pushed.configs[number].clone())
        );
    }
    rig.end().await;
}

#[tokio::test]
async fn blobs_in_a_directory_are_files_by_their_digests() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Storage::directory(directory.path().join("new/blobs"));
    let options = Options { access: Access::Anonymous, storage, ..Options::default() };
    let rig = Rig::start(options).await;
    let pushed = rig.registry.push_image("app", "v1", &image()).await.unwrap();
    rig.end().await;
    let mut files: Vec<String> = std::fs::read_dir(directory.path().join("new/blobs"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap().replace('-', ":"))
        .collect();
    files.sort();
    let mut blobs = [pushed.layers, pushed.configs].concat();
    blobs.sort();
    assert_eq!(files, blobs);
}

#[tokio::test]
async fn an_image_that_cannot_be_is_refused() {
    let limits = Limits { stored: 1000, ..Limits::default() };
    let rig = Rig::start(Options { limits, ..Options::default() }).await;
    let push = async |name, tag, image: &ImageToMake| {
        rig.registry.push_image(name, tag, image).await.unwrap_err()
    };
    let small = ImageToMake::default();
    assert!(matches!(push("A", "v1", &small).await, PushError::Name(name) if name == "A"));
    assert!(matches!(push("a", "-", &small).await, PushError::Name(name) if name == "-"));
    let odd = ImageToMake { platforms: vec!["linux".into()], ..ImageToMake::default() };
    assert!(matches!(push("a", "v1", &odd).await, PushError::Platform(said) if said == "linux"));
    let error = push("a", "v1", &image()).await;
    assert_eq!(error.to_string(), "the registry is full: it keeps 1000 bytes");
    rig.end().await;
}
