//! What an image consists of.
//!
//! Documents are kept as the bytes that came, since their digest is their name: what is not read here is not lost.

mod names;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use keyfob_exec::{on_one_line, shortened};
use keyfob_net::NotTheJson;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::{Digest, Platform};

pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// What a registry is asked for: never schema 1, whose digests nobody can verify without its signatures.
pub(crate) const ACCEPTED: [&str; 4] = [OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST];

/// Where a content is told of: its name, its size, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    /// What it is.
    #[serde(default)]
    pub(crate) media_type: String,
    /// Its name.
    pub(crate) digest: Digest,
    /// How many bytes it has.
    pub(crate) size: u64,
    /// Where else it may be; never asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) urls: Vec<String>,
    /// What it runs on, if it is one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    /// What else is said of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// Of a content that is at hand.
    pub(crate) fn of(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::sha256(content),
            size: content.len() as u64,
            urls: Vec::new(),
            platform: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Whether the registry may not have it, and others are named who do: base layers of Windows.
    ///
    /// They are left out, as `skopeo` leaves them out: an address in a manifest is a stranger's word.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let may_not_be_passed_on = ["nondistributable", ".foreign."];
        let may_not = may_not_be_passed_on.iter().any(|word| self.media_type.contains(word));
        may_not && !self.urls.is_empty()
    }
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Its configuration, whose digest is the image's id.
    pub(crate) config: Descriptor,
    /// Its layers, the lowest first.
    pub(crate) layers: Vec<Descriptor>,
}

impl Manifest {
    /// Configuration and layers, each content once, without layers that are elsewhere.
    pub(crate) fn contents(&self) -> Vec<&Descriptor> {
        let mut seen = HashSet::new();
        let layers = self.layers.iter().filter(|layer| !layer.is_elsewhere());
        let contents = std::iter::once(&self.config).chain(layers);
        contents.filter(|each| seen.insert(&each.digest)).collect()
    }

    /// The layers that are elsewhere.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = &Descriptor> {
        self.layers.iter().filter(|layer| layer.is_elsewhere())
    }

    /// How many bytes these have.
    pub(crate) fn size(&self) -> u64 {
        self.contents().into_iter().map(|each| each.size).fold(0, u64::saturating_add)
    }
}

/// A manifest, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Manifest(Box<Manifest>),
    /// What it lists, as far as it can be read.
    Index(Vec<Descriptor>),
}

/// Why a document is none that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It can be read as two different things, and somebody may have read it as the other.
    #[error("it is a manifest and an index at once")]
    Ambiguous,
    /// It does not have what its kind must have.
    #[error("it is {0}, and has no {1}")]
    Incomplete(&'static str, &'static str),
    /// It is said to be two different things.
    #[error("it is sent as {sent} and says that it is {said}")]
    Mistyped {
        /// What the registry or an index says.
        sent: String,
        /// What it says itself.
        said: String,
    },
    /// It has a field that programs in Go read as another one, and might take for it.
    #[error("it has a field {0:?}, which some programs take for {1:?}")]
    Misspelt(String, &'static str),
    /// It is not JSON.
    #[error(transparent)]
    NotTheJson(#[from] NotTheJson),
    /// It is a manifest of docker's first kind.
    #[error(
        "it is of docker's schema 1, which is no longer pulled: push the image again with a newer client"
    )]
    Schema1,
    /// It lists lists that list lists.
    #[error("it is an index within too many others")]
    TooDeep,
    /// Other programs may read something else in it: it is not UTF-8, or its parts are not what they should be.
    #[error("its fields cannot be checked: it is not UTF-8, or a descriptor is not an object")]
    Uncheckable,
    /// It is something else.
    #[error("it is {0}, and neither a manifest nor an index of an image")]
    UnknownType(String),
}

impl ManifestError {
    /// The same with other words where it quotes a registry.
    #[must_use]
    pub(crate) fn map_text(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Mistyped { sent, said } => {
                Self::Mistyped { sent: change(&sent), said: change(&said) }
            }
            Self::Misspelt(name, meant) => Self::Misspelt(change(&name), meant),
            Self::UnknownType(text) => Self::UnknownType(change(&text)),
            Self::Ambiguous
            | Self::Incomplete(..)
            | Self::NotTheJson(_)
            | Self::Schema1
            | Self::TooDeep
            | Self::Uncheckable => self,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<Readable>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    fs_layers: Option<IgnoredAny>,
}

/// The entries of an index that can be read; what else there is takes up no memory.
struct Readable(Vec<Descriptor>);

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Readable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Readable, A::Error> {
                let mut readable = Vec::new();
                while let Some(entry) = list.next_element::<&RawValue>()? {
                    readable.extend(serde_json::from_str::<Descriptor>(entry.get()));
                }
                Ok(Readable(readable))
            }
        }
        deserializer.deserialize_seq(Entries)
    }
}

impl Document {
    /// Reads a document that was sent as some type, and tells of what type it is.
    pub(crate) fn read(
        bytes: &[u8],
        sent_as: Option<&str>,
    ) -> Result<(Self, String), ManifestError> {
        let sent_as = sent_as.map(|sent| sent.split(';').next().unwrap_or_default().trim());
        if sent_as.is_some_and(|sent| sent.contains("distribution.manifest.v1+")) {
            return Err(ManifestError::Schema1);
        }
        // Go puts U+FFFD in the place of what is not UTF-8, and reads on.
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::Uncheckable)?;
        let raw: Raw = keyfob_net::json(bytes)?;
        names::check(text)?;
        if raw.schema_version == Some(1) || raw.fs_layers.is_some() {
            return Err(ManifestError::Schema1);
        }
        if raw.manifests.is_some() && (raw.layers.is_some() || raw.config.is_some()) {
            return Err(ManifestError::Ambiguous);
        }
        let media_type = raw.media_type(sent_as)?;
        Ok((raw.document(&media_type)?, media_type))
    }
}

impl Raw {
    /// What the document says, or else what is said of it, or else what it looks like.
    fn media_type(&self, sent_as: Option<&str>) -> Result<String, ManifestError> {
        // Many servers send everything as plain JSON.
        let sent_as = sent_as.filter(|sent| ACCEPTED.contains(sent));
        match (self.media_type.as_deref(), sent_as) {
            (Some(said), Some(sent)) if said != sent => {
                Err(ManifestError::Mistyped { sent: sent.into(), said: shown(said) })
            }
            (Some(known), _) | (None, Some(known)) => Ok(known.to_owned()),
            (None, None) if self.manifests.is_some() => Ok(OCI_INDEX.into()),
            (None, None) => Ok(OCI_MANIFEST.into()),
        }
    }

    fn document(self, media_type: &str) -> Result<Document, ManifestError> {
        match media_type {
            OCI_INDEX | DOCKER_LIST => {
                let entries = self.manifests;
                let entries = entries.ok_or(ManifestError::Incomplete("an index", "manifests"))?;
                Ok(Document::Index(entries.0))
            }
            OCI_MANIFEST | DOCKER_MANIFEST => {
                let config = self.config;
                let config = config.ok_or(ManifestError::Incomplete("a manifest", "config"))?;
                let layers = self.layers.unwrap_or_default();
                Ok(Document::Manifest(Box::new(Manifest { config, layers })))
            }
            other => Err(ManifestError::UnknownType(shown(other))),
        }
    }
}

fn shown(media_type: &str) -> String {
    on_one_line(&shortened(media_type, 200))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn descriptor(content: &str) -> Descriptor {
        Descriptor::of("x/y", content.as_bytes())
    }

    fn read(document: &Value, sent_as: &str) -> Result<(Document, String), ManifestError> {
        Document::read(document.to_string().as_bytes(), Some(sent_as))
    }

    #[test]
    fn a_document_is_what_it_says_or_what_is_said_of_it_or_what_it_looks_like() {
        let (config, layer) = (descriptor("config"), descriptor("layer"));
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer], "x": 1});
        let index = json!({"schemaVersion": 2, "manifests": [layer, {"digest": "blake3:00"}]});
        let as_manifest =
            Document::Manifest(Box::new(Manifest { config, layers: vec![layer.clone()] }));
        let as_index = Document::Index(vec![layer]);

        let mut said = manifest.clone();
        said["mediaType"] = DOCKER_MANIFEST.into();
        let rows = [
            (&manifest, "application/json", &as_manifest, OCI_MANIFEST),
            (&manifest, DOCKER_MANIFEST, &as_manifest, DOCKER_MANIFEST),
            (&said, "text/plain; charset=utf-8", &as_manifest, DOCKER_MANIFEST),
            (&index, "", &as_index, OCI_INDEX),
            (&index, &format!("{DOCKER_LIST}; charset=utf-8"), &as_index, DOCKER_LIST),
        ];
        for (document, sent_as, expected, media_type) in rows {
            let read = read(document, sent_as);
            assert_eq!(read, Ok((expected.clone(), media_type.to_owned())), "{sent_as}");
        }
    }

    #[test]
    fn a_document_that_is_two_things_or_none_is_refused() {
        let each = descriptor("x");
        let rows = [
            (json!({"manifests": [], "layers": []}), "", "it is a manifest and an index at once"),
            (json!({"manifests": [], "config": each}), "", "it is a manifest and an index at once"),
            (
                json!({"manifests": [], "mediaType": OCI_INDEX}),
                OCI_MANIFEST,
                "it is sent as application/vnd.oci.image.manifest.v1+json and says that it is \
                 application/vnd.oci.image.index.v1+json",
            ),
            (json!({"layers": [each]}), "", "it is a manifest, and has no config"),
            (json!({}), OCI_INDEX, "it is an index, and has no manifests"),
            (
                json!({"mediaType": "a/b\u{1b}[2J"}),
                "",
                "it is a/b\\u{1b}[2J, and neither a manifest nor an index of an image",
            ),
            (
                json!({"config": {"digest": each.digest, "size": -1}}),
                "",
                "the answer is not the JSON that was expected: a field is missing or of the wrong type",
            ),
        ];
        for (document, sent_as, expected) in rows {
            let refusal = read(&document, sent_as).unwrap_err().to_string();
            assert!(refusal.starts_with(expected), "{refusal}");
        }
    }

    #[test]
    fn schema_1_is_known_by_any_of_its_signs() {
        let signed = "application/vnd.docker.distribution.manifest.v1+prettyjws";
        for (document, sent_as) in [
            (json!({}), signed),
            (json!({"schemaVersion": 1}), ""),
            (json!({"fsLayers": [], "schemaVersion": 2}), DOCKER_MANIFEST),
        ] {
            assert_eq!(read(&document, sent_as), Err(ManifestError::Schema1), "{document}");
        }
    }

    #[test]
    fn a_content_counts_once_and_one_that_is_elsewhere_not_at_all() {
        let (config, layer) = (descriptor("config"), descriptor("layer"));
        let mut elsewhere = descriptor("elsewhere");
        elsewhere.media_type = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip".into();
        let here_after_all = elsewhere.clone();
        elsewhere.urls = vec!["https://elsewhere.example/layer".into()];
        let mut with_address = descriptor("with address");
        with_address.urls.clone_from(&elsewhere.urls);
        let layers = vec![layer.clone(), elsewhere, layer.clone(), with_address.clone()];
        let mut manifest = Manifest { config: config.clone(), layers };

        assert_eq!(manifest.contents(), [&config, &layer, &with_address]);
        manifest.layers = vec![here_after_all.clone()];
        assert_eq!(manifest.contents(), [&config, &here_after_all]);
        // Without its configuration an image would have the id of any other.
        manifest.config.media_type.clone_from(&here_after_all.media_type);
        manifest.config.urls = with_address.urls;
        assert_eq!(manifest.contents(), [&manifest.config, &here_after_all]);
    }
}
