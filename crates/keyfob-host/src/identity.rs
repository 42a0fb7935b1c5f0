//! Whose pull it is: pods, their service accounts and tokens.

mod bounded;
mod establish;
mod given_token;
#[cfg(feature = "kube")]
pub(crate) mod kubernetes;
pub(crate) mod token_directory;
mod tokens;

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::Secret;
use keyfob_exec::BoxFuture;
use keyfob_keyring::ServiceAccountCoordinates;
use thiserror::Error;

pub(crate) use bounded::Standalone;
pub(crate) use establish::Identities;
pub(crate) use given_token::ReadToken;
pub use given_token::{GivenToken, GivenTokenError};
pub use tokens::TokenManager;

/// The pod that pulls, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct PodIdentity {
    /// The pod's namespace, which is its service account's.
    pub namespace: String,
    /// The name of its service account; empty if it has none.
    pub service_account: String,
    /// The pod itself. A token is bound to it, if it is known.
    pub pod: Option<PodReference>,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct PodReference {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`. If it is empty, a cluster is asked for it; a token is then kept for whatever pod has the name.
    pub uid: String,
}

/// As whom a provider is asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct Identity {
    /// The pod's service account.
    pub account: Arc<ServiceAccountCoordinates>,
    /// The pod that its token is bound to.
    pub pod: Option<PodReference>,
    /// For whom its token is.
    pub audience: String,
    /// Those of its annotations that the plugin gets.
    pub annotations: BTreeMap<String, String>,
    /// Its token.
    pub token: Secret<String>,
    /// When the token ends.
    pub expires: SystemTime,
}

impl Identity {
    /// The token, unless the server gave an empty one.
    pub(crate) fn some_token(&self) -> Option<&Secret<String>> {
        Some(&self.token).filter(|token| !token.expose().is_empty())
    }
}

/// Where service accounts and their tokens come from.
pub trait ServiceAccounts: Send + Sync + fmt::Debug {
    /// A service account as it is now.
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>>;

    /// A new token.
    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>>;
}

/// What a pull must know of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct ServiceAccount {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
}

/// Which token is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "mirrors a TokenRequest of Kubernetes")]
pub struct TokenRequest {
    /// The service account's namespace.
    pub namespace: String,
    /// The service account's name.
    pub service_account: String,
    /// The service account must have this uid; empty if any will do.
    pub service_account_uid: String,
    /// For whom the token is.
    pub audiences: Vec<String>,
    /// How long it is wanted to live; the server decides if nothing is said.
    pub expiration_seconds: Option<i64>,
    /// The pod it is bound to.
    pub pod: Option<PodReference>,
}

/// A token of a service account.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct Token {
    /// The token.
    pub token: Secret<String>,
    /// When it ends.
    pub expires: SystemTime,
    /// How long it lives in all, as the server said; nothing if it did not.
    pub lifetime: Option<Duration>,
}

/// What was being asked for when there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityStep {
    /// The service account.
    ServiceAccount,
    /// A token of it.
    Token,
}

impl fmt::Display for IdentityStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServiceAccount => "service account",
            Self::Token => "service account token",
        })
    }
}

/// Why there is no service account, or no token. No message holds a token.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// There is nowhere to ask: a kubelet calls itself standalone then.
    #[error("cannot get ServiceAccounts when kubelet is in standalone mode")]
    Standalone,
    /// Whoever was asked says that there is none.
    #[error(transparent)]
    NotFound(ServiceAccountsError),
    /// Whoever was asked refuses.
    #[error(transparent)]
    Forbidden(ServiceAccountsError),
    /// There is one of that name, but not the one that was meant: it was deleted and made anew.
    #[error(transparent)]
    Replaced(ServiceAccountsError),
    /// Nobody could be asked, or the answer not be understood.
    #[error(transparent)]
    Unavailable(ServiceAccountsError),
}

/// The error of an implementation of [`ServiceAccounts`], and its message. All clones are the same error.
#[derive(Clone, Error)]
#[error(transparent)]
pub struct ServiceAccountsError(Arc<dyn Error + Send + Sync>);

/// The message only: what an error shows to a developer may be a secret.
impl fmt::Debug for ServiceAccountsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServiceAccountsError").field(&self.0.to_string()).finish()
    }
}

impl ServiceAccountsError {
    /// From the error of whoever was asked, or from a text. Neither its message nor those of its sources may hold a token:
    /// people are shown all of them.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into().into())
    }

    /// The original error, if it is of this type.
    pub fn downcast_ref<T: Error + 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}
