//! The keys of a keyring: what registries credentials are for.
//!
//! A key is read twice. First as a URL with or without a scheme, which gives the *stored key*: host and path,
//! percent-decoded, without user, query, fragment and one leading `/v1` or `/v2`. Keyrings are ordered by it. Then the
//! stored key is read again, as a pattern, and that is what images are compared with: `r.io/%2574eam` is stored as
//! `r.io/%74eam` and matches `r.io/team`. A stored key that is no URL any more is dead.
//! Upstream: `BasicDockerKeyring.Add` and `Lookup` in `pkg/credentialprovider/keyring.go` (1.37).
//! Differs: the error for a key that is no URL says what is wrong without quoting it: keys may hold passwords.

use std::fmt;

use memchr::memchr2;
use thiserror::Error;

use super::{Difference, MatchPattern, MatchTarget, Mismatch, NeverMatches, labels_of};
use crate::{
    glob,
    go_url::{SchemelessUrl, UrlError, UrlFault},
};

/// The key of a credential: `registry.io`, `https://registry.io/v2/`, `*.registry.io:5000/team`.
///
/// Many are kept for long, so it is one block of bytes and where its pieces lie in it. The default is a dead key.
///
/// ```
/// use keyfob_api::{ImageRef, RegistryKey};
///
/// let key = RegistryKey::parse("https://*.registry.io/v1/")?;
/// assert_eq!(key.to_string(), "*.registry.io");
///
/// let image = ImageRef::parse("eu.registry.io/team/app").unwrap();
/// assert!(key.matches(&image.target().unwrap()));
/// # Ok::<(), keyfob_api::InvalidKey>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RegistryKey {
    /// The stored key and, if reading that gives something else, host and path as read from it.
    bytes: Box<[u8]>,
    stored: u32,
    name: (u32, u32),
    /// The port ends where the path starts, and the path where the bytes end.
    port: u32,
    path: u32,
    /// How many labels the host name has. A dead key has none, and no host name has none.
    labels: u32,
}

impl RegistryKey {
    /// Reads a key as upstream reads those of docker configurations and of plugins' answers.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let url = SchemelessUrl::parse(without_scheme(text).as_bytes())?;
        let stored = stored_key(url);
        let (pieces, second) = match SchemelessUrl::parse(&stored) {
            Ok(read) => Pieces::locate(read, &stored),
            Err(_) => (Pieces::default(), None),
        };
        let stored_length = stored.len();
        let bytes = match second {
            Some(second) => [stored, second].concat().into_boxed_slice(),
            None => stored.into_boxed_slice(),
        };
        let short = |place: usize| u32::try_from(place).map_err(|_| InvalidKey::TOO_LONG);
        Ok(Self {
            bytes,
            stored: short(stored_length)?,
            name: (short(pieces.name.0)?, short(pieces.name.1)?),
            port: short(pieces.port)?,
            path: short(pieces.path)?,
            labels: short(pieces.labels)?,
        })
    }

    /// The stored key: host and path, percent-decoded, so it need not be UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        self.between(0, self.stored)
    }

    /// Whether an image's credentials may be found under this key. Nothing is allocated.
    pub fn matches(&self, target: &MatchTarget) -> bool {
        self.labels as usize == target.label_count
            && self.between(self.port, self.path) == target.port.as_bytes()
            && target.path.starts_with(self.between(self.path, u32::MAX))
            && self.name_matches(target)
    }

    /// Why an image does not match.
    pub fn check(&self, target: &MatchTarget) -> Result<(), Mismatch> {
        let Ok(pattern) = MatchPattern::parse_bytes(self.as_bytes()) else {
            return Err(Mismatch::Never(NeverMatches::DeadKey));
        };
        match pattern.difference(target) {
            None => Ok(()),
            // As a pattern it would be useless; as a key it may serve all the same.
            Some(difference @ (Difference::Label(_) | Difference::LabelCount))
                if self.is_docker_hub() =>
            {
                Err(Mismatch::between(difference, &pattern, target))
            }
            Some(difference) => Err(Mismatch::new(difference, &pattern, target)),
        }
    }

    /// Whether the stored key is no URL any more, so that no image matches.
    pub fn is_dead(&self) -> bool {
        self.labels == 0
    }

    /// Whether images of Docker Hub for which there is no other key find their credentials here.
    pub fn is_docker_hub(&self) -> bool {
        self.as_bytes() == b"index.docker.io"
    }

    fn name_matches(&self, target: &MatchTarget) -> bool {
        let name = self.between(self.name.0, self.name.1);
        if memchr2(b'*', b'[', name).is_none() {
            return *name == *target.name;
        }
        let mut pairs = labels_of(name).zip(target.labels());
        pairs.all(|(pattern, label)| glob::matches(pattern, label) == Ok(true))
    }

    fn between(&self, start: u32, end: u32) -> &[u8] {
        let end = self.bytes.len().min(end as usize);
        self.bytes.get(start as usize..end).unwrap_or_default()
    }
}

/// The stored key. Bytes that are no text are shown as U+FFFD, and what stands before an `@` is not: with a scheme that is
/// none (`HTTPS://`) a user and a password stay in the key.
impl fmt::Display for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(self.as_bytes());
        match text.rsplit_once('@') {
            Some((_, behind)) => write!(f, "***@{behind}"),
            None => f.write_str(&text),
        }
    }
}

impl fmt::Debug for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistryKey({:?})", self.to_string())
    }
}

/// A key that is no URL, and why. It never quotes the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the key is no registry: {0}")]
pub struct InvalidKey(&'static str);

impl InvalidKey {
    const TOO_LONG: Self = Self("it is longer than 4 GiB");
}

impl From<UrlError> for InvalidKey {
    fn from(error: UrlError) -> Self {
        Self(match error.fault {
            UrlFault::Address(_) | UrlFault::IpLiteral => {
                "brackets stand only around an IPv6 address that is the whole host name"
            }
            UrlFault::ControlCharacter => "it has a control character",
            UrlFault::Escape(_) => "it has a percent sign that begins no escape allowed there",
            UrlFault::HostCharacter(_) => "the host name has a character that none may have",
            UrlFault::MissingBracket => "the host name has a \"[\" that is never closed",
            UrlFault::Port(_) => "what follows the host name's colon is no port",
            UrlFault::Userinfo => "the part before \"@\" has a character that it may not have",
        })
    }
}

/// Only these two schemes are known, in lower case.
fn without_scheme(text: &str) -> &str {
    text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text)
}

fn stored_key(url: SchemelessUrl) -> Vec<u8> {
    let path = match url.path.get(..4) {
        Some(b"/v1/" | b"/v2/") => url.path.get(3..).unwrap_or_default(),
        _ => url.path.as_slice(),
    };
    let mut key = url.host;
    if path != b"/" {
        key.extend_from_slice(path);
    }
    key
}

/// Where the pieces of a key lie in its bytes.
#[derive(Default)]
struct Pieces {
    name: (usize, usize),
    port: usize,
    path: usize,
    labels: usize,
}

impl Pieces {
    /// Finds them in the stored key or, if it does not hold them as they were read, in what is to be put behind it.
    fn locate(read: SchemelessUrl, stored: &[u8]) -> (Self, Option<Vec<u8>>) {
        let mut pieces = Self::within(&read);
        let whole = [read.host, read.path].concat();
        if whole == stored {
            return (pieces, None);
        }
        let behind = stored.len();
        for place in [&mut pieces.name.0, &mut pieces.name.1, &mut pieces.port, &mut pieces.path] {
            *place += behind;
        }
        (pieces, Some(whole))
    }

    fn within(url: &SchemelessUrl) -> Self {
        let (name, port) = url.name_and_port();
        let in_brackets = name.len() < url.host.len() && url.host.starts_with(b"[");
        let start = usize::from(in_brackets);
        Self {
            name: (start, start + name.len()),
            port: url.host.len() - port.len(),
            path: url.host.len(),
            labels: labels_of(name).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> RegistryKey {
        RegistryKey::parse(text).unwrap()
    }

    fn matches(text: &str, repository: &str) -> bool {
        let target = MatchTarget::parse(repository).unwrap();
        let verdict = key(text).matches(&target);
        assert_eq!(key(text).check(&target).is_ok(), verdict, "{text} and {repository}");
        verdict
    }

    #[test]
    fn a_key_is_stored_as_host_and_decoded_path() {
        let cases: &[(&str, &[u8])] = &[
            ("reg.test", b"reg.test"),
            ("https://reg.test/", b"reg.test"),
            ("http://reg.test:5000/v2/", b"reg.test:5000"),
            ("https://reg.test/v1/v2/team", b"reg.test/v2/team"),
            ("reg.test/%76%31/team", b"reg.test/team"),
            ("reg.test/v1", b"reg.test/v1"),
            ("reg.test//", b"reg.test//"),
            ("me:pass@reg.test/a?b#c", b"reg.test/a"),
            ("HTTPS://reg.test", b"HTTPS://reg.test"),
            ("https://https://reg.test", b"https://reg.test"),
            ("%FF.test/%FE%2Fa", b"\xff.test/\xfe/a"),
            ("[fe80::1%25en0]:80", b"[fe80::1%en0]:80"),
            ("reg.test:", b"reg.test:"),
            ("", b""),
        ];
        for (text, stored) in cases {
            assert_eq!(key(text).as_bytes(), *stored, "{text}");
        }
    }

    #[test]
    fn the_stored_key_is_read_once_more_to_be_matched() {
        assert!(matches("r.test/%2574eam", "r.test/team/app"));
        assert!(matches("r.test/te%3Fx", "r.test/team"));
        assert!(matches("r.test/te%23x", "r.test/team"));
        assert!(matches("[fe80::1%2525en0]:80", "[fe80::1%25en0]:80/app"));
        assert!(matches("%25C3%25A9.test", "é.test/app"));
        assert!(matches("[::1]:5000", "[::1]:5000/app"));
        assert!(matches("*.test:80/a", "r.test:80/app"));
        assert!(!matches("r.test/%40team", "r.test/team"));
    }

    #[test]
    fn a_key_that_cannot_be_read_again_is_dead() {
        for text in ["r.test/%0A", "[fe80::1%25en0]:5000", "r.test/%25", "a%25b.test"] {
            let key = key(text);
            let target = MatchTarget::parse("r.test/app").unwrap();
            assert!(key.is_dead() && !key.matches(&target), "{text}");
            assert_eq!(
                key.check(&target).unwrap_err().to_string(),
                "never matches because the key, percent-decoded, is no host and path: write it without escapes"
            );
        }
        assert!(!key("").is_dead());
    }

    #[test]
    fn only_the_bare_host_is_docker_hubs_key() {
        for text in ["index.docker.io", "https://index.docker.io/v1/", "u@index.docker.io/v2/"] {
            assert!(key(text).is_docker_hub(), "{text}");
        }
        for text in ["docker.io", "index.docker.io:", "index.docker.io/v1", "Index.docker.io"] {
            assert!(!key(text).is_docker_hub(), "{text}");
        }
        let target = MatchTarget::parse("docker.io/library/redis").unwrap();
        let reason = key("index.docker.io").check(&target).unwrap_err().to_string();
        assert!(reason.starts_with("labels differ: "), "{reason}");
    }

    #[test]
    fn an_error_never_quotes_the_key() {
        for text in [
            "me:hunter2/hunter2@reg.test",
            "reg.test:hunter2",
            "hunter2 .test",
            "[hunter2]",
            "[hunter2",
            "a/%hu",
            "hunter2\n",
            "hünter2@a",
        ] {
            let error = RegistryKey::parse(text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2") && !shown.contains("%hu"), "{shown}");
        }
    }

    #[test]
    fn a_key_is_small() {
        assert!(size_of::<RegistryKey>() <= 40, "{}", size_of::<RegistryKey>());
        assert_eq!(key("https://me@reg.test:5000/v2/team").bytes.len(), "reg.test:5000/team".len());
    }

    const PIECES: &str = r"(https://|http://|u@|\*|a|b\.|\.|%25|%2574|%3F|%2F|%FF|:80|:|/|/v1/|/v2/|\?|#|\[::1\]|é){0,7}";

    proptest! {
        #[test]
        fn a_key_matches_as_its_stored_key_does_as_a_pattern(
            text in PIECES,
            repository in r"(a|b)(\.b)?(:80)?(/a|/t|/v2/){0,2}",
        ) {
            let Ok(key) = RegistryKey::parse(&text) else { return Ok(()) };
            let target = MatchTarget::parse(&repository).unwrap();
            let pattern = MatchPattern::parse_bytes(key.as_bytes());
            let expected = pattern.is_ok_and(|pattern| pattern.matches(&target));
            prop_assert_eq!(key.matches(&target), expected);
            prop_assert_eq!(key.check(&target).is_ok(), expected);
        }
    }
}
