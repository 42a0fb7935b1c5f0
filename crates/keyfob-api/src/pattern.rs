//! `matchImages` patterns and registry keys, and what they match.
//!
//! A pattern and an image name are both read as URLs without a scheme. Ports must be equal, each label of the host name
//! is a glob for one label of the image's, and the path is a plain prefix.
//! Upstream: `ParseSchemelessURL`, `SplitURL` and `URLsMatch` in `pkg/credentialprovider/keyring.go` (1.37).
//! Differs: nothing in what matches; the reasons given by [`MatchPattern::check`] and [`MatchPattern::never_matches`]
//! are ours.

mod covers;
mod key;
mod mismatch;
mod never;

use std::{borrow::Cow, fmt, str::FromStr};

use thiserror::Error;

pub use self::{
    key::{InvalidKey, RegistryKey},
    mismatch::Mismatch,
    never::NeverMatches,
};
use crate::{
    glob::{self, BadPattern},
    go_url::{SchemelessUrl, UrlError},
};

/// A pattern for image names: `*.dkr.ecr.*.amazonaws.com`, `registry.io:5000/team`.
///
/// ```
/// use keyfob_api::{ImageRef, MatchPattern};
///
/// let pattern = MatchPattern::parse("*.registry.io/team")?;
/// let image = ImageRef::parse("eu.registry.io/team/app:v1").unwrap();
/// assert!(pattern.matches(&image.target()?));
///
/// let elsewhere = ImageRef::parse("eu.registry.io:5000/team/app").unwrap();
/// assert_eq!(
///     pattern.check(&elsewhere.target()?).unwrap_err().to_string(),
///     "port differs: the pattern has none, the image 5000; a pattern without a port never matches an image with one"
/// );
///
/// let useless = MatchPattern::parse("https://registry.io/*")?;
/// assert_eq!(
///     useless.never_matches().unwrap().to_string(),
///     r#"image names have no scheme, so a pattern with one matches none: write "registry.io/""#
/// );
/// # Ok::<(), keyfob_api::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatchPattern {
    text: Box<str>,
    labels: Box<[LabelPattern]>,
    port: Box<str>,
    path: Box<[u8]>,
}

impl MatchPattern {
    /// Reads a pattern. Whatever the kubelet's configuration accepts is accepted, also what [can match
    /// nothing](Self::never_matches).
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// The same for what percent-decoding may have made of a text.
    fn parse_bytes(text: &[u8]) -> Result<Self, PatternError> {
        let url = SchemelessUrl::parse(text).map_err(PatternError)?;
        let (name, port) = url.name_and_port();
        Ok(Self {
            text: String::from_utf8_lossy(text).into(),
            labels: labels_of(name).map(LabelPattern::new).collect(),
            port: digits(port),
            path: url.path.into(),
        })
    }

    /// Whether an image matches. A malformed glob matches nothing.
    pub fn matches(&self, target: &MatchTarget) -> bool {
        self.difference(target).is_none()
    }

    /// Why an image does not match: that the pattern matches none, or else the first difference in upstream's order (port,
    /// number of labels, path, labels).
    pub fn check(&self, target: &MatchTarget) -> Result<(), Mismatch> {
        match self.difference(target) {
            None => Ok(()),
            Some(difference) => Err(Mismatch::new(difference, self, target)),
        }
    }

    /// The host name's labels, from left to right.
    pub fn labels(&self) -> &[LabelPattern] {
        &self.labels
    }

    /// The port's digits.
    pub fn port(&self) -> Option<&str> {
        Some(&*self.port).filter(|port| !port.is_empty())
    }

    /// What the image's path must begin with, percent-decoded, with its slash in front; or nothing.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The first difference, in upstream's order. Nothing is allocated.
    fn difference(&self, target: &MatchTarget) -> Option<Difference> {
        if self.port != target.port {
            return Some(Difference::Port);
        }
        if self.labels.len() != target.label_count {
            return Some(Difference::LabelCount);
        }
        if !target.path.starts_with(&self.path) {
            return Some(Difference::Path);
        }
        self.labels.iter().zip(target.labels()).enumerate().find_map(|(index, (pattern, label))| {
            match pattern.matches(label) {
                Ok(true) => None,
                Ok(false) => Some(Difference::Label(index)),
                Err(BadPattern) => Some(Difference::BadGlob(index)),
            }
        })
    }

    /// The host name, percent-decoded.
    fn name(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(LabelPattern::text).collect();
        labels.join(".")
    }
}

impl FromStr for MatchPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

/// The text as written.
impl fmt::Display for MatchPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What one label of a pattern asks of one label of an image's host name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LabelPattern {
    /// Anything: the label is all stars.
    Any,
    /// What the glob says: the label has a star or a character class somewhere.
    Glob(Box<[u8]>),
    /// These bytes: percent-decoded, so they need not be UTF-8.
    Literal(Box<[u8]>),
}

impl LabelPattern {
    fn new(label: &[u8]) -> Self {
        if !label.is_empty() && label.iter().all(|byte| *byte == b'*') {
            return Self::Any;
        }
        // URL hosts hold neither `?` nor `\`, the other two characters a glob gives a meaning.
        if label.iter().any(|byte| matches!(byte, b'*' | b'[')) {
            Self::Glob(label.into())
        } else {
            Self::Literal(label.into())
        }
    }

    fn matches(&self, label: &[u8]) -> Result<bool, BadPattern> {
        match self {
            Self::Any => Ok(true),
            Self::Glob(pattern) => glob::matches(pattern, label),
            Self::Literal(literal) => Ok(**literal == *label),
        }
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Any => "*".into(),
            Self::Glob(text) | Self::Literal(text) => String::from_utf8_lossy(text),
        }
    }
}

/// An image's repository, taken apart once for all the patterns it is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatchTarget {
    name: Box<[u8]>,
    label_count: usize,
    port: Box<str>,
    path: Box<[u8]>,
}

impl MatchTarget {
    /// Reads a repository. For an image's, see [`ImageRef::target`](crate::ImageRef::target).
    pub fn parse(repository: &str) -> Result<Self, PatternError> {
        if let Some((name, port, path)) = plain_pieces(repository) {
            return Ok(Self::new(name.as_bytes(), port.as_bytes(), path.as_bytes()));
        }
        let url = SchemelessUrl::parse(repository.as_bytes()).map_err(PatternError)?;
        let (name, port) = url.name_and_port();
        Ok(Self::new(name, port, &url.path))
    }

    /// The host name's labels, from left to right, percent-decoded.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        labels_of(&self.name)
    }

    /// How many labels the host name has.
    pub fn label_count(&self) -> usize {
        self.label_count
    }

    /// The port's digits.
    pub fn port(&self) -> Option<&str> {
        Some(&*self.port).filter(|port| !port.is_empty())
    }

    /// The path, percent-decoded, with its slash in front; or nothing.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    fn new(name: &[u8], port: &[u8], path: &[u8]) -> Self {
        let label_count = labels_of(name).count();
        Self { name: name.into(), label_count, port: digits(port), path: path.into() }
    }
}

/// Host name, port and path of a text in which nothing has a meaning of its own but `:` and `/`: nearly every image.
fn plain_pieces(text: &str) -> Option<(&str, &str, &str)> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte);
    if !text.bytes().all(is_plain) {
        return None;
    }
    let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let (name, port) = authority.split_once(':').unwrap_or((authority, ""));
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some((name, port, path))
}

/// A text that is no URL when `https://` stands in front of it. Displays as Go's error, word for word.
///
/// In a configuration it is fatal; in an image's repository it means that no pattern matches.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PatternError(UrlError);

/// Where a pattern and a target part ways.
#[derive(Clone, Copy)]
enum Difference {
    BadGlob(usize),
    Label(usize),
    LabelCount,
    Path,
    Port,
}

fn labels_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| *byte == b'.')
}

/// A port that the URL parser let through is nothing but digits.
fn digits(port: &[u8]) -> Box<str> {
    String::from_utf8_lossy(port).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, target: &str) -> bool {
        let pattern = MatchPattern::parse(pattern).unwrap();
        pattern.matches(&MatchTarget::parse(target).unwrap())
    }

    #[test]
    fn a_star_is_one_label_or_a_part_of_one() {
        assert!(matches("*.reg.test", "eu.reg.test/app"));
        assert!(matches("eu-*.reg.*", "eu-1.reg.test/app"));
        assert!(matches("**.test", "reg.test/app"));
        assert!(matches("*", "localhost/app"));
        assert!(!matches("*.reg.test", "reg.test/app"));
        assert!(!matches("*.reg.test", "a.eu.reg.test/app"));
        assert!(!matches("*", "reg.test/app"));
        assert!(!matches("reg.test", "REG.test/app"));
    }

    #[test]
    fn ports_are_equal_or_nothing_matches() {
        assert!(matches("reg.test:5000", "reg.test:5000/app"));
        assert!(matches("reg.test:", "reg.test/app"));
        assert!(matches("[::1]:5000", "[::1]:5000/app"));
        assert!(!matches("reg.test", "reg.test:443/app"));
        assert!(!matches("reg.test:443", "reg.test/app"));
        assert!(!matches("reg.test:0443", "reg.test:443/app"));
    }

    #[test]
    fn a_path_is_a_plain_prefix() {
        assert!(matches("reg.test/team", "reg.test/team/app"));
        assert!(matches("reg.test/team", "reg.test/teamwork"));
        assert!(matches("reg.test/te%61m?x#y", "reg.test/team"));
        assert!(!matches("reg.test/team/", "reg.test/team"));
        assert!(!matches("reg.test/*", "reg.test/team"));
    }

    #[test]
    fn an_address_without_a_port_is_read_as_a_character_class() {
        assert!(!matches("[::1]", "[::1]/app"));
        assert!(matches("[::1]", "1/app"));
        assert!(matches("*", "[::1]/app"));
    }

    #[test]
    fn bytes_that_are_no_text_are_compared_all_the_same() {
        assert!(matches("%FF%FE.test", "%ff%fe.test/app"));
        assert!(matches("*%FE.test", "%ff%fe.test/app"));
        assert!(!matches("%FF.test", "%FE.test/app"));
    }

    #[test]
    fn a_pattern_shows_its_pieces_and_prints_as_written() {
        let pattern: MatchPattern = "u@a*.*.b%2525:80/c%20d?e".parse().unwrap();
        assert_eq!(
            pattern.labels(),
            [
                LabelPattern::Glob(b"a*".as_slice().into()),
                LabelPattern::Any,
                LabelPattern::Literal(b"b%25".as_slice().into()),
            ]
        );
        assert_eq!((pattern.port(), pattern.path()), (Some("80"), b"/c d".as_slice()));
        assert_eq!(pattern.to_string(), "u@a*.*.b%2525:80/c%20d?e");
        assert_eq!(MatchPattern::parse("a:").unwrap().port(), None);
    }

    #[test]
    fn a_plain_name_is_read_as_the_url_parser_reads_it() {
        for text in
            ["r.io", "r.io/a", "r.io:80/a:b", "r.io:", ":80/a", "", "/", "a:1:2", "a:b/c", "a//b"]
        {
            let url = SchemelessUrl::parse(text.as_bytes());
            let slowly = url.map(|url| {
                let (name, port) = url.name_and_port();
                MatchTarget::new(name, port, &url.path)
            });
            assert_eq!(MatchTarget::parse(text), slowly.map_err(PatternError), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        let error = MatchPattern::parse("reg.test:*").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"parse "https://reg.test:*": invalid port ":*" after host"#
        );
    }
}
