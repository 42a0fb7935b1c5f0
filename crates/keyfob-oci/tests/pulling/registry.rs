//! A registry whose contents are written down, and which may be told to misbehave.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use keyfob_oci::{Digest, Layout};
use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};

pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// What a repository `team/app` has.
#[derive(Clone, Default)]
pub(crate) struct Contents(BTreeMap<String, (String, Vec<u8>)>);

impl Contents {
    /// An image of these layers, `team/app:v1`.
    pub(crate) fn image(layers: &[&[u8]]) -> Self {
        let mut contents = Self::default();
        let manifest = contents.add_image("linux/amd64", layers, OCI_MANIFEST);
        contents.tag("v1", &manifest);
        contents
    }

    /// Adds an image, and gives its descriptor.
    pub(crate) fn add_image(
        &mut self,
        platform: &str,
        layers: &[&[u8]],
        media_type: &str,
    ) -> Value {
        let (os, architecture) = platform.split_once('/').unwrap();
        let config = json!({"os": os, "architecture": architecture}).to_string();
        let config = self.add_blob(config.as_bytes());
        let layers: Vec<Value> = layers.iter().map(|layer| self.add_blob(layer)).collect();
        let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers});
        self.add_manifest(&manifest)
    }

    pub(crate) fn add_blob(&mut self, content: &[u8]) -> Value {
        let digest = Digest::sha256(content);
        let path = format!("/v2/team/app/blobs/{digest}");
        self.0.insert(path, ("application/octet-stream".into(), content.to_vec()));
        json!({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": content.len()})
    }

    /// Adds a document, and gives its descriptor.
    pub(crate) fn add_manifest(&mut self, manifest: &Value) -> Value {
        self.add_manifest_text(manifest, manifest.to_string().into_bytes())
    }

    /// The same, written in some other way.
    pub(crate) fn add_manifest_text(&mut self, manifest: &Value, bytes: Vec<u8>) -> Value {
        let media_type = manifest["mediaType"].clone();
        let (digest, size) = (Digest::sha256(&bytes), bytes.len());
        self.put(&digest.to_string(), media_type.as_str().unwrap_or("application/json"), bytes);
        json!({"mediaType": media_type, "digest": digest, "size": size})
    }

    /// A list of images, with a platform for each.
    pub(crate) fn add_index(&mut self, media_type: &str, entries: &[(&str, &Value)]) -> Value {
        let entry = |(platform, descriptor): &(&str, &Value)| {
            let mut entry = (*descriptor).clone();
            let parts: Vec<&str> = platform.split('/').collect();
            if let [os, architecture, variant @ ..] = parts.as_slice() {
                entry["platform"] = json!({"os": os, "architecture": architecture});
                if let [variant] = variant {
                    entry["platform"]["variant"] = json!(variant);
                }
            }
            entry
        };
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        self.add_manifest(
            &json!({"schemaVersion": 2, "mediaType": media_type, "manifests": entries}),
        )
    }

    /// Gives a document that is here a tag.
    pub(crate) fn tag(&mut self, tag: &str, descriptor: &Value) {
        let digest = descriptor["digest"].as_str().unwrap();
        let (media_type, bytes) = self.0[&format!("/v2/team/app/manifests/{digest}")].clone();
        self.put(tag, &media_type, bytes);
    }

    /// What is found under a tag or a digest.
    pub(crate) fn put(&mut self, reference: &str, media_type: &str, bytes: Vec<u8>) {
        self.0.insert(format!("/v2/team/app/manifests/{reference}"), (media_type.into(), bytes));
    }

    /// What an honest registry answers.
    pub(crate) fn answer(&self, request: &Request) -> Response {
        let Some((media_type, content)) = self.0.get(request.path()) else {
            let said =
                r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"unknown to this registry"}]}"#;
            return Response::json(said).with_status(404);
        };
        let Some(range) = request.header("range").and_then(|range| range.strip_prefix("bytes="))
        else {
            return Response::text(content.clone()).header("Content-Type", media_type);
        };
        let (first, last) = range.split_once('-').unwrap();
        let (first, end) = (first.parse::<usize>().unwrap(), content.len());
        let last = if last.is_empty() { end } else { last.parse::<usize>().unwrap() + 1 }.min(end);
        if first >= end {
            return Response::status(416);
        }
        let told = format!("bytes {first}-{}/{end}", last - 1);
        Response::text(&content[first..last]).with_status(206).header("Content-Range", &told)
    }
}

/// A registry on loopback.
pub(crate) struct Registry {
    pub(crate) internet: Internet,
}

impl Registry {
    /// One that does as it should.
    pub(crate) fn honest(contents: Contents) -> Self {
        Self::twisted(contents, |_, honest| honest)
    }

    /// One that may answer something else than an honest one would.
    pub(crate) fn twisted(
        contents: Contents,
        twist: impl Fn(&Request, Response) -> Response + Send + Sync + 'static,
    ) -> Self {
        let answer = move |request: &Request| twist(request, contents.answer(request));
        Self { internet: Internet::start(answer) }
    }

    /// `127.0.0.1:PORT/team/app:v1`.
    pub(crate) fn image(&self) -> String {
        format!("{}/team/app:v1", self.internet.address())
    }

    /// `127.0.0.1:PORT/REPOSITORY:v1`.
    pub(crate) fn image_of(&self, repository: &str) -> String {
        format!("{}/{repository}:v1", self.internet.address())
    }

    /// How often something was asked for.
    pub(crate) fn asked_for(&self, part: &str) -> usize {
        self.internet.requests().iter().filter(|request| request.target.contains(part)).count()
    }

    /// Where a layout keeps what has come of a content from here.
    pub(crate) fn partial(&self, layout: &Layout, content: &[u8]) -> PathBuf {
        let (blob, from) =
            (Digest::sha256(content), Digest::sha256(self.internet.url().as_bytes()));
        let name = format!("sha256-{}-{}", blob.hex(), &from.hex()[..16]);
        layout.path().join(".keyfob").join(name)
    }

    /// From where on a content was downloaded, `-` for all of it.
    pub(crate) fn ranges(&self, content: &[u8]) -> Vec<String> {
        let mut ranges = self.ranges_of("team/app", content);
        ranges.retain(|range| range.ends_with('-'));
        ranges
    }

    /// The ranges that a repository was asked for, samples too.
    pub(crate) fn ranges_of(&self, repository: &str, content: &[u8]) -> Vec<String> {
        let path = format!("/v2/{repository}/blobs/{}", Digest::sha256(content));
        let requests = self.internet.requests();
        let of_content = requests.iter().filter(|request| request.path() == path);
        of_content.map(|request| request.header("range").unwrap_or("-").to_owned()).collect()
    }
}

/// Counts up each time it is called.
pub(crate) fn counter() -> impl Fn() -> usize + Clone + Send + Sync + 'static {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    move || count.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
}

/// Something that does not look like anything else.
pub(crate) fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut state = u32::from(seed) + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}
