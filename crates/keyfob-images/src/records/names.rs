//! What the name of an image says about records and intents.
//!
//! Upstream: `trimImageTagDigest` in `image_pull_policies.go`, over `reference.Parse`.
//! Differs: intents count for an image under its other names too: `nginx` and `docker.io/library/nginx`, and the digest that a
//! pull by tag brings along (upstream: the same text only).

use keyfob_api::{ImageError, ImageRef};
use thiserror::Error;

/// The name that records know an image by: as it is written, without tag and digest.
pub fn recorded_name(image: &str) -> Result<String, ImageNameError> {
    match ImageRef::parse(image) {
        Ok(parsed) => Ok(parsed.name_as_written().to_owned()),
        // Not the name of an image that a pod can have, but a name.
        Err(ImageError::Identifier { image }) => Ok(image),
        Err(error) => Err(ImageNameError(in_gos_words(image, &error))),
    }
}

/// A text that is no name of an image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ImageNameError(String);

/// What Go's `reference` says, which does not fill in Docker Hub; behind it what is wrong.
fn in_gos_words(image: &str, error: &ImageError) -> String {
    const LOWER: &str = "repository name must be lowercase";
    match error {
        _ if image.is_empty() => "repository name must have at least one component".to_owned(),
        ImageError::Malformed { fault, .. } => format!("invalid reference format: {fault}"),
        ImageError::NotLowercase { .. } => LOWER.to_owned(),
        ImageError::Uppercase { .. } => match ImageRef::parse(&image.to_lowercase()) {
            Err(ImageError::Malformed { fault, .. }) => {
                format!("invalid reference format: {fault}")
            }
            _ => LOWER.to_owned(),
        },
        other => {
            let text = other.to_string();
            text.rsplit_once("\": ").map_or(text.as_str(), |(_, reason)| reason).to_owned()
        }
    }
}

/// A name that was read once, to be compared with many.
#[derive(Debug)]
pub(super) struct Name<'a> {
    text: &'a str,
    parsed: Option<ImageRef>,
}

impl<'a> Name<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, parsed: ImageRef::parse(text).ok() }
    }

    /// Whether both mean the same, however they are written.
    pub(super) fn is_same(&self, other: &Name<'_>) -> bool {
        self.text == other.text || self.parsed.is_some() && self.parsed == other.parsed
    }

    /// Whether both are of one repository.
    pub(super) fn is_beside(&self, other: &Name<'_>) -> bool {
        let parsed = self.parsed.as_ref().zip(other.parsed.as_ref());
        parsed.is_some_and(|(one, other)| one.repository() == other.repository())
    }

    /// Whether an image of this name may be what a pull of the other brought, or is about to bring. A pull by tag also names
    /// the image by its digest, which nobody knows beforehand.
    pub(super) fn may_come_from(&self, pulled: &Name<'_>) -> bool {
        let same_repository = |(asked, pulled): (&ImageRef, &ImageRef)| {
            asked.repository() == pulled.repository()
                && match asked.digest() {
                    Some(digest) => pulled.digest().is_none_or(|pulled| pulled == digest),
                    None => asked.tag() == pulled.tag(),
                }
        };
        let parsed = self.parsed.as_ref().zip(pulled.parsed.as_ref());
        self.text == pulled.text || parsed.is_some_and(same_repository)
    }

    /// Whether an image that has this name now is what a pull of the other brought. A digest says so whatever tag stood before
    /// it.
    pub(super) fn came_from(&self, pulled: &Name<'_>) -> bool {
        let by_digest = |(here, pulled): (&ImageRef, &ImageRef)| {
            let digests = here.digest().zip(pulled.digest());
            here.repository() == pulled.repository()
                && digests.is_some_and(|(here, pulled)| here == pulled)
        };
        let parsed = self.parsed.as_ref().zip(pulled.parsed.as_ref());
        self.is_same(pulled) || parsed.is_some_and(by_digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "@sha256:1111111111111111111111111111111111111111111111111111111111111111";
    const TWO: &str = "@sha256:2222222222222222222222222222222222222222222222222222222222222222";

    fn digest(name: &str, digest: &str) -> String {
        format!("{name}{digest}")
    }

    #[test]
    fn a_recorded_name_is_what_is_written_without_tag_and_digest() {
        for (image, name) in [
            ("redis", "redis"),
            ("redis:7", "redis"),
            ("index.docker.io/redis:7", "index.docker.io/redis"),
            (&digest("r.test:5000/a:v1", ONE), "r.test:5000/a"),
            (&"a".repeat(64), &"a".repeat(64)),
        ] {
            assert_eq!(recorded_name(image).unwrap(), name);
        }
    }

    #[test]
    fn a_refusal_begins_with_gos_words() {
        for (image, words) in [
            ("", "repository name must have at least one component"),
            ("r.test/a//b", "invalid reference format: a path component is empty"),
            ("r.test/A//b", "invalid reference format: a path component is empty"),
            ("Redis", "repository name must be lowercase"),
            ("R_1.test/a", "repository name must be lowercase"),
            (
                &format!("r.test/{}", "a".repeat(256)),
                "repository name must not be more than 255 characters",
            ),
            ("a@md5:11111111111111111111111111111111", "unsupported digest algorithm"),
        ] {
            assert_eq!(recorded_name(image).unwrap_err().to_string(), words, "{image}");
        }
    }

    #[test]
    fn an_intent_counts_for_every_name_that_its_pull_may_give() {
        let counts = |intent: &str, asked: &str| Name::new(asked).may_come_from(&Name::new(intent));

        assert!(counts("redis:latest", "docker.io/library/redis"));
        assert!(counts("r.test/a:v1", &digest("r.test/a", ONE)), "the digest that the tag has");
        assert!(counts(&digest("r.test/a:v1", ONE), &digest("r.test/a", ONE)));
        assert!(counts("not a name", "not a name"));
        assert!(!counts("r.test/a:v1", "r.test/a:v2"));
        assert!(!counts("r.test/a:v1", &digest("r.test/b", ONE)));
        assert!(!counts(&digest("r.test/a", ONE), &digest("r.test/a", TWO)));
        assert!(!counts(&digest("r.test/a", ONE), "r.test/a:v1"), "a digest gives no tag");
        assert!(!counts("not a name", "no name either"));
    }

    #[test]
    fn an_image_is_known_again_by_its_tag_or_its_digest() {
        let known = |intent: &str, here: &str| Name::new(here).came_from(&Name::new(intent));

        assert!(known("redis:7", "docker.io/library/redis:7"));
        assert!(known(&digest("r.test/a:v1", ONE), &digest("r.test/a", ONE)));
        assert!(!known("r.test/a:v1", &digest("r.test/a", ONE)), "it may be another tag's");
        assert!(!known("r.test/a:v1", "r.test/a:v2"));
    }
}
