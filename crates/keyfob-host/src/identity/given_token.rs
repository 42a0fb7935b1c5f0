//! A service account token that the caller of a host already has.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use keyfob_api::{ClaimedObject, Claims, Secret, Timestamp};
use keyfob_config::ValidTokenAttributes;
use keyfob_keyring::ServiceAccountCoordinates;
use thiserror::Error;

use super::{Identity, PodReference, establish::handed_over};
use crate::{CallError, ProviderOutcome, Skipped};

/// A token of the pod's service account that whoever pulls already has, such as the one that a kubelet passes to a plugin.
///
/// The service account, the audiences and the expiry are read from the token's claims. **The signature is not verified**: the
/// caller is trusted to have got the token from the API server, and the registry or cloud that gets it from a plugin verifies it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GivenToken {
    /// The token, a JSON web token.
    pub token: Secret<String>,
    /// The annotations of the service account, as far as the caller knows them. A plugin gets those that the configuration of its
    /// provider names.
    pub annotations: BTreeMap<String, String>,
}

impl GivenToken {
    /// A token, and the annotations of its service account.
    pub fn new(token: impl Into<Secret<String>>, annotations: BTreeMap<String, String>) -> Self {
        Self { token: token.into(), annotations }
    }
}

/// Why a [`GivenToken`] cannot be used. It never quotes the token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GivenTokenError {
    /// It cannot be decoded.
    #[error("it is not a JSON web token")]
    NotAToken,
    /// It does not say what a token of a service account says.
    #[error("it has no claim {0}: it is not a token that a TokenRequest returned")]
    MissingClaim(&'static str),
    /// It has expired by the host's clock.
    #[error("it expired at {}: pass a new token, or correct this node's clock", Timestamp::from(*.0))]
    Expired(SystemTime),
}

/// A given token with its claims, which are read once for all providers of a pull.
#[derive(Debug)]
pub(crate) struct ReadToken {
    given: GivenToken,
    claims: Result<AccountClaims, GivenTokenError>,
}

/// What a token must say of itself.
#[derive(Debug)]
struct AccountClaims {
    account: Arc<ServiceAccountCoordinates>,
    pod: Option<PodReference>,
    audiences: Vec<String>,
    expires: SystemTime,
}

impl ReadToken {
    pub(crate) fn new(given: GivenToken) -> Self {
        Self { claims: AccountClaims::of(&given.token), given }
    }

    /// The identity that a provider is asked with. Otherwise, what the provider does without.
    pub(crate) fn identity(
        &self,
        attributes: &ValidTokenAttributes,
        now: SystemTime,
    ) -> Result<Identity, ProviderOutcome> {
        let claims = self.claims.as_ref().map_err(|error| failed(error.clone()))?;
        if now >= claims.expires {
            return Err(failed(GivenTokenError::Expired(claims.expires)));
        }
        let audience = attributes.audience().to_owned();
        if !claims.audiences.contains(&audience) {
            return Err(ProviderOutcome::Skipped(Skipped::OtherAudience { audience }));
        }
        Ok(Identity {
            account: claims.account.clone(),
            pod: claims.pod.clone(),
            audience,
            annotations: handed_over(attributes, &self.given.annotations)?,
            token: self.given.token.clone(),
            expires: claims.expires,
        })
    }
}

impl AccountClaims {
    fn of(token: &Secret<String>) -> Result<Self, GivenTokenError> {
        let Claims { audiences, expires, kubernetes, .. } =
            Claims::of(token).ok_or(GivenTokenError::NotAToken)?;
        let ClaimedObject { name, uid, .. } = kubernetes.service_account.unwrap_or_default();
        let account = ServiceAccountCoordinates {
            uid: required("kubernetes.io/serviceaccount/uid", uid)?,
            namespace: required(
                "kubernetes.io/namespace",
                kubernetes.namespace.unwrap_or_default(),
            )?,
            name: required("kubernetes.io/serviceaccount/name", name)?,
        };
        let pod = kubernetes.pod.map(|ClaimedObject { name, uid, .. }| PodReference { name, uid });
        let expires = expires.ok_or(GivenTokenError::MissingClaim("exp"))?;
        Ok(Self { account: Arc::new(account), pod, audiences, expires })
    }
}

fn required(claim: &'static str, value: String) -> Result<String, GivenTokenError> {
    if value.is_empty() { Err(GivenTokenError::MissingClaim(claim)) } else { Ok(value) }
}

fn failed(error: GivenTokenError) -> ProviderOutcome {
    ProviderOutcome::Failed(Arc::new(CallError::GivenToken(error)))
}
