//! Tokens for a registry, as docker's specification of token authentication has them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use keyfob_testkit::{Request, Response};
use serde_json::{Value, json};

const SERVICE: &str = "the-registry";
const ISSUER: &str = "the-token-server";

/// The key that a registry trusts.
pub(crate) struct TokenIssuer {
    key: EcdsaKeyPair,
    certificate: Vec<u8>,
    bundle: PathBuf,
}

impl TokenIssuer {
    /// Makes a key and writes its certificate into a directory.
    pub(crate) fn new(directory: &Path) -> Self {
        let pair = rcgen::KeyPair::generate().unwrap();
        let names = vec!["token.example".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&pair).unwrap();
        let bundle = directory.join("issuer.pem");
        fs::write(&bundle, certificate.pem()).unwrap();
        let der = pair.serialize_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).unwrap();
        Self { key, certificate: certificate.der().to_vec(), bundle }
    }

    /// The setting `auth` of a registry whose clients get their tokens from this URL.
    pub(crate) fn auth(&self, realm: &str) -> Value {
        json!({"token": {"realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": self.bundle}})
    }

    /// The answer to somebody who may have the access that the request names.
    pub(crate) fn answer(&self, request: &Request, seconds: i64) -> Response {
        let (name, actions) = scope(request);
        let access = json!([{"type": "repository", "name": name, "actions": actions}]);
        Response::json(
            json!({"token": self.token(&access, seconds), "expires_in": 300}).to_string(),
        )
    }

    /// Tokens that ended before they began have a negative life.
    fn token(&self, access: &Value, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [BASE64_STANDARD.encode(&self.certificate)]});
        let claims = json!({
            "iss": ISSUER, "aud": SERVICE, "sub": "ada", "jti": fastrand::u64(..).to_string(),
            "iat": now - 600, "nbf": now - 600, "exp": now + seconds, "access": access,
        });
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The repository and the actions that a request for a token names.
pub(crate) fn scope(request: &Request) -> (String, Vec<String>) {
    let query = request.target.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let scope = query.split('&').find_map(|pair| pair.strip_prefix("scope="));
    let scope =
        scope.unwrap_or_default().replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
    let mut parts = scope.split(':').skip(1);
    let (name, actions) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    (name.to_owned(), actions.split(',').map(str::to_owned).collect())
}
