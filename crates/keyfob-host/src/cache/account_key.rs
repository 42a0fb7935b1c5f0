//! The parts of keys that a service account gives.
//!
//! Upstream: `generateServiceAccountCacheKey` and `generateSingleFlightKey` in
//! `pkg/credentialprovider/plugin/plugin.go`.

use std::{collections::BTreeMap, fmt};

use keyfob_keyring::ServiceAccountCoordinates;
use sha2::{Digest as _, Sha256};

use super::key::{KeyTooLong, put};

/// What a [`CacheKey`](crate::CacheKey) says of a service account: two accounts never have the same.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServiceAccountKey(Box<[u8]>);

impl ServiceAccountKey {
    /// A key for the annotations that the plugin got, and for its token by its hash if the answer belongs to that
    /// (`cacheType: Token`).
    pub fn new(
        account: &ServiceAccountCoordinates,
        annotations: &BTreeMap<String, String>,
        token_hash: Option<&str>,
    ) -> Result<Self, KeyTooLong> {
        let mut bytes = Vec::new();
        for part in [&account.namespace, &account.name, &account.uid] {
            put(&mut bytes, part.as_bytes())?;
        }
        put_annotations(&mut bytes, annotations)?;
        if let Some(hash) = token_hash {
            put(&mut bytes, b"token")?;
            put(&mut bytes, hash.as_bytes())?;
        }
        Ok(Self(bytes.into()))
    }

    /// The encoded key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ServiceAccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccountKey({})", self.0.escape_ascii())
    }
}

/// Who asks this at the same time is answered by one run. The account is not in it, since its token is.
pub(crate) fn flight_key(
    image: &str,
    token_hash: &str,
    annotations: &BTreeMap<String, String>,
) -> Result<Box<[u8]>, KeyTooLong> {
    let mut bytes = Vec::new();
    put(&mut bytes, image.as_bytes())?;
    put(&mut bytes, token_hash.as_bytes())?;
    put_annotations(&mut bytes, annotations)?;
    Ok(bytes.into())
}

/// What a key knows a token by; nothing of an empty one.
pub(crate) fn token_hash(token: &str) -> String {
    match token {
        "" => String::new(),
        token => format!("sha256:{}", hex::encode(Sha256::digest(token))),
    }
}

/// Their number, and then each, sorted by key.
fn put_annotations(
    bytes: &mut Vec<u8>,
    annotations: &BTreeMap<String, String>,
) -> Result<(), KeyTooLong> {
    let count = u32::try_from(annotations.len()).unwrap_or(u32::MAX);
    bytes.extend(count.to_be_bytes());
    for (key, value) in annotations {
        put(bytes, key.as_bytes())?;
        put(bytes, value.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn account() -> ServiceAccountCoordinates {
        ServiceAccountCoordinates { uid: "uid".into(), namespace: "ns".into(), name: "name".into() }
    }

    #[test]
    fn a_key_has_the_account_the_number_of_annotations_and_each_sorted() {
        let key = |token| {
            let annotations = annotations([("b", ""), ("a", "1")]);
            ServiceAccountKey::new(&account(), &annotations, token).unwrap()
        };
        let without = b"\0\x02ns\0\x04name\0\x03uid\0\0\0\x02\0\x01a\0\x011\0\x01b\0\0".to_vec();
        assert_eq!(key(None).as_bytes(), without);
        let with = [&*without, b"\0\x05token\0\x02#1"].concat();
        assert_eq!(key(Some("#1")).as_bytes(), with);
    }

    #[test]
    fn the_key_of_a_flight_has_image_token_and_annotations() {
        let key = flight_key("r.io/a", &token_hash(""), &annotations([("k", "v")])).unwrap();
        assert_eq!(*key, *b"\0\x06r.io/a\0\0\0\0\0\x01\0\x01k\0\x01v");
        let key = flight_key("i", "h", &annotations([])).unwrap();
        assert_eq!(*key, *b"\0\x01i\0\x01h\0\0\0\0");
    }

    #[test]
    fn a_token_is_known_by_its_hash() {
        // `printf token | sha256sum`
        let expected = "sha256:3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0";
        assert_eq!(token_hash("token"), expected);
    }

    #[test]
    fn a_value_beyond_two_bytes_of_length_is_refused() {
        let long = annotations([("k", &"x".repeat(70_000))]);
        let error = ServiceAccountKey::new(&account(), &long, None).unwrap_err();
        let said = "cryptobyte: pending child length 70000 exceeds 2-byte length prefix";
        assert_eq!(error.to_string(), said);
        assert_eq!(flight_key("i", "", &long), Err(error));
    }
}
