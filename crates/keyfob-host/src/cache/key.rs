//! Under which keys an answer is kept.
//!
//! Upstream: `generateCacheKey` in `pkg/credentialprovider/plugin/plugin.go`.

use std::{borrow::Borrow, fmt};

use keyfob_api::{CacheKeyType, registry_of};
use thiserror::Error;

/// The key of a cached answer: what it is for, and for whose pods.
///
/// Each part has its length in two bytes before it, so that no two pairs of parts give one key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CacheKey(Box<[u8]>);

impl CacheKey {
    /// A key for an image, a registry or `<global>`, and an encoded identity, which is empty for every pod.
    pub fn new(base: &str, identity: &[u8]) -> Result<Self, KeyTooLong> {
        let mut bytes = Vec::with_capacity(4 + base.len() + identity.len());
        encode(&mut bytes, base, identity)?;
        Ok(Self(bytes.into()))
    }

    /// The encoded key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The image, registry or `<global>` in it.
    pub fn base(&self) -> &str {
        let base = self.0.split_first_chunk().and_then(|(length, rest)| {
            let length = u16::from_be_bytes(*length);
            rest.get(..usize::from(length))
        });
        base.and_then(|base| std::str::from_utf8(base).ok()).unwrap_or_default()
    }
}

/// A map of keys is asked by their bytes.
impl Borrow<[u8]> for CacheKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CacheKey({})", self.0.escape_ascii())
    }
}

/// A part of a key that is longer than its two bytes of length can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cryptobyte: pending child length {0} exceeds 2-byte length prefix")]
pub struct KeyTooLong(usize);

/// Stands for every image and every registry.
const GLOBAL: &str = "<global>";

/// The three keys under which an answer for an image may be found, in the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct CacheKeys {
    /// One after the other.
    bytes: Vec<u8>,
    /// Where the first and the second end.
    ends: [usize; 2],
}

impl CacheKeys {
    pub(crate) fn new(image: &str, identity: &[u8]) -> Result<Self, KeyTooLong> {
        let [image, registry, global] = Self::bases(image);
        let length = image.len() + registry.len() + 3 * identity.len() + 20;
        let mut bytes = Vec::with_capacity(length);
        encode(&mut bytes, image, identity)?;
        let image = bytes.len();
        encode(&mut bytes, registry, identity)?;
        let registry = bytes.len();
        encode(&mut bytes, global, identity)?;
        Ok(Self { bytes, ends: [image, registry] })
    }

    /// The keys with what they stand for.
    pub(crate) fn each(&self) -> [(CacheKeyType, &[u8]); 3] {
        let [first, second] = self.ends;
        let (image, rest) = self.bytes.split_at_checked(first).unwrap_or_default();
        let (registry, global) = rest.split_at_checked(second - first).unwrap_or_default();
        [
            (CacheKeyType::Image, image),
            (CacheKeyType::Registry, registry),
            (CacheKeyType::Global, global),
        ]
    }

    /// What the keys of an image are for, whoever its answers belong to.
    pub(crate) fn bases(image: &str) -> [&str; 3] {
        [image, registry_of(image), GLOBAL]
    }

    pub(crate) fn of(&self, scope: CacheKeyType) -> CacheKey {
        let key = self.each().into_iter().find(|(each, _)| *each == scope);
        CacheKey(key.map(|(_, key)| key).unwrap_or_default().into())
    }
}

fn encode(bytes: &mut Vec<u8>, base: &str, identity: &[u8]) -> Result<(), KeyTooLong> {
    put(bytes, base.as_bytes())?;
    put(bytes, identity)
}

/// A part with its length before it.
pub(super) fn put(bytes: &mut Vec<u8>, part: &[u8]) -> Result<(), KeyTooLong> {
    let length = u16::try_from(part.len()).map_err(|_| KeyTooLong(part.len()))?;
    bytes.extend(length.to_be_bytes());
    bytes.extend(part);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_of_a_key_carry_their_length() {
        let key = CacheKey::new("r.io/app", b"id").unwrap();
        assert_eq!(key.as_bytes(), b"\x00\x08r.io/app\x00\x02id");
        assert_eq!(key.base(), "r.io/app");
        assert_ne!(CacheKey::new("ab", b"c").unwrap(), CacheKey::new("a", b"bc").unwrap());
    }

    #[test]
    fn a_part_beyond_two_bytes_of_length_is_refused_in_upstreams_words() {
        let long = "x".repeat(65_536);
        assert!(CacheKey::new(&long[1..], b"").is_ok());
        assert_eq!(
            CacheKey::new(&long, b"").unwrap_err().to_string(),
            "cryptobyte: pending child length 65536 exceeds 2-byte length prefix"
        );
    }

    #[test]
    fn the_registry_is_what_stands_before_the_first_slash() {
        let bases = |image| {
            let keys = CacheKeys::new(image, b"id").unwrap();
            keys.each().map(|(scope, key)| {
                assert_eq!(keys.of(scope).as_bytes(), key);
                keys.of(scope).base().to_owned()
            })
        };
        assert_eq!(bases("r.io:5000/a/b"), ["r.io:5000/a/b", "r.io:5000", "<global>"]);
        assert_eq!(bases(""), ["", "", "<global>"]);
    }
}
