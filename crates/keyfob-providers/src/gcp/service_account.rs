//! A service account's key, traded for an access token. Registries are known to take those; what Google's library makes
//! of such a key is a token signed by the account itself, which not everyone takes.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use google_cloud_auth::credentials::service_account::Builder;
use keyfob_api::Secret;
use keyfob_plugin::{Call, Doing as _, Failure};
use serde::Deserialize;
use serde_json::json;

use super::{
    SCOPE, library,
    token::{Issued, Token},
};
use crate::http::{Http, Reply, address};

#[derive(Deserialize)]
struct Key {
    client_email: String,
    #[serde(default)]
    private_key_id: String,
    #[serde(default = "token_service")]
    token_uri: String,
}

fn token_service() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

pub(super) async fn token(
    text: &Secret<Vec<u8>>,
    http: &Http,
    call: &Call,
) -> Result<Token, Failure> {
    let key: Key = serde_json::from_slice(text.expose()).map_err(|_| {
        Failure::new("not the key of a service account: its client_email is missing")
    })?;
    address(&key.token_uri, false).doing("its token_uri")?;
    let assertion = assertion(&key, text, call.now()).await?;
    call.step(format!("asking for a token of {}", key.client_email));
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", assertion.expose()),
    ];
    let reply = http.post(key.token_uri).form(&form).send(call).await.and_then(Reply::success)?;
    reply.json::<Issued>()?.token(call)
}

/// What the account says of itself, signed.
async fn assertion(
    key: &Key,
    text: &Secret<Vec<u8>>,
    now: SystemTime,
) -> Result<Secret<String>, Failure> {
    const LIFE: Duration = Duration::from_hours(1);
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": key.private_key_id });
    let claims = json!({
        "iss": key.client_email,
        "scope": SCOPE,
        "aud": key.token_uri,
        "iat": now.as_secs(),
        "exp": (now + LIFE).as_secs(),
    });
    let encoded = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
    let said = encoded.join(".");
    library::require_crypto_provider()?;
    let unusable = || Failure::new("its private_key cannot be used: it must be an RSA key in PEM");
    let file = serde_json::from_slice(text.expose()).map_err(|_| unusable())?;
    let signer = Builder::new(file).build_signer().map_err(|_| unusable())?;
    let signature = signer.sign(&said).await.map_err(|_| unusable())?;
    Ok(Secret::new(format!("{said}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))))
}
