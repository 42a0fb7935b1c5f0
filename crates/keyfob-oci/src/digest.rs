//! Names of contents.

use std::{fmt, str::FromStr};

use aws_lc_rs::digest::{self, Context, SHA256, SHA384, SHA512};
use keyfob_api::Quoted;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The hash of a content, and so its name: `sha256:` and 64 hexadecimal digits.
///
/// ```
/// use keyfob_oci::Digest;
///
/// let digest = Digest::sha256(b"hello");
/// assert_eq!(
///     digest.to_string(),
///     "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
/// );
/// assert_eq!(Digest::parse("sha512:12").unwrap_err().to_string(), r#""sha512:12" is no digest"#);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    algorithm: Algorithm,
    hex: Box<str>,
}

/// The hashes that an image's name may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512];

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    fn implementation(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        }
    }
}

/// A text that names no content.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{} is no digest", Quoted(.0))]
pub struct InvalidDigest(String);

impl Digest {
    /// Reads `sha256:`, `sha384:` or `sha512:` and as many lower-case hexadecimal digits as the hash has.
    pub fn parse(text: &str) -> Result<Self, InvalidDigest> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let read = || {
            let (name, hex) = text.split_once(':')?;
            let algorithm = ALGORITHMS.into_iter().find(|algorithm| algorithm.name() == name)?;
            let fits = hex.len() == 2 * algorithm.implementation().output_len();
            (fits && hex.bytes().all(is_hex)).then(|| Self { algorithm, hex: hex.into() })
        };
        read().ok_or_else(|| InvalidDigest(keyfob_exec::shortened(text, 200)))
    }

    /// The SHA-256 of a content.
    pub fn sha256(content: &[u8]) -> Self {
        Self::with(Algorithm::Sha256, content)
    }

    /// `sha256`, `sha384` or `sha512`.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// The hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// The digest of another content, by the same hash.
    pub(crate) fn alike(&self, content: &[u8]) -> Self {
        Self::with(self.algorithm, content)
    }

    /// The same, for a content that comes in pieces.
    pub(crate) fn hasher(&self) -> Hasher {
        Hasher { algorithm: self.algorithm, context: Context::new(self.algorithm.implementation()) }
    }

    fn with(algorithm: Algorithm, content: &[u8]) -> Self {
        Self::written(algorithm, digest::digest(algorithm.implementation(), content))
    }

    fn written(algorithm: Algorithm, hash: digest::Digest) -> Self {
        Self { algorithm, hex: hex::encode(hash).into() }
    }
}

/// A content that comes in pieces.
#[derive(Clone)]
pub(crate) struct Hasher {
    algorithm: Algorithm,
    context: Context,
}

impl Hasher {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.context.update(piece);
    }

    /// The digest of what came so far.
    pub(crate) fn digest(&self) -> Digest {
        Digest::written(self.algorithm, self.context.clone().finish())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hasher({})", self.algorithm.name())
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_the_digits_of_its_hash() {
        for algorithm in ALGORITHMS {
            let digest = Digest::with(algorithm, b"content");
            assert_eq!(Digest::parse(&digest.to_string()), Ok(digest.clone()));
            for wrong in [
                digest.to_string().to_uppercase(),
                format!("{digest}0"),
                digest.hex().to_owned(),
                format!("{}:{}", digest.algorithm(), "g".repeat(digest.hex().len())),
                format!("md5:{}", digest.hex()),
                format!("{}:../../../../etc/passwd", digest.algorithm()),
            ] {
                assert!(Digest::parse(&wrong).is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn a_content_may_come_in_pieces() {
        let whole = Digest::with(Algorithm::Sha512, b"one content");
        let mut hasher = whole.hasher();
        hasher.update(b"one ");
        assert_eq!(hasher.digest(), whole.alike(b"one "));
        hasher.update(b"content");
        assert_eq!(hasher.digest(), whole);
    }
}
