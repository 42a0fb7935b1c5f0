//! Which images are here.

use std::collections::HashSet;

use keyfob_api::ImageRef;

use super::{
    Layout, LayoutError,
    index::{NAME, PULLED},
    names::spellings,
};
use crate::{
    Descriptor, Digest, Platform,
    manifest::{Document, Manifest},
};

/// Lists of lists are rare, and lists of lists of lists are a trick.
pub(crate) const DEEPEST_INDEX: usize = 3;

/// An image that is here, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredImage {
    /// Its full name (`docker.io/library/nginx:1.27`); nothing if another tool gave it none, or one that is not full.
    pub name: Option<ImageRef>,
    /// Its id: the digest of its configuration, as container runtimes have it.
    pub id: Digest,
    /// The digest of its manifest.
    pub manifest: Digest,
    /// The digest that its name stood for when it was pulled: its manifest's, or that of a list which has it.
    pub pulled: Digest,
    /// What it runs on, if that is known.
    pub platform: Option<Platform>,
    /// Whether it is here because of that. If not, it is what there was.
    pub(crate) is_chosen: bool,
    /// How many bytes it has, with its manifest and configuration.
    pub size: u64,
}

impl Layout {
    /// Every image that is here, whole.
    pub fn images(&self) -> Result<Vec<StoredImage>, LayoutError> {
        self.images_where(|_| true)
    }

    /// The image of this name for this platform, if it is here, whole. A digest in the name decides, whatever its tag.
    pub fn find(
        &self,
        name: &ImageRef,
        platform: &Platform,
    ) -> Result<Option<StoredImage>, LayoutError> {
        let images = self.images_of(name.repository())?;
        // Where nothing is known, nothing speaks against it.
        let rank = |image: &StoredImage| match &image.platform {
            Some(own) => platform.rank(own),
            None => Some(usize::MAX),
        };
        let named = images.into_iter().filter(|image| image.is_called(name));
        let ranked = named.filter_map(|image| Some((rank(&image)?, image)));
        Ok(ranked.min_by_key(|(rank, _)| *rank).map(|(_, image)| image))
    }

    /// The same, or else an image of this name that nobody chose for a platform.
    pub(crate) fn find_or_take(
        &self,
        name: &ImageRef,
        platform: &Platform,
    ) -> Result<Option<StoredImage>, LayoutError> {
        if let Some(image) = self.find(name, platform)? {
            return Ok(Some(image));
        }
        let mut images = self.images_of(name.repository())?.into_iter();
        Ok(images.find(|image| !image.is_chosen && image.is_called(name)))
    }

    fn images_of(&self, repository: &str) -> Result<Vec<StoredImage>, LayoutError> {
        let is_of_it = |own: &ImageRef| own.repository() == repository;
        self.images_where(|entry| entry.name.as_ref().is_some_and(is_of_it))
    }

    fn images_where(
        &self,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<StoredImage>, LayoutError> {
        let mut images = Vec::new();
        for entry in self.index()?.descriptors().map(Entry::of).filter(is_wanted) {
            let mut manifests = Vec::new();
            self.manifests(&entry.descriptor, DEEPEST_INDEX, &mut HashSet::new(), &mut manifests);
            let found = manifests.iter().filter_map(|(own, each)| entry.image(self, own, each));
            images.extend(found);
        }
        Ok(images)
    }

    /// Gathers every manifest that a descriptor leads to and that is here, each once, however often it is listed.
    fn manifests(
        &self,
        descriptor: &Descriptor,
        depth: usize,
        seen: &mut HashSet<Digest>,
        found: &mut Vec<(Descriptor, Manifest)>,
    ) {
        if !seen.insert(descriptor.digest.clone()) {
            return;
        }
        let Some(bytes) = self.read(descriptor) else { return };
        match Document::read(&bytes, Some(&descriptor.media_type)) {
            Ok((Document::Manifest(manifest), _)) => found.push((descriptor.clone(), *manifest)),
            Ok((Document::Index(entries), _)) if depth > 0 => {
                for entry in &entries {
                    self.manifests(entry, depth - 1, seen, found);
                }
            }
            _ => {}
        }
    }
}

/// One entry of the index.
struct Entry {
    name: Option<ImageRef>,
    pulled: Digest,
    descriptor: Descriptor,
}

impl Entry {
    fn of(descriptor: Descriptor) -> Self {
        let name = descriptor.annotations.get(NAME);
        // `v1` is what another tool calls a tag: as the name of an image it would be one of Docker Hub's.
        let name = name
            .and_then(|name| ImageRef::parse(name).ok().filter(|full| full.to_string() == *name));
        let pulled =
            descriptor.annotations.get(PULLED).and_then(|digest| Digest::parse(digest).ok());
        let pulled = pulled.unwrap_or_else(|| descriptor.digest.clone());
        Self { name, pulled, descriptor }
    }

    /// The image of one of its manifests; nothing if a part of it is missing.
    fn image(
        &self,
        layout: &Layout,
        descriptor: &Descriptor,
        manifest: &Manifest,
    ) -> Option<StoredImage> {
        let contents = manifest.contents();
        if !contents.iter().all(|each| layout.has(&each.digest, each.size)) {
            return None;
        }
        // A layer that is elsewhere may have come here with another image: then a pull must prove access to it.
        if manifest.elsewhere().any(|each| layout.has_any(&each.digest)) {
            return None;
        }
        let platform = descriptor.platform.clone();
        Some(StoredImage {
            name: self.name.clone(),
            id: manifest.config.digest.clone(),
            manifest: descriptor.digest.clone(),
            pulled: self.pulled.clone(),
            is_chosen: platform.is_some(),
            platform: platform.or_else(|| layout.platform_of(&manifest.config)),
            size: manifest.size().saturating_add(descriptor.size),
        })
    }
}

impl StoredImage {
    /// Whether this is the image of that name.
    fn is_called(&self, name: &ImageRef) -> bool {
        let Some(own) = &self.name else { return false };
        match name.digest() {
            Some(digest) => {
                let is_own = |own: &Digest| own.to_string() == digest;
                own.repository() == name.repository()
                    && (is_own(&self.manifest) || is_own(&self.pulled))
            }
            None => own == name,
        }
    }

    /// Its names with a tag, in every way that a pod may have written them.
    pub fn repo_tags(&self) -> Vec<String> {
        let name = self.name.as_ref().filter(|name| name.digest().is_none());
        let tagged = |name: &ImageRef| {
            let tag = name.tag().unwrap_or_default().to_owned();
            spellings(name.repository())
                .into_iter()
                .map(move |name| format!("{name}:{tag}"))
                .collect()
        };
        name.map(tagged).unwrap_or_default()
    }

    /// Its names with a digest, in every way that a pod may have written them.
    pub fn repo_digests(&self) -> Vec<String> {
        let Some(name) = &self.name else { return Vec::new() };
        let mut digests = vec![self.pulled.to_string(), self.manifest.to_string()];
        digests.dedup();
        let tags = [None, name.digest().and(name.tag())];
        let spelled = |digest: &String| {
            let named = |tag: Option<&str>| {
                let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
                let names = spellings(name.repository()).into_iter();
                names.map(|name| format!("{name}{tag}@{digest}")).collect::<Vec<_>>()
            };
            tags.into_iter().flat_map(named).collect::<Vec<_>>()
        };
        let mut all: Vec<String> = digests.iter().flat_map(spelled).collect();
        let mut seen = HashSet::new();
        all.retain(|name| seen.insert(name.clone()));
        all
    }
}
