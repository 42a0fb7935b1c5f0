//! What is asked of a host, and what it says.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{CacheKeyType, ImageError, ImageRef, MatchTarget};
use keyfob_keyring::{Credential, DockerConfigFileError, Logins};

use crate::{
    CallError, GivenToken, Identity, PodIdentity,
    cache::Hit,
    identity::ReadToken,
    provider::{Fetched, Obtained, RunOutcome},
};

/// A pull that needs credentials.
#[derive(Clone, Debug)]
pub struct Pull {
    image: Box<str>,
    target: Option<MatchTarget>,
    secrets: Vec<Arc<Logins>>,
    pod: Option<Arc<PodIdentity>>,
    token: Option<Arc<ReadToken>>,
    /// The names of the providers that may be asked; `None` is all of them.
    only: Option<Box<[Arc<str>]>>,
    /// Whether only providers are asked that use the pod's service account.
    only_as_pod: bool,
    /// How long a cached answer must still be valid; zero if it only must not have expired.
    fresh_for: Duration,
    /// Whose turn is taken by plugin runs for it; nothing if they come first.
    caller: Option<Arc<str>>,
}

impl Pull {
    /// A pull of an image as a pod names it: `nginx`, `registry.example/team/app:v1`.
    pub fn parse(image: &str) -> Result<Self, ImageError> {
        Ok(Self::new(&ImageRef::parse(image)?))
    }

    /// A pull of an image.
    pub fn new(image: &ImageRef) -> Self {
        Self::of_repository(image.repository())
    }

    /// A pull from a repository, taken as it is: nothing is filled in or cut off.
    pub fn of_repository(repository: &str) -> Self {
        let target = MatchTarget::parse(repository).ok();
        Self {
            image: repository.into(),
            target,
            secrets: Vec::new(),
            pod: None,
            token: None,
            only: None,
            only_as_pod: false,
            fresh_for: Duration::ZERO,
            caller: None,
        }
    }

    /// With what the pod's `imagePullSecrets` hold.
    #[must_use]
    pub fn with_secrets(mut self, secrets: impl IntoIterator<Item = Arc<Logins>>) -> Self {
        self.secrets.extend(secrets);
        self
    }

    /// For this pod, with whose service account providers may be asked.
    #[must_use]
    pub fn with_pod(mut self, pod: PodIdentity) -> Self {
        self.pod = Some(Arc::new(pod));
        self
    }

    /// With a service account token that the caller already has. No service account and no token is asked for, also if the pull
    /// is [for a pod](Self::with_pod).
    ///
    /// Providers with `tokenAttributes` are asked with this token if it is for their audience, and skipped
    /// ([`Skipped::OtherAudience`]) if it is not; they fail ([`CallError::GivenToken`]) if it has expired, or is not a token of a
    /// service account. Other providers are asked without it. What is cached is cached for the account that the token names.
    ///
    /// The signature of the token is not verified: see [`GivenToken`].
    #[must_use]
    pub fn with_service_account_token(mut self, token: GivenToken) -> Self {
        self.token = Some(Arc::new(ReadToken::new(token)));
        self
    }

    /// Restricts the pull to these providers, by name. Others whose patterns match are not asked and are not in the reports. A
    /// second call replaces the list of the first.
    ///
    /// By default every provider whose patterns match is asked. Pull secrets and the node's docker configuration are not affected.
    #[must_use]
    pub fn only(mut self, providers: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        self.only = Some(providers.into_iter().map(Into::into).collect());
        self
    }

    /// Asks only providers that use the pod's service account: none may answer with the identity of the node.
    #[must_use]
    pub fn only_as_pod(mut self) -> Self {
        self.only_as_pod = true;
        self
    }

    /// Asks for credentials that are valid for at least this long: a cached answer that expires sooner is renewed before it is
    /// given out. If that run fails, the cached answer is given out after all while it is valid.
    ///
    /// A cached answer is renewed only in the second half of its lifetime, so that a provider whose answers live shorter than
    /// `min` is not run for every pull. What is given out may therefore expire sooner than in `min`. After a failed renewal the
    /// next such pull tries again, unless [`HostOptions::backoff`](crate::HostOptions::backoff) says how long to wait.
    #[must_use]
    pub fn fresh_for(mut self, min: Duration) -> Self {
        self.fresh_for = min;
        self
    }

    /// For a caller that takes turns with others when plugin runs must wait for each other: see
    /// [`HostOptions::max_runs_per_provider`](crate::HostOptions::max_runs_per_provider). Equal names are one caller.
    ///
    /// By default, a pull is for nobody in particular, and its runs come first.
    #[must_use]
    pub fn for_caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// The same pull of an image from somewhere else, as from a mirror: whoever pulls brings the same along.
    #[must_use]
    pub fn elsewhere(&self, image: &ImageRef) -> Self {
        let Self { image, target, .. } = Self::new(image);
        Self { image, target, ..self.clone() }
    }

    /// What plugins are asked about: the repository, without tag and digest.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// The repository as patterns see it; nothing if it is no URL, which no pattern matches.
    pub fn target(&self) -> Option<&MatchTarget> {
        self.target.as_ref()
    }

    /// What the pod's secrets hold.
    pub fn secrets(&self) -> &[Arc<Logins>] {
        &self.secrets
    }

    /// The pod that pulls.
    pub fn pod(&self) -> Option<&PodIdentity> {
        self.pod.as_deref()
    }

    /// Whether a provider of this name may be asked.
    pub(crate) fn may_ask(&self, provider: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| **name == *provider))
    }

    /// How long a cached answer must still be valid.
    pub(crate) fn wanted_lifetime(&self) -> Duration {
        self.fresh_for
    }

    /// Whose turn its runs take.
    pub(crate) fn caller(&self) -> Option<&Arc<str>> {
        self.caller.as_ref()
    }

    /// Whether only providers that use the pod's service account may be asked.
    pub(crate) fn is_only_as_pod(&self) -> bool {
        self.only_as_pod
    }

    /// The token that came with the pull.
    pub(crate) fn token(&self) -> Option<&ReadToken> {
        self.token.as_deref()
    }

    /// The pod, if it has a service account.
    pub(crate) fn pod_with_account(&self) -> Option<&Arc<PodIdentity>> {
        self.pod.as_ref().filter(|pod| !pod.service_account.is_empty())
    }
}

/// The credentials for a pull, and what each provider did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The credentials, in the order in which to try them.
    pub credentials: Vec<Credential>,
    /// What the providers did whose patterns match and that [may be asked](Pull::only), in the order of the configuration.
    pub reports: Vec<ProviderReport>,
    /// Why the node's docker configuration gave nothing, if it should have.
    pub docker_config_error: Option<DockerConfigFileError>,
    pub(crate) anonymous_last: bool,
}

impl Answer {
    /// What to try, in order; `None` is a pull without credentials.
    pub fn tries(&self) -> impl Iterator<Item = Option<&Credential>> {
        let anonymous = self.credentials.is_empty() || self.anonymous_last;
        self.credentials.iter().map(Some).chain(anonymous.then_some(None))
    }

    /// The providers that failed, and why.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &CallError)> {
        self.reports.iter().filter_map(|report| match &report.outcome {
            ProviderOutcome::Failed(error) => Some((&*report.provider, &**error)),
            _ => None,
        })
    }
}

/// What one provider did for a pull.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProviderReport {
    /// Its name.
    pub provider: Arc<str>,
    /// As whom it was asked; nothing if it was not, or without a service account.
    pub identity: Option<Arc<Identity>>,
    /// What it did.
    pub outcome: ProviderOutcome,
}

/// What a provider whose patterns match can do.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProviderOutcome {
    /// It had answered before.
    Cached {
        /// What it had answered.
        logins: Arc<Logins>,
        /// Under which kind of key it was found.
        scope: CacheKeyType,
        /// When it expires.
        expires: SystemTime,
    },
    /// Its plugin ran and answered.
    Ran {
        /// What it answered.
        logins: Arc<Logins>,
        /// Under which kind of key it may be kept.
        scope: CacheKeyType,
        /// Until when it is kept; `None` if it may not be.
        expires: Option<SystemTime>,
        /// How long the plugin ran.
        took: Duration,
    },
    /// It was not asked.
    Skipped(Skipped),
    /// It gave nothing.
    Failed(Arc<CallError>),
}

impl ProviderOutcome {
    /// What it answered, now or before.
    pub fn logins(&self) -> Option<&Arc<Logins>> {
        match self {
            Self::Cached { logins, .. } | Self::Ran { logins, .. } => Some(logins),
            Self::Skipped(_) | Self::Failed(_) => None,
        }
    }
}

impl From<Hit> for ProviderOutcome {
    fn from(Hit { logins, scope, expires, kept: _, refresh: _ }: Hit) -> Self {
        Self::Cached { logins, scope, expires }
    }
}

impl From<RunOutcome> for ProviderOutcome {
    fn from(outcome: RunOutcome) -> Self {
        match outcome {
            Ok(Obtained::Found(hit)) => hit.into(),
            Ok(Obtained::Fetched(Fetched { logins, scope, expires, took })) => {
                Self::Ran { logins, scope, expires, took }
            }
            Err(error) => Self::Failed(error),
        }
    }
}

/// Why a provider whose patterns match was not asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Skipped {
    /// It wants the pod's service account, and the pull has none.
    #[error("it requires the pod's service account, and this pull has none")]
    NoServiceAccount,
    /// It wants an annotation that the pod's service account does not have.
    #[error("required annotation {key} not found on the pod's service account")]
    MissingAnnotation {
        /// The annotation's key.
        key: String,
    },
    /// It wants a token for an audience that is not among those of the token that came
    /// [with the pull](Pull::with_service_account_token).
    #[error(
        "it requires a token for the audience {audience}, and the token of this pull is for others"
    )]
    OtherAudience {
        /// The audience that it wants.
        audience: String,
    },
    /// It does not use the pod's service account, and the pull is [for the pod alone](Pull::only_as_pod).
    #[error(
        "it would answer with the node's identity: it has no tokenAttributes, or the pod has no service account"
    )]
    NotAskedAsPod,
}
