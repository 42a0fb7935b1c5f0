//! Which manifest a name stands for.

use keyfob_api::ImageRef;

use super::Puller;
use crate::{
    Descriptor, Digest, Platform, PullError,
    client::{Fetched, Repository},
    layout::DEEPEST_INDEX,
    manifest::{ACCEPTED, Document, Manifest, ManifestError},
};

/// The manifest of an image.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) bytes: Vec<u8>,
    pub(super) manifest: Manifest,
    /// With the platform that an index gave it.
    pub(super) descriptor: Descriptor,
    /// What the name itself stood for: the manifest, or an index.
    pub(super) pulled: Digest,
}

impl Puller {
    /// Goes from a tag or a digest to the manifest for the platform.
    pub(super) async fn resolve(
        &self,
        repository: &Repository,
        image: &ImageRef,
        reference: &str,
    ) -> Result<Resolved, PullError> {
        let mut fetched = repository.manifest(reference).await?;
        let (pulled, mut platform) = (fetched.digest.clone(), None);
        for _ in 0..=DEEPEST_INDEX {
            let Fetched { what, bytes, digest, media_type } = fetched;
            let read = Document::read(&bytes, media_type.as_deref());
            let entries =
                match read.map_err(|reason| PullError::Manifest { what: what.clone(), reason })? {
                    (Document::Index(entries), _) => entries,
                    (Document::Manifest(manifest), media_type) => {
                        let of = Descriptor::of(&media_type, &bytes);
                        let descriptor = Descriptor { digest, platform, ..of };
                        return Ok(Resolved { bytes, manifest: *manifest, descriptor, pulled });
                    }
                };
            let chosen = choose(&entries, self.platform()).ok_or_else(|| PullError::Platform {
                image: image.to_string(),
                wanted: Box::new(self.platform().clone()),
                offered: offered(&entries),
            })?;
            fetched = listed(repository, chosen).await?;
            platform = chosen.platform.clone().or(platform);
        }
        let reason = ManifestError::TooDeep;
        Err(PullError::Manifest { what: fetched.what, reason })
    }
}

/// What an index lists, which must be what the index says of it.
async fn listed(repository: &Repository, entry: &Descriptor) -> Result<Fetched, PullError> {
    let mut fetched = repository.manifest(&entry.digest.to_string()).await?;
    if fetched.bytes.len() as u64 != entry.size {
        let reason =
            format!("it has {} bytes, and its index says {}", fetched.bytes.len(), entry.size);
        return Err(PullError::BadAnswer { what: fetched.what, reason });
    }
    if !entry.media_type.is_empty() {
        fetched.media_type = Some(entry.media_type.clone());
    }
    Ok(fetched)
}

/// The entry that runs best on a platform; the first of several, and one that names no platform only if none else will do.
fn choose<'a>(entries: &'a [Descriptor], platform: &Platform) -> Option<&'a Descriptor> {
    let is_image = |entry: &&Descriptor| {
        entry.media_type.is_empty() || ACCEPTED.contains(&entry.media_type.as_str())
    };
    let rank = |entry: &Descriptor| match &entry.platform {
        Some(own) => platform.rank(own),
        None => Some(usize::MAX),
    };
    let ranked = entries.iter().filter(is_image).filter_map(|entry| Some((rank(entry)?, entry)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, entry)| entry)
}

/// What there is, without what is no image.
fn offered(entries: &[Descriptor]) -> Vec<Platform> {
    let platforms = entries.iter().filter_map(|entry| entry.platform.clone());
    let mut offered: Vec<Platform> = platforms.filter(|each| each.os != "unknown").collect();
    let mut seen = std::collections::HashSet::new();
    offered.retain(|each| seen.insert(each.to_string()));
    offered
}
