//! From an image to its credentials, as a kubelet finds them.
//!
//! - [`Host`]: finds the providers that match an image, runs their plugins, caches what they answer, and orders the credentials.
//! - [`ServiceAccounts`]: where the service account of a pod and its token come from, for providers that use them.
//!
//! The configuration is read by `keyfob-config`; logins and their order are in `keyfob-keyring`.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use keyfob_api::Chain;
//! use keyfob_config::Config;
//! use keyfob_host::{Host, Pull};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::read(Path::new("/etc/kubernetes/credential-providers"))?;
//! let host = Host::builder(config, Path::new("/usr/libexec/credential-providers")).build()?;
//!
//! let answer = host.credentials(&Pull::parse("registry.example/team/app:v1")?).await;
//! for credential in &answer.credentials {
//!     println!("{} as {}", credential.source(), credential.username());
//! }
//! for (provider, error) in answer.errors() {
//!     eprintln!("{provider}: {}", Chain(error));
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
mod cache;
mod call_error;
mod failures;
mod flight;
mod host;
mod identity;
mod index;
mod metrics;
mod options;
mod plugin;
mod provider;
mod question;

pub use answer::{Answer, ProviderOutcome, ProviderReport, Pull, Skipped};
pub use cache::{CacheKey, KeyTooLong, ServiceAccountKey};
pub use call_error::CallError;
pub use host::{BuildError, CachedAnswer, Host, HostBuilder, PluginProblem, Reloaded};
#[cfg(feature = "kube")]
pub use identity::kubernetes::{KubernetesApi, PodRecord};
pub use identity::token_directory::TokenDirectory;
pub use identity::{
    Fetching, Identity, IdentityError, IdentityStep, PodIdentity, PodReference, ServiceAccount,
    ServiceAccounts, Token, TokenManager, TokenRequest,
};
pub use keyfob_exec::Backoff;
pub use options::{GlobalAnswers, HostOptions, MissingPlugins};
pub use plugin::MOST_OUTPUT;
pub use provider::FAILURES_LOG_TARGET;
