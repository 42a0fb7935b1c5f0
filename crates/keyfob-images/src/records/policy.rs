//! Whose access to an image that is here is verified.
//!
//! Upstream: `image_pull_policies.go`.

use std::collections::BTreeSet;

use thiserror::Error;

use super::names::{ImageNameError, recorded_name};

/// When a pod must have proved its access to an image that is here: the kubelet's `imagePullCredentialsVerificationPolicy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerificationPolicy {
    /// Never.
    NeverVerify,
    /// If the image was pulled here; whoever brought it otherwise answers for it.
    #[default]
    NeverVerifyPreloadedImages,
    /// If the image is not in the list, however it came.
    NeverVerifyAllowlistedImages(Allowlist),
    /// Always.
    AlwaysVerify,
}

impl VerificationPolicy {
    /// Whether access to this image must have been proved; `was_pulled` says that there is a trace of a pull of it.
    pub fn requires_verification(&self, image: &str, was_pulled: bool) -> bool {
        match self {
            Self::NeverVerify => false,
            Self::NeverVerifyPreloadedImages => was_pulled,
            Self::NeverVerifyAllowlistedImages(list) => !list.has(image),
            Self::AlwaysVerify => true,
        }
    }
}

/// Images that every pod may use: the kubelet's `preloadedImagesVerificationAllowlist`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    names: BTreeSet<String>,
    prefixes: Vec<String>,
}

impl Allowlist {
    /// Reads names without tag and digest, and beginnings of names that end in `/*`.
    pub fn parse<S: AsRef<str>>(
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Self, AllowlistError> {
        let mut list = Self::default();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            match prefix(pattern)? {
                Some(prefix) => list.prefixes.push(prefix.to_owned()),
                None => drop(list.names.insert(name(pattern)?)),
            }
        }
        Ok(list)
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The beginnings of names, each with its last slash.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.prefixes.iter().map(String::as_str)
    }

    /// Whether an image is in the list, as its name is written.
    pub fn has(&self, image: &str) -> bool {
        let name = recorded_name(image).unwrap_or_else(|_| image.to_owned());
        self.names.contains(&name) || self.prefixes().any(|prefix| name.starts_with(prefix))
    }
}

/// What stands before the star, if there is one where it may be.
fn prefix(pattern: &str) -> Result<Option<&str>, AllowlistError> {
    let shown = || pattern.to_owned();
    if pattern != pattern.trim() {
        return Err(AllowlistError::OuterSpaces(shown()));
    }
    let prefix = pattern.strip_suffix('*').filter(|prefix| prefix.ends_with('/'));
    let rest = prefix.unwrap_or(pattern);
    if rest.is_empty() {
        return Err(AllowlistError::TooShort(shown()));
    }
    if rest.contains('*') {
        return Err(AllowlistError::Wildcard(shown()));
    }
    if prefix == Some("/") { Err(AllowlistError::NoHost) } else { Ok(prefix) }
}

fn name(pattern: &str) -> Result<String, AllowlistError> {
    let name = recorded_name(pattern)?;
    if name == pattern { Ok(name) } else { Err(AllowlistError::TagOrDigest(pattern.to_owned())) }
}

/// Why a list of images cannot be used, in a kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllowlistError {
    /// Spaces stand around a pattern.
    #[error("leading/trailing spaces are not allowed: {0}")]
    OuterSpaces(String),
    /// There is no pattern.
    #[error("the supplied pattern is too short: {0}")]
    TooShort(String),
    /// A star stands elsewhere than behind the last slash.
    #[error("not a valid wildcard pattern, only patterns ending with '/*' are allowed: {0}")]
    Wildcard(String),
    /// Every image would match.
    #[error("at least registry hostname is required")]
    NoHost,
    /// A pattern is no name.
    #[error("failed to parse as an image name: {0}")]
    Name(#[from] ImageNameError),
    /// A pattern has a tag or a digest.
    #[error("neither tag nor digest is accepted in an image reference: {0}")]
    TagOrDigest(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_as_they_are_written_and_what_is_below_a_slash() {
        let list = Allowlist::parse(["r.test/team/app", "r.test/open/*", "redis"]).unwrap();
        for listed in ["r.test/team/app:v1", "r.test/open/a/b:v2", "redis", "r.test/open/*broken"] {
            assert!(list.has(listed), "{listed}");
        }
        for other in
            ["r.test/team/app/x", "r.test/open", "docker.io/library/redis", "r.test/opener/a"]
        {
            assert!(!list.has(other), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_in_a_list_is_refused_in_upstreams_words() {
        for (pattern, words) in [
            (" r.test/a", "leading/trailing spaces are not allowed:  r.test/a"),
            ("", "the supplied pattern is too short: "),
            ("*", "not a valid wildcard pattern, only patterns ending with '/*' are allowed: *"),
            (
                "r.test/a*/*",
                "not a valid wildcard pattern, only patterns ending with '/*' are allowed: r.test/a*/*",
            ),
            (
                "r.test/**",
                "not a valid wildcard pattern, only patterns ending with '/*' are allowed: r.test/**",
            ),
            ("/*", "at least registry hostname is required"),
            (
                "r.test/",
                "failed to parse as an image name: invalid reference format: a path component is empty",
            ),
            (
                "r.test/a:v1",
                "neither tag nor digest is accepted in an image reference: r.test/a:v1",
            ),
        ] {
            assert_eq!(Allowlist::parse([pattern]).unwrap_err().to_string(), words);
        }
    }

    #[test]
    fn a_trace_of_a_pull_matters_to_the_default_only() {
        let verified = |policy: &VerificationPolicy| {
            [false, true].map(|was_pulled| policy.requires_verification("r.test/a", was_pulled))
        };
        let listed = VerificationPolicy::NeverVerifyAllowlistedImages(Allowlist::default());
        assert_eq!(verified(&VerificationPolicy::NeverVerify), [false, false]);
        assert_eq!(verified(&VerificationPolicy::default()), [false, true]);
        assert_eq!(verified(&listed), [true, true]);
        assert_eq!(verified(&VerificationPolicy::AlwaysVerify), [true, true]);
    }
}
