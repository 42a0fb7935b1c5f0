#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`Host`] and [`HostBuilder`]: providers, cache and order of credentials; [`HostOptions`]: what a kubelet cannot do.
//! - [`Pull`]: an image, with the pull secrets and the identity of a pod; [`Answer`]: its credentials and a report.
//! - [`PluginObserver`]: is told of each run of a plugin.
//! - [`ServiceAccounts`] and [`TokenManager`]: the service accounts of pods and their tokens; [`GivenToken`]: one that the caller has.
//!
//! The configuration is read by `keyfob-config`; logins and their order are in `keyfob-keyring`.

mod answer;
mod cache;
mod call_error;
mod failures;
mod host;
mod identity;
mod index;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/disabled.rs"]
mod metrics;
mod observer;
mod options;
mod plugin;
mod provider;
mod question;

pub use answer::{Answer, ProviderOutcome, ProviderReport, Pull, Skipped};
pub use cache::{CacheKey, KeyTooLong, ServiceAccountKey};
pub use call_error::CallError;
pub use host::{BuildError, CachedAnswer, Host, HostBuilder, PluginProblem, Reloaded};
#[cfg(feature = "kube")]
pub use identity::kubernetes::{KubernetesApi, KubernetesError, PodRecord};
pub use identity::token_directory::TokenDirectory;
pub use identity::{
    GivenToken, GivenTokenError, Identity, IdentityError, IdentityStep, PodIdentity, PodReference,
    ServiceAccount, ServiceAccounts, ServiceAccountsError, Token, TokenManager, TokenRequest,
};
pub use keyfob_exec::Backoff;
pub use observer::{PluginAttempt, PluginObserver};
pub use options::{GlobalAnswers, HostOptions, MissingPlugins};
pub use provider::FAILURES_LOG_TARGET;
