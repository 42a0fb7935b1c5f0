//! What is asked of a host, and what it says.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use keyfob_api::{CacheKeyType, ImageError, ImageRef, MatchTarget};
use keyfob_keyring::{Credential, DockerConfigFileError, Logins};

use crate::{
    CallError, Identity, PodIdentity,
    cache::Hit,
    provider::{Fetched, Obtained, RunOutcome},
};

/// A pull that needs credentials.
#[derive(Clone, Debug)]
pub struct Pull {
    image: Box<str>,
    target: Option<MatchTarget>,
    secrets: Vec<Arc<Logins>>,
    pod: Option<Arc<PodIdentity>>,
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
        Self { image: repository.into(), target, secrets: Vec::new(), pod: None }
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

    /// The same pull of an image from somewhere else, as from a mirror: whoever pulls brings the same along.
    #[must_use]
    pub fn elsewhere(&self, image: &ImageRef) -> Self {
        let there = Self::new(image);
        Self { secrets: self.secrets.clone(), pod: self.pod.clone(), ..there }
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
    /// What the providers did whose patterns match, in the order of the configuration.
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
    fn from(Hit { logins, scope, expires, refresh: _ }: Hit) -> Self {
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
}
