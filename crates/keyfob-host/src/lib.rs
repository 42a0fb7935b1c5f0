//! From an image to its credentials, as a kubelet finds them.
//!
//! - [`Config`]: which plugins there are and for which images, read and judged as a kubelet does.
//! - [`Host`]: asks them, and remembers what they answered.
//! - [`Logins`], [`Credential`]: what a source gave, and what of it is for an image, in the order to try.
//! - [`ServiceAccounts`]: as whom plugins are asked, if they want to know.
//! - [`ImageManager`]: sees to it that an image is here for the pod that wants it, with an [`ImageService`].
//! - [`PullRecords`]: who may use the images that are here.
//! - [`DockerConfig`], [`NodeDockerConfig`], [`PullSecret`]: the logins that no plugin gives.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use keyfob_host::{Chain, Config, Host, Pull};
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

mod aging;
mod answer;
mod cache;
mod call_error;
mod chain;
mod config;
mod docker_config;
mod failures;
mod flight;
mod host;
mod identity;
mod images;
mod index;
mod logins;
mod metrics;
mod node_docker_config;
mod options;
mod plugin;
mod provider;
mod pull_secret;
mod question;
mod records;

pub use answer::{Answer, ProviderOutcome, ProviderReport, Pull, Skipped};
pub use cache::{CacheKey, KeyTooLong, ServiceAccountKey};
pub use call_error::CallError;
pub use chain::Chain;
pub use config::{
    Config, ConfigError, EnvVar, ErrorKind, Invalid, Place, Protocol, ProviderConfig, ReadError,
    ReadProblem, TokenAttributes, TokenDialect, Warning, kubelet_error_of_directory,
};
pub use docker_config::{DockerConfig, DockerConfigError, DockerConfigProblem};
pub use host::{BuildError, CachedAnswer, Host, HostBuilder, PluginProblem, Reloaded};
#[cfg(feature = "kube")]
pub use identity::kubernetes::{KubernetesApi, PodRecord};
pub use identity::token_directory::TokenDirectory;
pub use identity::{
    Fetching, Identity, IdentityError, IdentityStep, PodIdentity, PodReference, ServiceAccount,
    ServiceAccountCoordinates, ServiceAccounts, Token, TokenManager, TokenRequest,
};
pub use images::{
    AbandonedPulls, Access, AccessCheck, Attempt, EnsureError, EnsureReason, Ensured, EventReason,
    FailedAttempt, HostCredentials, ImageEvent, ImageManager, ImageManagerBuilder, ImageOptions,
    ImageService, ImageServiceError, ImageSpec, LocalImage, MirrorError, Mirrors, OpenCheck,
    Parallelism, PlaceAnswer, PullCredentials, PullFailure, PullFailureKind, PullLedger,
    PullPolicy, PullRate, Pulled, Serving, UnknownPullPolicy, UsedLogin, Wanted,
};
pub use logins::{
    Credential, Login, Logins, ProviderSource, SecretCoordinates, SkippedKey, Source, select,
};
pub use node_docker_config::{DockerConfigFileError, NodeDockerConfig};
pub use options::{Backoff, GlobalAnswers, HostOptions, MissingPlugins};
pub use plugin::MOST_OUTPUT;
pub use provider::FAILURES_LOG_TARGET;
pub use pull_secret::{PullSecret, PullSecretError, PullSecretFileError};
pub use records::{
    Abandoned, Allowlist, AllowlistError, DecodeError, ImageNameError, InvalidVerificationSetting,
    LockStripes, Marked, MemorySizes, MustPull, PodCredentials, PullAccess, PullRecords,
    PulledRecord, RecordList, RecordMark, RecordMemory, RecordStore, Recorded, RecordsError,
    RecordsOptions, RecordsReader, RunningKubelet, SecretAccess, VerificationPolicy,
    VerificationSettings, VerificationSettingsError, recorded_name,
};
