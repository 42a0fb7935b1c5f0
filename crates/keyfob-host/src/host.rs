//! From an image to its credentials.
//!
//! Upstream: `externalCredentialProviderKeyring.Lookup` and `MakeDockerKeyring` in `pkg/credentialprovider`.
//! Differs: a host is a value, not a process; providers are asked at the same time (their credentials keep the order of
//! the configuration); errors reach the caller; the configuration can be replaced.

mod build;
#[cfg(feature = "metrics")]
mod metrics;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use keyfob_api::Chain;
use keyfob_config::{ValidConfig, ValidProvider};
use keyfob_exec::{Invocation, LookupError};
use keyfob_keyring::{Credential, DockerConfigFileError, Logins, NodeDockerConfig, Source, select};

use crate::{
    Answer, CacheKey, ProviderReport, Pull,
    cache::CacheKeys,
    index::PatternIndex,
    provider::{Pending, Provider, Step, Surroundings},
};
pub use build::{BuildError, HostBuilder, PluginProblem};

/// Finds credentials for images. Two hosts share nothing.
#[derive(Debug)]
pub struct Host {
    /// Shared with registries of metrics, which do not keep it alive.
    current: Arc<ArcSwap<Snapshot>>,
    reloading: Mutex<()>,
    around: Arc<Surroundings>,
    docker_config: Option<NodeDockerConfig>,
}

/// What one configuration says.
#[derive(Debug)]
struct Snapshot {
    providers: Vec<Arc<Provider>>,
    index: PatternIndex,
}

impl Snapshot {
    /// The providers whose patterns match, in order.
    fn matching(&self, pull: &Pull) -> impl Iterator<Item = &Arc<Provider>> {
        let places = pull.target().map(|target| self.index.providers(target)).unwrap_or_default();
        places.into_iter().filter_map(|at| self.providers.get(at))
    }
}

impl Host {
    /// A host of these providers, whose plugins are in this directory.
    pub fn builder(config: ValidConfig, plugins: &Path) -> HostBuilder {
        HostBuilder::new(Some(config), plugins)
    }

    /// A host of no providers: what it knows are pull secrets and the node's docker configuration.
    pub fn without_providers() -> HostBuilder {
        HostBuilder::new(None, Path::new(""))
    }

    /// The credentials for a pull. A plugin is run if its answer is not at hand.
    ///
    /// Dropping the future leaves the runs to those who still wait, and their answers to the cache. Plugins run on the
    /// runtime that was [given](HostBuilder::runtime), or else on that of whoever asks first: it must go on being driven.
    pub async fn credentials(&self, pull: &Pull) -> Answer {
        let (mut reports, waiting) = self.begin(pull);
        let wait = |Waiting { place, provider, pending }| async move {
            (place, provider.wait(pending, pull).await)
        };
        for (place, report) in join_all(waiting.into_iter().map(wait)).await {
            reports.insert(place, report);
        }
        let (node, docker_config_error) = self.node_docker_config();
        let find = |sources: &[Arc<Logins>]| select(pull.image(), pull.target(), sources);
        let answers = reports.iter().filter_map(|report| report.outcome.logins());
        let mut credentials = find(pull.secrets());
        credentials.extend(find(node.as_slice()));
        match select(pull.image(), pull.target(), answers) {
            found if credentials.is_empty() => credentials = found,
            found => credentials.extend(found),
        }
        let anonymous_last = self.around.options.anonymous_last;
        Answer { credentials, reports, docker_config_error, anonymous_last }
    }

    /// Forgets the cached answer that a credential came from, because a registry refused it; the next pull asks again, or
    /// reads the node's docker configuration again.
    ///
    /// Returns whether there was one. A newer answer is kept, and so is one that is just being fetched.
    pub fn reject(&self, credential: &Credential) -> bool {
        let logins = credential.logins();
        if let (Source::DockerConfig(_), Some(config)) = (logins.source(), &self.docker_config) {
            return config.forget(logins);
        }
        let snapshot = self.current.load();
        snapshot.providers.iter().any(|provider| provider.forget(logins))
    }

    /// Forgets cached answers of providers: all of them, those that this image would use, those of the provider of this name, or
    /// those of that provider that the image would use. Returns how many, expired ones not yet swept too.
    ///
    /// The image is as a pod names it, or a repository. The next pull asks again, also where a failure was being
    /// [backed off](crate::HostOptions::backoff) from. An answer that is just being fetched is kept, and the node's docker
    /// configuration and the tokens of pods are not affected.
    pub fn forget(&self, image: Option<&str>, provider: Option<&str>) -> usize {
        let snapshot = self.current.load();
        let is_meant = |each: &&Arc<Provider>| provider.is_none_or(|name| *each.name == *name);
        let Some(image) = image else {
            let meant = snapshot.providers.iter().filter(is_meant);
            return meant.map(|provider| provider.forget_for(None)).sum();
        };
        let pull = Pull::parse(image).unwrap_or_else(|_| Pull::of_repository(image));
        let meant = snapshot.matching(&pull).filter(is_meant);
        meant.map(|provider| provider.forget_for(Some(pull.image()))).sum()
    }

    /// Forgets the tokens of a pod that is gone.
    pub fn forget_pod(&self, uid: &str) {
        self.around.identities.tokens.forget_pod(uid);
    }

    /// Replaces the configuration, between two pulls. Providers that did not change keep what they have answered.
    ///
    /// On any error the old configuration stays.
    pub fn reload(&self, config: ValidConfig) -> Result<Reloaded, BuildError> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = config.hash().map(str::to_owned);
        let replaced = self.replace(config);
        self.around.metrics.reloaded(replaced.is_ok());
        match &replaced {
            Ok(reloaded) => {
                self.around.metrics.configured(hash.as_deref());
                tracing::info!(hash, ?reloaded, "the configuration was replaced");
            }
            Err(error) => tracing::error!(%error, "the old configuration stays"),
        }
        replaced
    }

    /// What would be run to ask a provider for an image's credentials, but that no service account is in the request;
    /// `None` if there is no such provider.
    pub fn invocation(
        &self,
        provider: &str,
        pull: &Pull,
    ) -> Option<Result<Invocation, LookupError>> {
        let snapshot = self.current.load();
        let provider = snapshot.providers.iter().find(|each| &*each.name == provider)?;
        Some(provider.invocation(pull.image()))
    }

    /// The names of the providers whose patterns match the image, in the order of the configuration, whatever
    /// [`Pull::only`] says. Runs nothing.
    pub fn matching(&self, pull: &Pull) -> Vec<Arc<str>> {
        let snapshot = self.current.load();
        snapshot.matching(pull).map(|provider| provider.name.clone()).collect()
    }

    /// The configured providers, in the order in which they are asked.
    pub fn providers(&self) -> Vec<Arc<ValidProvider>> {
        let snapshot = self.current.load();
        snapshot.providers.iter().map(|provider| provider.config.clone()).collect()
    }

    /// The node's docker configuration, if there is one.
    pub fn docker_config(&self) -> Option<&NodeDockerConfig> {
        self.docker_config.as_ref()
    }

    /// What the providers have in their caches, in no order.
    pub fn cached(&self) -> Vec<CachedAnswer> {
        self.current.load().providers.iter().flat_map(|provider| provider.cached()).collect()
    }

    fn node_docker_config(&self) -> (Option<Arc<Logins>>, Option<DockerConfigFileError>) {
        match self.docker_config.as_ref().map(NodeDockerConfig::logins) {
            None => (None, None),
            Some(Ok(logins)) => (logins, None),
            Some(Err(error)) => {
                tracing::debug!(error = %Chain(&error), "the node's docker configuration gives nothing");
                (None, Some(error))
            }
        }
    }

    /// What the providers whose patterns match can say at once, and those that must be waited for: their runs have begun.
    fn begin(&self, pull: &Pull) -> (Vec<ProviderReport>, Vec<Waiting>) {
        let (mut reports, mut waiting) = (Vec::new(), Vec::new());
        let snapshot = self.current.load();
        let mut providers =
            snapshot.matching(pull).filter(|provider| pull.may_ask(&provider.name)).peekable();
        if providers.peek().is_none() {
            return (reports, waiting);
        }
        let keys = CacheKeys::new(pull.image(), &[]);
        let now = self.around.clock.now();
        for (place, provider) in providers.enumerate() {
            match provider.ask(pull, &keys, now) {
                Step::Done(outcome) => reports.push(provider.report(outcome)),
                Step::Waiting(pending) => {
                    waiting.push(Waiting { place, provider: provider.clone(), pending });
                }
            }
        }
        (reports, waiting)
    }
}

/// A provider that cannot say at once what it will.
struct Waiting {
    /// Where its report stands among all.
    place: usize,
    provider: Arc<Provider>,
    pending: Pending,
}

/// An answer in a cache. Two are equal if they are the same answer, not only one with the same logins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CachedAnswer {
    /// Whose answer.
    pub provider: Arc<str>,
    /// Under which key.
    pub key: CacheKey,
    /// What was answered: registries and their logins.
    pub logins: Arc<Logins>,
    /// When it expires.
    pub expires: SystemTime,
}

impl PartialEq for CachedAnswer {
    fn eq(&self, other: &Self) -> bool {
        let Self { provider, key, logins, expires } = self;
        let is_the_same = Arc::ptr_eq(logins, &other.logins);
        is_the_same && (provider, key, expires) == (&other.provider, &other.key, &other.expires)
    }
}

impl Eq for CachedAnswer {}

/// What a new configuration changed, by the names of the providers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// They did not change and keep their caches.
    pub kept: Vec<String>,
    /// They are new or have changed, and begin with empty caches.
    pub started: Vec<String>,
    /// They are gone.
    pub removed: Vec<String>,
}
