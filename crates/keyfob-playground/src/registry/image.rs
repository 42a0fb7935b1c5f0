//! Images to pull, made here.

use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::{
    digest::Digest,
    gzip::gzip,
    limits::Limits,
    media_type::{Kind, MediaTypes},
    name::{Reference, Repository},
    storage::{Manifest, NotKept, Storage},
    tar::tar,
    upload::Upload,
    users::unguessable,
};

/// An image to make. The same one has the same digests each time.
#[derive(Clone, Debug, Default)]
pub struct ImageToMake {
    /// What stands in the one file of each layer; the layers are archives with gzip, as everywhere.
    pub layers: Vec<Vec<u8>>,
    /// `linux/arm64/v8` and the like: an image for each, and an index of them. None is one image for `linux/amd64`.
    pub platforms: Vec<String>,
    /// Whose media types it has.
    pub media_types: MediaTypes,
}

/// An image that is there to be pulled. Digests are `sha256:` and 64 digits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushedImage {
    /// What the tag is: the index, or the manifest if there is no index.
    pub digest: String,
    /// The manifest of each platform, in order.
    pub manifests: Vec<String>,
    /// The configuration of each platform, in order.
    pub configs: Vec<String>,
    /// The layers, which are the same for each.
    pub layers: Vec<String>,
}

/// Why an image cannot be pushed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PushError {
    /// No such repository or tag can be.
    #[error("{0} is not the name of a repository, or not a tag")]
    Name(String),
    /// It is not `os/architecture` or `os/architecture/variant`.
    #[error("{0} is not a platform, such as linux/amd64 or linux/arm64/v8")]
    Platform(String),
    /// It cannot be kept.
    #[error(transparent)]
    NotKept(#[from] NotKept),
    /// Nothing can be named that nobody else names so.
    #[error("the system gives no random numbers")]
    NoRandomNumbers,
}

pub(super) async fn push(
    storage: &Storage,
    limits: &Limits,
    (repository, tag): (&str, &str),
    image: &ImageToMake,
) -> Result<PushedImage, PushError> {
    let name = Repository::parse(repository);
    let name = name.ok_or_else(|| PushError::Name(repository.to_owned()))?;
    if !matches!(Reference::parse(tag), Some(Reference::Tag(_))) {
        return Err(PushError::Name(tag.to_owned()));
    }
    let pushing = Pushing { storage, limits, name, types: image.media_types };
    pushing.push(tag, image).await
}

/// Where an image goes.
struct Pushing<'a> {
    storage: &'a Storage,
    limits: &'a Limits,
    name: Repository,
    types: MediaTypes,
}

impl Pushing<'_> {
    async fn push(&self, tag: &str, image: &ImageToMake) -> Result<PushedImage, PushError> {
        let (mut layers, mut contents) = (Vec::new(), Vec::new());
        for (number, content) in image.layers.iter().enumerate() {
            let archive = tar(&format!("layer-{}", number + 1), content);
            contents.push(Digest::of(&archive).to_string());
            layers.push(self.blob(Kind::Layer, &gzip(&archive)).await?);
        }
        // Without an index, the manifest is what is tagged.
        let tagged = image.platforms.is_empty().then_some(tag);
        let (mut manifests, mut configs) = (Vec::new(), Vec::new());
        for platform in platforms(&image.platforms)? {
            let config = config(&platform, &contents).to_string();
            let config = self.blob(Kind::Config, config.as_bytes()).await?;
            let listed = json!({"config": config, "layers": layers});
            let manifest = self.manifest(Kind::Manifest, listed, tagged)?;
            manifests.push(Descriptor { platform: Some(platform), ..manifest });
            configs.push(config);
        }
        let digest = if image.platforms.is_empty() {
            digests(&manifests).concat()
        } else {
            self.manifest(Kind::Index, json!({"manifests": manifests}), Some(tag))?.digest
        };
        let (manifests, configs) = (digests(&manifests), digests(&configs));
        Ok(PushedImage { digest, manifests, configs, layers: digests(&layers) })
    }

    /// Keeps a blob, and describes it.
    async fn blob(&self, kind: Kind, bytes: &[u8]) -> Result<Descriptor, PushError> {
        let digest = Digest::of(bytes);
        let id = unguessable().ok_or(PushError::NoRandomNumbers)?;
        let mut upload = Upload::begin(self.storage, id.expose()).await?;
        upload.write(bytes, self.limits).await?;
        upload.keep(&self.name, digest).await?;
        Ok(self.descriptor(kind, digest, bytes.len()))
    }

    /// Keeps a manifest, and describes it.
    fn manifest(
        &self,
        kind: Kind,
        mut listed: Value,
        tag: Option<&str>,
    ) -> Result<Descriptor, PushError> {
        let media_type = self.types.of(kind);
        set(&mut listed, "schemaVersion", 2.into());
        set(&mut listed, "mediaType", media_type.into());
        let body = listed.to_string();
        let (digest, size) = (Digest::of(body.as_bytes()), body.len());
        let manifest = Manifest { media_type: media_type.to_owned(), body: body.into(), digest };
        self.storage.add_manifest(&self.name, manifest, tag, self.limits.stored)?;
        Ok(self.descriptor(kind, digest, size))
    }

    fn descriptor(&self, kind: Kind, digest: Digest, size: usize) -> Descriptor {
        let (media_type, digest) = (self.types.of(kind), digest.to_string());
        Descriptor { media_type, digest, size, platform: None }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<Platform>,
}

#[derive(Serialize)]
struct Platform {
    os: String,
    architecture: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
}

fn platforms(said: &[String]) -> Result<Vec<Platform>, PushError> {
    let usual = ["linux/amd64".to_owned()];
    let said = if said.is_empty() { &usual } else { said };
    said.iter().map(|each| platform(each)).collect()
}

fn platform(said: &str) -> Result<Platform, PushError> {
    let parts: Vec<&str> = said.split('/').collect();
    let (os, architecture, variant) = match parts.as_slice() {
        [os, architecture] => (os, architecture, None),
        [os, architecture, variant] => (os, architecture, Some((*variant).to_owned())),
        _ => return Err(PushError::Platform(said.to_owned())),
    };
    Ok(Platform { os: (*os).to_owned(), architecture: (*architecture).to_owned(), variant })
}

/// The platform, and what the layers are when they are unpacked.
fn config(platform: &Platform, contents: &[String]) -> Value {
    let mut config = json!(platform);
    set(&mut config, "config", json!({}));
    set(&mut config, "rootfs", json!({"type": "layers", "diff_ids": contents}));
    config
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

fn digests(descriptors: &[Descriptor]) -> Vec<String> {
    descriptors.iter().map(|each| each.digest.clone()).collect()
}
