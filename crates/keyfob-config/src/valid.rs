//! A configuration that a kubelet would start with, in the types that a host works with.
//!
//! Only `validate` makes one, so nobody who has one checks anything again.

use std::{fmt, time::Duration};

use keyfob_api::{MatchPattern, ProviderVersion};

use super::{EnvVar, TokenDialect};

/// A configuration that is valid. [`Config::validate`](crate::Config::validate) makes it.
#[derive(Clone, Debug)]
pub struct ValidConfig {
    pub(super) providers: Vec<ValidProvider>,
    pub(super) hash: Option<String>,
}

impl ValidConfig {
    /// The providers, in the order in which they are asked. There is at least one, and no two have the same name.
    pub fn providers(&self) -> &[ValidProvider] {
        &self.providers
    }

    /// The same, to keep.
    pub fn into_providers(self) -> Vec<ValidProvider> {
        self.providers
    }

    /// `sha256:…` over all files, as a kubelet computes it; nothing if it did not come from files.
    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }
}

/// A provider of a valid configuration. `Debug` hides the arguments, which may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ValidProvider {
    pub(super) name: String,
    pub(super) match_images: Vec<MatchPattern>,
    pub(super) default_cache_duration: Duration,
    pub(super) protocol: PluginProtocol,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<EnvVar>,
    pub(super) token_attributes: Option<ValidTokenAttributes>,
}

impl ValidProvider {
    /// The name of the plugin's file in the plugin directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The images it is asked about: at least one pattern, which may be one that never matches.
    pub fn match_images(&self) -> &[MatchPattern] {
        &self.match_images
    }

    /// How long an answer that does not say so itself is kept; zero is not at all.
    pub fn default_cache_duration(&self) -> Duration {
        self.default_cache_duration
    }

    /// What is spoken to the plugin.
    pub fn protocol(&self) -> PluginProtocol {
        self.protocol
    }

    /// The plugin's arguments.
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// Variables set over the host's environment.
    pub fn env(&self) -> &[EnvVar] {
        &self.env
    }

    /// How it uses the pod's service account; nothing if it does not.
    pub fn token_attributes(&self) -> Option<&ValidTokenAttributes> {
        self.token_attributes.as_ref()
    }
}

impl fmt::Debug for ValidProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidProvider")
            .field("name", &self.name)
            .field("match_images", &self.match_images)
            .field("default_cache_duration", &self.default_cache_duration)
            .field("protocol", &self.protocol)
            .field("args", &format_args!("{} hidden", self.args.len()))
            .field("env", &self.env)
            .field("token_attributes", &self.token_attributes)
            .finish()
    }
}

/// What is spoken to a plugin, and in which version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a host must handle every protocol")]
pub enum PluginProtocol {
    /// `CredentialProviderRequest` and `CredentialProviderResponse` of this version.
    Kubelet(ProviderVersion),
    /// The first KEP's: `NAME get-credentials`, one login with an `expirationTimestamp`.
    FirstKep,
}

/// How a provider uses the pod's service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidTokenAttributes {
    pub(super) audience: String,
    pub(super) cache_type: CacheType,
    pub(super) requires_service_account: bool,
    pub(super) required_annotation_keys: Vec<String>,
    pub(super) optional_annotation_keys: Vec<String>,
    pub(super) dialect: TokenDialect,
}

impl ValidTokenAttributes {
    /// The audience that the account's token is for.
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// What a cached answer belongs to.
    pub fn cache_type(&self) -> CacheType {
        self.cache_type
    }

    /// Whether pods without a service account are left alone.
    pub fn requires_service_account(&self) -> bool {
        self.requires_service_account
    }

    /// Annotations without which the plugin is not asked.
    pub fn required_annotation_keys(&self) -> &[String] {
        &self.required_annotation_keys
    }

    /// Annotations that are handed over if they are there.
    pub fn optional_annotation_keys(&self) -> &[String] {
        &self.optional_annotation_keys
    }

    /// Whose words it was written in.
    pub fn dialect(&self) -> TokenDialect {
        self.dialect
    }
}

/// What a cached answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a cache must handle every type")]
pub enum CacheType {
    /// All of a service account.
    ServiceAccount,
    /// One token of a service account.
    Token,
}

impl CacheType {
    pub(super) const ALL: [Self; 2] = [Self::ServiceAccount, Self::Token];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.as_str() == name)
    }

    /// The name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::Token => "Token",
        }
    }
}
