//! `POST /exchange`: a login for a pod's token.
//!
//! A pod proves itself with a token of its service account. Whether the token is genuine is for the [`TokenVerifier`] to say,
//! which whoever starts the registry brings along; for whom it is, until when, and whom the registry knows by its subject,
//! is looked at here. The login ends no later than the token.
//!
//! Upstream: OAuth's token exchange (RFC 8693), as a form or in JSON, or the token in the header.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Response, header::CONTENT_TYPE, request::Parts};
use keyfob_api::{Chain, Claims, Secret};
use keyfob_exec::BoxFuture;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout;

use super::{
    Server,
    answer::{json_response, pairs},
    authorize::credentials,
    body::Pieces,
    refusal::Refusal,
    users::Issued,
};

/// Whose tokens the registry takes for a proof.
#[derive(Clone, Debug)]
pub struct Trust {
    /// For whom the tokens must be.
    pub audience: String,
    /// Who knows whether a token is genuine.
    pub verifier: Arc<dyn TokenVerifier>,
    /// How long a login lives that is given for a token; never longer than the token.
    pub login_lifetime: Duration,
}

impl Trust {
    /// Trust in tokens for this audience, with logins of five minutes.
    pub fn new(audience: impl Into<String>, verifier: impl TokenVerifier + 'static) -> Self {
        let (audience, verifier) = (audience.into(), Arc::new(verifier));
        Self { audience, verifier, login_lifetime: Duration::from_mins(5) }
    }
}

/// Knows whether a token is genuine.
pub trait TokenVerifier: Send + Sync + fmt::Debug {
    /// What a token says that the trusted issuer has signed. The audience is for whoever must ask elsewhere with it; the
    /// registry itself looks at audience, end and subject.
    fn verify<'a>(
        &'a self,
        token: &'a Secret<String>,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Claims, TokenVerifierError>>;
}

/// Why a token is not genuine: the error of a [`TokenVerifier`], and its message.
#[derive(Error)]
#[error(transparent)]
pub struct TokenVerifierError(Box<dyn Error + Send + Sync>);

/// The message only: what an error shows to a developer may be a secret.
impl fmt::Debug for TokenVerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenVerifierError").field(&self.0.to_string()).finish()
    }
}

impl TokenVerifierError {
    /// From the verifier's own error, or from a text. Neither its message nor those of its sources may hold anything of the
    /// token: the client is sent all of them.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// No body of an exchange is as long.
const LONGEST: usize = 64 << 10;

impl Server {
    pub(super) async fn exchange(
        &self,
        parts: &Parts,
        pieces: &mut Pieces<'_>,
        who: &mut Option<String>,
    ) -> Result<Response<Body>, Refusal> {
        let trust = self.trust.as_ref().ok_or_else(Refusal::no_such_path)?;
        let token = match credentials(&parts.headers, "bearer") {
            Some(token) => Some(Secret::from(token)),
            None => subject_token(parts, &Secret::new(pieces.whole(LONGEST).await?)),
        };
        let missing = "no token: as subject_token in a form or in JSON, or as a bearer token";
        let token = token.ok_or_else(|| Refusal::exchange(missing))?;
        let (subject, life) = self.vouched(trust, &token).await?;
        let now = self.clock.now();
        match self.users.issue(&subject, now + life, now) {
            Issued::Unknown => {
                Err(Refusal::exchange(format!("{subject} is not known to this registry")))
            }
            Issued::NoRandomNumbers => Err(Refusal::internal("the system gives no random numbers")),
            Issued::Login { user, password } => {
                let response = login(&user, &password, life);
                *who = Some(user);
                Ok(response)
            }
        }
    }

    /// The subject of a token that is as it should be, and how long a login for it may live.
    async fn vouched(
        &self,
        trust: &Trust,
        token: &Secret<String>,
    ) -> Result<(String, Duration), Refusal> {
        let verifying = trust.verifier.verify(token, &trust.audience);
        let claims = timeout(self.limits.silence, verifying)
            .await
            .map_err(|_| Refusal::internal("nobody said in time whether the token is genuine"))?;
        let claims = claims.map_err(|error| Refusal::exchange(Chain(&error).to_string()))?;
        if !claims.audiences.contains(&trust.audience) {
            let message = format!("the token is not for the audience {}", trust.audience);
            return Err(Refusal::exchange(message));
        }
        let left = claims.expires.and_then(|end| end.duration_since(self.clock.now()).ok());
        let left = left.filter(|left| !left.is_zero()).ok_or_else(|| {
            Refusal::exchange("the token has ended, or does not say when it ends")
        })?;
        let subject =
            claims.subject.ok_or_else(|| Refusal::exchange("the token has no subject"))?;
        Ok((subject, trust.login_lifetime.min(left)))
    }
}

/// The field of the standard, in either form.
fn subject_token(parts: &Parts, body: &Secret<Vec<u8>>) -> Option<Secret<String>> {
    const NAME: &str = "subject_token";
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok())?;
    if kind.starts_with("application/json") {
        let fields: Value = serde_json::from_slice(body.expose()).ok()?;
        return fields.get(NAME)?.as_str().map(Secret::from);
    }
    let fields = pairs(str::from_utf8(body.expose()).ok()?);
    fields.into_iter().find(|(name, _)| name == NAME).map(|(_, token)| token.into())
}

fn login(user: &str, password: &Secret<String>, life: Duration) -> Response<Body> {
    json_response(&json!({
        "username": user,
        "access_token": password.expose(),
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "token_type": "N_A",
        "expires_in": life.as_secs(),
    }))
}
