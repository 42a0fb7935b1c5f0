//! Manifests and indexes.

use axum::body::Body;
use http::{
    HeaderMap, Method, Response, StatusCode,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, LOCATION},
};
use serde::Deserialize;

use super::{
    Server,
    answer::{Asked, CONTENT_DIGEST, respond},
    body::Pieces,
    digest::Digest,
    media_type::Kind,
    name::{Reference, Repository},
    refusal::{Code, Refusal},
    route,
    storage::{Manifest, Storage},
};

impl Server {
    pub(super) fn get_manifest(
        &self,
        name: &Repository,
        reference: &Reference,
        asked: &Asked<'_>,
    ) -> Result<Response<Body>, Refusal> {
        let missing = || Refusal::new(Code::ManifestUnknown, format!("no {reference} in {name}"));
        let manifest = self.storage.manifest(name, reference).ok_or_else(missing)?;
        let media_type = manifest.media_type;
        if !accepts(&asked.parts.headers, &media_type) {
            let message = format!("{reference} is {media_type}, which is not accepted");
            return Err(Refusal::new(Code::ManifestUnknown, message));
        }
        let is_wrong = asked.struck.manifest_is_wrong();
        let body =
            if is_wrong { [&manifest.body[..], b"\n"].concat().into() } else { manifest.body };
        let headers = [
            (CONTENT_TYPE, media_type),
            (CONTENT_DIGEST, manifest.digest.to_string()),
            (CONTENT_LENGTH, body.len().to_string()),
        ];
        let is_head = asked.parts.method == Method::HEAD;
        let body = if is_head { Body::empty() } else { Body::from(body) };
        respond(StatusCode::OK, &headers, body)
    }

    pub(super) async fn put_manifest(
        &self,
        name: &Repository,
        reference: &Reference,
        asked: &Asked<'_>,
        pieces: &mut Pieces<'_>,
    ) -> Result<Response<Body>, Refusal> {
        let media_type = asked.parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let media_type = bare(media_type.unwrap_or_default()).to_owned();
        let body = pieces.whole(self.limits.manifest).await?;
        check(&self.storage, name, &media_type, &body)?;
        let digest = Digest::of(&body);
        if matches!(reference, Reference::Digest(said) if *said != digest) {
            let message = format!("the manifest's digest is {digest}");
            return Err(Refusal::new(Code::DigestInvalid, message));
        }
        let tag = match reference {
            Reference::Tag(tag) => Some(tag.as_str()),
            Reference::Digest(_) => None,
        };
        let manifest = Manifest { media_type, body: body.into(), digest };
        self.storage.add_manifest(name, manifest, tag, self.limits.stored)?;
        let headers = [
            (LOCATION, format!("/v2/{name}/manifests/{digest}")),
            (CONTENT_DIGEST, digest.to_string()),
        ];
        respond(StatusCode::CREATED, &headers, Body::empty())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    schema_version: u32,
    media_type: Option<String>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    /// Where else it is: then it need not be here.
    #[serde(default)]
    urls: Vec<String>,
}

/// A manifest is taken that is of a known kind and lists what is there.
fn check(
    storage: &Storage,
    name: &Repository,
    media_type: &str,
    body: &[u8],
) -> Result<(), Refusal> {
    let invalid = |message: &str| Refusal::new(Code::ManifestInvalid, message);
    let kind = Kind::of_manifest(media_type).ok_or_else(|| {
        invalid("Content-Type is neither OCI's nor docker's for a manifest or an index")
    })?;
    let listed: Listed = serde_json::from_slice(body).map_err(|_| invalid("not a manifest"))?;
    if listed.schema_version != 2 || listed.media_type.is_some_and(|said| said != media_type) {
        return Err(invalid("schemaVersion is not 2, or mediaType is not the Content-Type"));
    }
    if kind == Kind::Index {
        return listed.manifests.iter().try_for_each(|each| {
            let digest = route::digest(&each.digest)?;
            let found = storage.manifest(name, &Reference::Digest(digest));
            found.map(drop).ok_or_else(|| missing(Code::ManifestUnknown, digest))
        });
    }
    let config = listed.config.ok_or_else(|| invalid("a manifest has a config"))?;
    let mut here = listed.layers.iter().chain([&config]).filter(|each| each.urls.is_empty());
    here.try_for_each(|each| {
        let digest = route::digest(&each.digest)?;
        let found = storage.blob(name, &digest);
        found.map(drop).ok_or_else(|| missing(Code::ManifestBlobUnknown, digest))
    })
}

fn missing(code: Code, digest: Digest) -> Refusal {
    Refusal::new(code, format!("{digest} is listed, and must be pushed before"))
        .status(StatusCode::BAD_REQUEST)
}

/// Whether a client can have a manifest of this type: whoever names no type can have any.
fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut named = headers
        .get_all(ACCEPT)
        .iter()
        .flat_map(|accept| accept.to_str().unwrap_or_default().split(','))
        .map(bare)
        .filter(|accept| !accept.is_empty())
        .peekable();
    named.peek().is_none()
        || named.any(|accept| accept == media_type || matches!(accept, "*/*" | "application/*"))
}

/// A media type without its parameters.
fn bare(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}
