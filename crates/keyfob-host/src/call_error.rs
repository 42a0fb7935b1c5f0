//! What can go wrong between a provider and its answer.

use std::{sync::Arc, time::Duration};

use keyfob_api::{Chain, FirstKepError, ResponseError};
use keyfob_exec::{LookupError, RunError, Untrusted};
use keyfob_keyring::ServiceAccountCoordinates;
use thiserror::Error;

use crate::{GivenTokenError, IdentityError, IdentityStep, KeyTooLong};

/// Why a provider gave nothing. It never quotes what its plugin printed on stdout.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no plugin, or none that can be run.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Somebody else could have written the plugin.
    #[error("the plugin is not run")]
    Untrusted(#[from] Untrusted),
    /// The plugin did not run to a good end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What it printed is not an answer.
    #[error("the plugin's answer is not valid")]
    Response(#[from] ResponseError),
    /// What it printed is not an answer of the first KEP's dialect.
    #[error("the plugin's answer is not valid")]
    FirstKep(#[from] FirstKepError),
    /// The image's name, or what is known of the service account, is too long for the cache.
    #[error("failed to get cached docker config: error generating cache key")]
    CacheKey(#[source] KeyTooLong),
    /// Something of the service account is too long for the cache.
    #[error("error generating service account cache key")]
    ServiceAccountKey(#[source] KeyTooLong),
    /// There is no service account, or no token of it.
    #[error("failed to get {step}")]
    Identity {
        /// What was being asked for.
        step: IdentityStep,
        /// Which service account. Until it was found, its uid is empty.
        account: Arc<ServiceAccountCoordinates>,
        /// For whom the token would have been.
        audience: String,
        /// Why there is none.
        source: IdentityError,
    },
    /// The token that came [with the pull](crate::Pull::with_service_account_token) cannot be used.
    #[error("the service account token of this pull cannot be used")]
    GivenToken(#[source] GivenTokenError),
    /// The answer's password is the token, which other pods of the account would then share.
    #[error(
        "credential provider plugin returned the service account token as the password which is not allowed when \
         service account cache type is not set to 'Token'"
    )]
    EchoedToken,
    /// The answer is for every image, which [`GlobalAnswers`](crate::GlobalAnswers) forbids here.
    #[error(
        "the plugin's answer is for every image (cacheKeyType Global), which KEP-4412 forbids to a provider with \
         tokenAttributes"
    )]
    GlobalAnswer,
    /// It failed a moment ago and is left alone for a while.
    #[error(
        "not asked again for {} s after {failures} failures in a row; the last: {}",
        wait.as_secs_f64().ceil(),
        Chain(&**last)
    )]
    BackingOff {
        /// How long still.
        wait: Duration,
        /// How many in a row.
        failures: u32,
        /// The last one.
        last: Arc<Self>,
    },
    /// The run ended without an answer: its runtime was shut down, or there is a defect in this program.
    #[error(
        "the run of the plugin was lost, because the program is shutting down or by a defect of it"
    )]
    Lost,
    /// There is no runtime to run the plugin on.
    #[error(
        "there is no tokio runtime to run the plugin on: give one to the host, or ask from within one"
    )]
    NoRuntime,
}

impl CallError {
    /// How long the plugin ran; nothing if it did not, or nobody knows.
    pub fn elapsed(&self) -> Option<Duration> {
        match self {
            Self::Run(error) => error.elapsed(),
            _ => None,
        }
    }

    /// The service account that it is about.
    pub(crate) fn account(&self) -> Option<&ServiceAccountCoordinates> {
        match self {
            Self::Identity { account, .. } => Some(account),
            _ => None,
        }
    }

    /// Whether upstream counts it as an error of the plugin: it could not be run, or did not end well in time.
    pub(crate) fn is_of_the_run(&self) -> bool {
        matches!(self, Self::Lookup(_) | Self::Untrusted(_) | Self::Run(_))
    }
}
