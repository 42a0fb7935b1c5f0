//! The key that service-account tokens are signed with.
//!
//! Upstream: `pkg/serviceaccount/jwt.go`: RS256, the key's name is the SHA-256 of its public half.

use aws_lc_rs::{
    encoding::AsDer as _,
    rand::SystemRandom,
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use keyfob_api::{
    Secret,
    der::{Der, INTEGER, SEQUENCE},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Signs, and knows its own signature.
#[derive(Debug)]
pub(super) struct Signer {
    key: KeyPair,
    id: String,
}

/// Why a key cannot sign tokens.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is no PEM, or not a key's.
    #[error("the signing key is not a private key in PEM")]
    NotPem,
    /// It is no RSA key, or a short one.
    #[error("the signing key must be an RSA key of 2048 bits or more")]
    NotRsa,
    /// No key could be made.
    #[error("no signing key could be made")]
    NotMade,
}

impl Signer {
    pub(super) fn generate() -> Result<Self, KeyError> {
        Self::new(KeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::NotMade)?)
    }

    pub(super) fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let key = match PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::NotPem)? {
            PrivateKeyDer::Pkcs8(der) => KeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => KeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(KeyError::NotRsa),
        };
        Self::new(key.map_err(|_| KeyError::NotRsa)?)
    }

    fn new(key: KeyPair) -> Result<Self, KeyError> {
        let public = key.public_key().as_der().map_err(|_| KeyError::NotRsa)?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(public.as_ref()));
        Ok(Self { key, id })
    }

    /// A JWT with these claims.
    pub(super) fn sign(&self, claims: &Value) -> Option<Secret<String>> {
        let header = json!({"alg": "RS256", "kid": self.id});
        let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let mut signature = vec![0; self.key.public_modulus_len()];
        let random = SystemRandom::new();
        self.key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).ok()?;
        Some(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }

    /// The claims of a JWT that was signed here.
    pub(super) fn verify<T: DeserializeOwned>(&self, token: &str) -> Result<T, &'static str> {
        let (signed, signature) = token.rsplit_once('.').ok_or("not a token")?;
        let (header, claims) = signed.split_once('.').ok_or("not a token")?;
        let header: Header = part(header).ok_or("not a token")?;
        if header.alg != "RS256" || header.kid.is_some_and(|id| id != self.id) {
            return Err("invalid signature, no keys found");
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "not a token")?;
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.key.public_key());
        let verified = key.verify(signed.as_bytes(), &signature);
        verified.map_err(|_| "go-jose/go-jose: error in cryptographic primitive")?;
        part(claims).ok_or("not a token")
    }

    /// The public half, for whoever verifies tokens elsewhere.
    pub(super) fn key_set(&self) -> Value {
        let (modulus, exponent) = numbers(self.key.public_key().as_ref()).unwrap_or_default();
        let encode = |number| URL_SAFE_NO_PAD.encode(number);
        json!({"keys": [{
            "use": "sig",
            "kty": "RSA",
            "kid": self.id,
            "alg": "RS256",
            "n": encode(modulus),
            "e": encode(exponent),
        }]})
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
}

/// A part of a JWT, unverified.
pub(super) fn part<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// The modulus and the exponent of a PKCS #1 public key: a sequence of two integers.
fn numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, sequence) = Der(der).take(SEQUENCE)?;
    let (rest, modulus) = sequence.take(INTEGER)?;
    let (_, exponent) = rest.take(INTEGER)?;
    // A zero in front only says that the number is not negative.
    let bare = |Der(number)| number.iter().take_while(|byte| **byte == 0).count();
    Some((modulus.0.get(bare(modulus)..)?, exponent.0.get(bare(exponent)..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_another_key_or_changed_on_its_way_is_refused() {
        let (ours, theirs) = (Signer::generate().unwrap(), Signer::generate().unwrap());
        let token = ours.sign(&json!({"sub": "a"})).unwrap();
        assert_eq!(ours.verify::<Value>(token.expose()), Ok(json!({"sub": "a"})));
        assert!(theirs.verify::<Value>(token.expose()).is_err());
        let parts: Vec<&str> = token.expose().split('.').collect();
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"b"}"#);
        let changed = [parts[0], &claims, parts[2]].join(".");
        assert!(ours.verify::<Value>(&changed).is_err());
        let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        assert!(ours.verify::<Value>(&[&unsigned, parts[1], ""].join(".")).is_err());
        for garbage in ["", "a", "a.b", "a.b.c", "..", "é.é.é"] {
            assert!(ours.verify::<Value>(garbage).is_err(), "{garbage}");
        }
    }

    #[test]
    fn the_numbers_of_a_key_are_found() {
        let signer = Signer::generate().unwrap();
        let (modulus, exponent) = numbers(signer.key.public_key().as_ref()).unwrap();
        assert_eq!((modulus.len(), exponent), (256, [1, 0, 1].as_slice()));
        assert_eq!(numbers(&[0x30, 0x82, 0xff]), None);
        assert_eq!(numbers(&[0x02, 0x01, 0x01]), None);
    }

    #[test]
    fn a_key_that_cannot_sign_is_refused_without_being_quoted() {
        let elliptic = rcgen::KeyPair::generate().unwrap().serialize_pem();
        for (pem, want) in [(elliptic.as_str(), KeyError::NotRsa), ("secret", KeyError::NotPem)] {
            let error = Signer::from_pem(pem.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), want.to_string());
        }
    }
}
