#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - [`Config`]: the files as they are written, with the place of every value. `read` makes it of files (`decode`, with
//!   `schema` for the types and `dialect` for what only the proposals describe), `migrate` writes the whole in today's form,
//!   `lint` says what a kubelet accepts but does not do as intended, and `lookup` how it reports missing plugins. The tables in
//!   `provider_config` have a row for each field.
//! - [`ValidConfig`]: the same in types that need no checking. Only `validate` makes it, or says what a kubelet refuses.
//!
//! Upstream: `CredentialProviderConfig` of `k8s.io/kubelet/config` (v1, v1beta1, v1alpha1).

mod annotation_key;
mod decode;
mod dialect;
mod error;
mod fields;
mod go_files;
mod help;
mod lint;
mod lookup;
mod meta;
mod migrate;
mod origin;
mod patterns;
mod provider_config;
mod read;
mod read_error;
mod schema;
mod valid;
mod validate;

pub use error::{ConfigError, ErrorKind, Invalid};
pub use fields::{FieldValue, Fields};
pub use help::nearest_name;
pub use lint::Warning;
pub use lookup::kubelet_error_of_directory;
use origin::Origin;
pub use origin::Place;
pub use provider_config::{EnvVar, Protocol, ProviderConfig, TokenAttributes, TokenDialect};
pub use read_error::{ReadError, ReadProblem};
pub use valid::{CacheType, PluginProtocol, ValidConfig, ValidProvider, ValidTokenAttributes};

/// A configuration as it is written, whatever files and versions it came from. It may be invalid.
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
