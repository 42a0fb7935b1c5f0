//! Who signed a pod's token: what a registry does that trusts a cluster.
//!
//! It knows the cluster by its public keys (RFC 7517), which the API server publishes, and believes a token (RFC 7519) only
//! if one of them has signed it, for the right audience, and it has not ended. The key decides how a signature is checked;
//! the token's header only says which key it means, so that `none` and the like are nothing.

use std::{fmt, sync::Arc};

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_api::{Claims, Secret};
use keyfob_exec::{BoxFuture, Clock};
use keyfob_playground::registry::{TokenVerifier, TokenVerifierError};
use kube::{
    Client,
    api::{GetParams, Request},
};
use serde::{Deserialize, de::DeserializeOwned};

/// An issuer of tokens, and its keys.
pub(super) struct Issuer {
    name: String,
    keys: Vec<Key>,
    clock: Arc<dyn Clock>,
}

impl Issuer {
    /// Asks an API server for its keys, once.
    pub(super) async fn ask(
        client: &Client,
        name: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let request = Request::new("/openid/v1").get("jwks", &GetParams::default());
        let request = request.map_err(|error| error.to_string())?;
        let answer = client.request_text(request).await.map_err(|error| error.to_string())?;
        Self::new(name, &answer, clock)
    }

    fn new(name: &str, key_set: &str, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let set: KeySet = serde_json::from_str(key_set)
            .map_err(|_| "the API server's keys are no key set".to_owned())?;
        Ok(Self { name: name.to_owned(), keys: set.keys, clock })
    }

    /// What a token says that may be believed. The reason holds nothing of the token.
    fn believe(&self, token: &Secret<String>, audience: &str) -> Result<Claims, &'static str> {
        let (signed, signature) = token.expose().rsplit_once('.').ok_or(NO_TOKEN)?;
        let (header, claims) = signed.split_once('.').ok_or(NO_TOKEN)?;
        let header: Header = decoded(header).filter(|_| !claims.contains('.')).ok_or(NO_TOKEN)?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| NO_TOKEN)?;
        let mut keys = self.keys.iter().filter(|key| key.is_meant(&header));
        if !keys.any(|key| key.has_signed(signed.as_bytes(), &signature)) {
            return Err("no key of the issuer has signed the token");
        }
        let claims = Claims::of(token).ok_or(NO_TOKEN)?;
        if claims.issuer.as_ref() != Some(&self.name) {
            return Err("the token is of another issuer");
        }
        if !claims.audiences.iter().any(|each| each == audience) {
            return Err("the token is for another audience");
        }
        if claims.expires.is_none_or(|end| end <= self.clock.now()) {
            return Err("the token has ended, or does not say when it ends");
        }
        Ok(claims)
    }
}

impl TokenVerifier for Issuer {
    fn verify<'a>(
        &'a self,
        token: &'a Secret<String>,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Claims, TokenVerifierError>> {
        Box::pin(async move { self.believe(token, audience).map_err(TokenVerifierError::new) })
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("name", &self.name).finish_non_exhaustive()
    }
}

const NO_TOKEN: &str = "it is no signed token";

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

/// A public key, for signatures of its own kind alone.
#[derive(Deserialize)]
#[serde(tag = "kty")]
enum Key {
    #[serde(rename = "RSA")]
    Rsa { kid: String, n: String, e: String },
    #[serde(rename = "EC")]
    Elliptic { kid: String, crv: String, x: String, y: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

impl Key {
    fn is_meant(&self, header: &Header) -> bool {
        match self {
            Self::Rsa { kid, .. } => header.alg == "RS256" && header.kid == *kid,
            Self::Elliptic { kid, crv, .. } => {
                header.alg == "ES256" && crv == "P-256" && header.kid == *kid
            }
            Self::Other => false,
        }
    }

    fn has_signed(&self, signed: &[u8], signature: &[u8]) -> bool {
        let number = |text: &String| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        match self {
            Self::Rsa { n, e, .. } => {
                let key = RsaPublicKeyComponents { n: number(n), e: number(e) };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            Self::Elliptic { x, y, .. } => {
                let point = [vec![4], number(x), number(y)].concat();
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed, signature).is_ok()
            }
            Self::Other => false,
        }
    }
}

fn decoded<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests;
