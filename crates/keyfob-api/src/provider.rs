//! What passes between the kubelet and an image credential provider plugin.
//!
//! Upstream: `k8s.io/kubelet/pkg/apis/credentialprovider` (v1, v1beta1, v1alpha1), `pkg/credentialprovider/plugin`.

mod cache_key_type;
mod request;
mod response;

use std::{fmt, str::FromStr};

use thiserror::Error;

pub use cache_key_type::{CacheKeyType, CacheKeyTypeHint};
pub use request::{CredentialProviderRequest, RequestError};
pub use response::{AuthConfig, CredentialProviderResponse, ResponseError, UncheckedResponse};

/// A version of the group `credentialprovider.kubelet.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProviderVersion {
    /// Since Kubernetes 1.26.
    V1,
    /// Since Kubernetes 1.24.
    V1Beta1,
    /// Since Kubernetes 1.20.
    V1Alpha1,
}

/// What a request may carry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestFields {
    ImageOnly,
    WithServiceAccount,
}

const VERSIONS: [(&str, ProviderVersion, RequestFields); 3] = [
    (
        "credentialprovider.kubelet.k8s.io/v1",
        ProviderVersion::V1,
        RequestFields::WithServiceAccount,
    ),
    (
        "credentialprovider.kubelet.k8s.io/v1beta1",
        ProviderVersion::V1Beta1,
        RequestFields::ImageOnly,
    ),
    (
        "credentialprovider.kubelet.k8s.io/v1alpha1",
        ProviderVersion::V1Alpha1,
        RequestFields::ImageOnly,
    ),
];

impl ProviderVersion {
    /// Every version, newest first.
    pub const ALL: [Self; 3] = [Self::V1, Self::V1Beta1, Self::V1Alpha1];

    /// The full name: `credentialprovider.kubelet.k8s.io/v1`.
    pub fn api_version(self) -> &'static str {
        self.row().0
    }

    /// Whether requests of this version can carry a service account's token and annotations.
    pub fn carries_service_account(self) -> bool {
        self.row().2 == RequestFields::WithServiceAccount
    }

    fn row(self) -> (&'static str, Self, RequestFields) {
        let [newest, ..] = VERSIONS;
        VERSIONS.into_iter().find(|row| row.1 == self).unwrap_or(newest)
    }
}

impl fmt::Display for ProviderVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.api_version())
    }
}

impl FromStr for ProviderVersion {
    type Err = UnknownProviderVersion;

    fn from_str(text: &str) -> Result<Self, UnknownProviderVersion> {
        let row = VERSIONS.into_iter().find(|row| row.0 == text);
        row.map(|row| row.1).ok_or(UnknownProviderVersion)
    }
}

/// A text that names no version of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a version of credentialprovider.kubelet.k8s.io (v1, v1beta1, v1alpha1)")]
#[non_exhaustive]
pub struct UnknownProviderVersion;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_parsed_from_its_full_name_only() {
        for version in ProviderVersion::ALL {
            assert_eq!(version.api_version().parse(), Ok(version));
        }
        for text in
            ["v1", "credentialprovider.kubelet.k8s.io/v2", "credentialprovider.kubelet.k8s.io/V1"]
        {
            assert_eq!(text.parse::<ProviderVersion>(), Err(UnknownProviderVersion));
        }
    }

    #[test]
    fn only_v1_carries_a_service_account() {
        let carrying = ProviderVersion::ALL.map(ProviderVersion::carries_service_account);
        assert_eq!(carrying, [true, false, false]);
    }
}
