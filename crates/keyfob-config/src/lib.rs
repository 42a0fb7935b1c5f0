#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - `read`: files to providers (`decode`, with `schema` for the types and `dialect` for what only the proposals describe).
//! - `validate`: what a kubelet refuses; `lookup`: how it reports missing plugins; `lint`: what it accepts but does not do
//!   as intended.
//! - `migrate`: the whole configuration in today's form.
//!
//! Upstream: `CredentialProviderConfig` of `k8s.io/kubelet/config` (v1, v1beta1, v1alpha1).

mod annotation_key;
mod decode;
mod dialect;
mod error;
mod go_files;
mod help;
mod lint;
mod lookup;
mod meta;
mod migrate;
mod origin;
mod patterns;
mod read;
mod read_error;
mod schema;
mod validate;

use std::fmt;

use keyfob_api::{GoDuration, Secret};

pub use error::{ConfigError, ErrorKind, Invalid};
pub use lint::Warning;
pub use lookup::kubelet_error_of_directory;
use origin::Origin;
pub use origin::Place;
pub use read_error::{ReadError, ReadProblem};

/// A configuration, whatever files and versions it came from.
///
/// ```
/// use keyfob_api::FeatureGates;
/// use keyfob_config::Config;
///
/// let config = Config::from_files([("config.yaml", "
/// apiVersion: kubelet.config.k8s.io/v1
/// kind: CredentialProviderConfig
/// providers:
/// - name: ecr-credential-provider
///   apiVersion: credentialprovider.kubelet.k8s.io/v1
///   matchImages: ['*.dkr.ecr.*.amazonaws.com/*']
/// ")])?;
///
/// let invalid = config.validate(FeatureGates::default()).unwrap_err();
/// assert_eq!(invalid.to_string(), "providers.defaultCacheDuration: Required value");
/// let [warning] = &config.lint(None)[..] else { panic!() };
/// assert_eq!(warning.help, r#"write "*.dkr.ecr.*.amazonaws.com/""#);
/// assert_eq!(warning.place.as_ref().unwrap().to_string(), "config.yaml:7:17");
/// # Ok::<(), keyfob_config::ReadError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Config {
    /// The providers, in the order in which they are asked.
    pub providers: Vec<ProviderConfig>,
    /// `sha256:…` over all files, as a kubelet computes it; nothing if it did not come from files.
    pub hash: Option<String>,
    /// Where the providers came from, one for each of those that came from files.
    origins: Vec<Origin>,
    /// Where the first file has its providers, or would have them.
    place: Option<Place>,
}

impl Config {
    /// A configuration that did not come from files.
    pub fn new(providers: impl IntoIterator<Item = ProviderConfig>) -> Self {
        Self { providers: providers.into_iter().collect(), ..Self::default() }
    }
}

/// One plugin and how it is used. `Debug` hides the arguments, which may hold secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProviderConfig {
    /// The name of the plugin's file in the plugin directory.
    pub name: String,
    /// The images it is asked about.
    pub match_images: Vec<String>,
    /// How long an answer that does not say so itself is kept.
    pub default_cache_duration: Option<GoDuration>,
    /// In which version it is spoken to.
    pub api_version: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set over the host's environment.
    pub env: Vec<EnvVar>,
    /// Makes the provider use the pod's service account.
    pub token_attributes: Option<TokenAttributes>,
    /// Which protocol it speaks.
    pub protocol: Protocol,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("name", &self.name)
            .field("match_images", &self.match_images)
            .field("default_cache_duration", &self.default_cache_duration)
            .field("api_version", &self.api_version)
            .field("args", &format_args!("{} hidden", self.args.len()))
            .field("env", &self.env)
            .field("token_attributes", &self.token_attributes)
            .field("protocol", &self.protocol)
            .finish()
    }
}

/// A variable of a plugin's environment. The value may be a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvVar {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Secret<String>,
}

/// How a provider uses the pod's service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenAttributes {
    /// The audience its token is for.
    pub service_account_token_audience: String,
    /// `Token` or `ServiceAccount`: what a cached answer belongs to.
    pub cache_type: String,
    /// Whether pods without a service account are left alone.
    pub require_service_account: Option<bool>,
    /// Annotations without which the plugin is not asked.
    pub required_service_account_annotation_keys: Vec<String>,
    /// Annotations that are handed over if they are there.
    pub optional_service_account_annotation_keys: Vec<String>,
    /// Whose words it is written in.
    pub dialect: TokenDialect,
}

/// Whose words `tokenAttributes` are written in. What they mean is the same, but for what `GlobalAnswers` of `keyfob-host` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenDialect {
    /// The kubelet's.
    #[default]
    Kubelet,
    /// KEP-4412's: one list of annotations, `serviceAccountAnnotationKeys`.
    Kep4412,
}

impl TokenAttributes {
    /// Whether a cached answer belongs to one token, not to all of its account.
    pub fn is_cached_by_token(&self) -> bool {
        self.cache_type == "Token"
    }
}

/// What a plugin is told and how it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a host must handle every protocol")]
pub enum Protocol {
    /// `CredentialProviderRequest` and `CredentialProviderResponse`, in the configured version.
    #[default]
    Kubelet,
    /// The first KEP's: `NAME get-credentials`, one login with an `expirationTimestamp`.
    FirstKep,
}
