//! Small images that can run: `/pause`, which waits, and `/bin/busybox`.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{parts::Parts, shell::run};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// An image as its blobs.
pub(crate) struct Image {
    pub(crate) blobs: Vec<Blob>,
    pub(crate) manifest: Blob,
    /// The digest of the configuration, which a runtime calls the image's ID.
    pub(crate) id: String,
}

#[derive(Clone)]
pub(crate) struct Blob {
    pub(crate) digest: String,
    pub(crate) bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let mut name = "sha256:".to_owned();
        for byte in digest(&SHA256, &bytes).as_ref() {
            write!(name, "{byte:02x}").unwrap();
        }
        Self { digest: name, bytes }
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.bytes.len()})
    }

    /// The digest without its algorithm.
    pub(crate) fn hex(&self) -> &str {
        self.digest.strip_prefix("sha256:").unwrap()
    }
}

/// The layer that all images share.
pub(crate) struct Base(Blob);

impl Base {
    pub(crate) fn build(parts: &Parts, directory: &Path) -> Self {
        let root = directory.join("base");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy(parts.program("pause"), root.join("pause")).unwrap();
        fs::copy(parts.program("busybox"), root.join("bin/busybox")).unwrap();
        for applet in ["cat", "echo", "nc", "sh", "sleep", "wget"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        Self(tar(&root))
    }

    /// An image of this name, with a layer of random bytes on top if there are any: it differs from all others.
    pub(crate) fn image(&self, name: &str, random_bytes: usize, directory: &Path) -> Image {
        let mut layers = vec![self.0.clone()];
        if random_bytes > 0 {
            let root = directory.join("random");
            fs::create_dir_all(&root).unwrap();
            let mut bytes = vec![0; random_bytes];
            fastrand::fill(&mut bytes);
            fs::write(root.join("random"), bytes).unwrap();
            layers.push(tar(&root));
        }
        let config =
            json!({"Entrypoint": ["/pause"], "Env": ["PATH=/bin"], "Labels": {"name": name}});
        Image::new(layers, &config)
    }
}

impl Image {
    /// An image of the files in a directory, with settings such as `Entrypoint`.
    pub(crate) fn of_directory(root: &Path, config: &Value) -> Self {
        Self::new(vec![tar(root)], config)
    }

    fn new(mut layers: Vec<Blob>, config: &Value) -> Self {
        let diff_ids: Vec<_> = layers.iter().map(|layer| &layer.digest).collect();
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = Blob::new(config.to_string().into_bytes());
        let layer = |layer: &Blob| layer.descriptor("application/vnd.oci.image.layer.v1.tar");
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": layers.iter().map(layer).collect::<Vec<_>>(),
        });
        let (id, manifest) = (config.digest.clone(), Blob::new(manifest.to_string().into_bytes()));
        layers.push(config);
        Self { blobs: layers, manifest, id }
    }

    /// An archive for `ctr images import`, which then knows the image by this name.
    pub(crate) fn archive(&self, name: &str, directory: &Path) -> PathBuf {
        let root = directory.join("archive");
        fs::create_dir_all(root.join("blobs/sha256")).unwrap();
        for blob in self.blobs.iter().chain([&self.manifest]) {
            fs::write(root.join("blobs/sha256").join(blob.hex()), &blob.bytes).unwrap();
        }
        let mut manifest = self.manifest.descriptor(MANIFEST);
        manifest["annotations"] = json!({"io.containerd.image.name": name});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
        fs::write(root.join("index.json"), index.to_string()).unwrap();
        fs::write(root.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        let archive = directory.join("archive.tar");
        fs::write(&archive, tar(&root).bytes).unwrap();
        fs::remove_dir_all(root).unwrap();
        archive
    }
}

/// A directory as an archive, which is not compressed.
fn tar(root: &Path) -> Blob {
    let root = root.to_str().unwrap();
    let options = ["--owner=0", "--group=0", "--sort=name", "--mtime=@0"];
    let archive = run("tar", &[&["-C", root, "-cf", "-"][..], &options, &["."]].concat());
    Blob::new(archive.stdout)
}
