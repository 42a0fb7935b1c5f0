//! What repositories and manifests are called.
//!
//! Upstream: the grammar of `name` and `reference` in the distribution specification.

use std::fmt;

use super::digest::Digest;

/// The name of a repository: `team/app`. Nothing that is one leads out of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Repository(String);

/// Longer ones do not fit into a reference.
const LONGEST_NAME: usize = 255;
const LONGEST_TAG: usize = 128;

impl Repository {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let is_name = name.len() <= LONGEST_NAME && name.split('/').all(is_component);
        is_name.then(|| Self(name.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Letters and digits, with separators between them: a dot, one or two underscores, any number of dashes.
fn is_component(component: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_separator =
        |text: &str| matches!(text, "" | "." | "_" | "__") || text.chars().all(|c| c == '-');
    component.starts_with(is_inner)
        && component.ends_with(is_inner)
        && component.split(is_inner).all(is_separator)
}

/// How a manifest is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    Tag(String),
    Digest(Digest),
}

impl Reference {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match Digest::parse(text) {
            Some(digest) => Some(Self::Digest(digest)),
            None => is_tag(text).then(|| Self::Tag(text.to_owned())),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= LONGEST_TAG
        && text.starts_with(is_word)
        && text.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar() {
        for name in ["a", "team/app", "a.b/c_d/e__f/g---h", "0/1", &"a".repeat(LONGEST_NAME)] {
            assert!(Repository::parse(name).is_some(), "{name}");
        }
        let rows = [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            ".",
            "..",
            "a/../b",
            "a..b",
            "a___b",
            "a._b",
            "-a",
            "a-",
            "A",
            "é",
            "a b",
            "a%2fb",
            "a:b",
            "a\0",
            &"a".repeat(LONGEST_NAME + 1),
        ];
        for name in rows {
            assert_eq!(Repository::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_reference_is_a_tag_or_a_digest() {
        let digest = Digest::of(b"");
        assert_eq!(Reference::parse(&digest.to_string()), Some(Reference::Digest(digest)));
        for tag in ["v1", "_", "A.b-c_1", &"x".repeat(LONGEST_TAG)] {
            assert_eq!(Reference::parse(tag), Some(Reference::Tag(tag.to_owned())), "{tag}");
        }
        for wrong in
            ["", ".", "..", "-a", "a/b", "a:b", "sha256:12", "é", &"x".repeat(LONGEST_TAG + 1)]
        {
            assert_eq!(Reference::parse(wrong), None, "{wrong}");
        }
    }
}
