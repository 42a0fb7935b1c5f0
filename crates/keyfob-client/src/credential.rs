//! What a plugin answered, ready for use.
//!
//! Upstream: `credentials` and `credsExpired` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: the expiry is part of the credential (upstream keeps it beside, and a new expiry with the old credential if the
//! new certificate cannot be read).

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::HeaderValue;
use keyfob_api::{ExecCredentialStatus, Secret, Timestamp};
use thiserror::Error;

use crate::{Behaviour, Identity};

/// A token, a certificate, or both, with their end. It never changes: a new answer is a new credential with a higher
/// generation, so that token, certificate and expiry are always of one answer.
#[derive(Clone, Debug)]
pub struct Credential {
    generation: u64,
    token: Option<Secret<String>>,
    /// `Bearer …`, marked as sensitive.
    authorization: Option<Result<HeaderValue, UnusableToken>>,
    identity: Option<Arc<Identity>>,
    expiration: Option<Timestamp>,
    fetched: SystemTime,
    /// Until when it is used.
    usable_until: Option<SystemTime>,
    /// When it is time for a new one.
    refresh_from: Option<SystemTime>,
}

impl Credential {
    /// The credential of an answer that came just now.
    pub(crate) fn new(
        generation: u64,
        status: ExecCredentialStatus,
        identity: Option<Arc<Identity>>,
        fetched: SystemTime,
        behaviour: &Behaviour,
    ) -> Self {
        let ExecCredentialStatus { expiration, token, .. } = status;
        let end = expiration.and_then(Timestamp::to_system_time);
        let at_least = fetched.checked_add(behaviour.minimum_validity).unwrap_or(fetched);
        let at_least = (!behaviour.minimum_validity.is_zero()).then_some(at_least);
        let usable_until = end.map(|end| at_least.map_or(end, |at_least| at_least.max(end)));
        let refresh_from =
            end.filter(|_| behaviour.refresh_ahead).and_then(|end| ahead(fetched, end));
        let authorization = token.as_ref().map(authorization);
        Self {
            generation,
            token,
            authorization,
            identity,
            expiration,
            fetched,
            usable_until,
            refresh_from,
        }
    }

    /// Counts the answers of one authenticator, from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The bearer token.
    pub fn token(&self) -> Option<&Secret<String>> {
        self.token.as_ref()
    }

    /// The value of the `Authorization` header; an error if the token cannot stand in one.
    pub fn authorization(&self) -> Result<Option<&HeaderValue>, UnusableToken> {
        match &self.authorization {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(error)) => Err(*error),
        }
    }

    /// The certificate and its key. The same `Arc` in one credential after the other for as long as they do not change.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }

    /// Until when it is good; `None` means until it is refused.
    pub fn expiration(&self) -> Option<Timestamp> {
        self.expiration
    }

    /// When the plugin gave it.
    pub fn fetched(&self) -> SystemTime {
        self.fetched
    }

    /// Whether it may be used at a time.
    pub(crate) fn is_usable(&self, now: SystemTime) -> bool {
        self.usable_until.is_none_or(|end| now <= end)
    }

    /// Whether it is time for a new one.
    pub(crate) fn ends_soon(&self, now: SystemTime) -> bool {
        self.refresh_from.is_some_and(|from| from <= now)
    }
}

/// When a new one is fetched while one is still used: in the last fifth of its life, but not more than five minutes and not
/// less than ten seconds before its end, and never in the first half.
fn ahead(fetched: SystemTime, end: SystemTime) -> Option<SystemTime> {
    let life = end.duration_since(fetched).ok()?;
    let ahead = (life / 5).clamp(Duration::from_secs(10), Duration::from_mins(5));
    end.checked_sub(ahead.min(life / 2))
}

/// The header of a token.
pub(crate) fn authorization(token: &Secret<String>) -> Result<HeaderValue, UnusableToken> {
    let bearer = Secret::new(format!("Bearer {}", token.expose()));
    let value = HeaderValue::from_bytes(bearer.expose().as_bytes());
    let mut value = value.map_err(|_| UnusableToken)?;
    value.set_sensitive(true);
    Ok(value)
}

/// A token with a byte in it that no header may have, such as a line break. The sentence is Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("net/http: invalid header field value for \"Authorization\"")]
#[non_exhaustive]
pub struct UnusableToken;
