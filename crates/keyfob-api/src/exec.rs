//! What passes between a Kubernetes client and an exec credential plugin.
//!
//! Upstream: `k8s.io/client-go/pkg/apis/clientauthentication` (v1, v1beta1; v1alpha1 until 1.23),
//! `plugin/pkg/client/auth/exec`, `tools/auth/exec`.

mod cluster;
mod spec;
mod status;

use std::{fmt, str::FromStr};

use thiserror::Error;

pub use cluster::{ExecCluster, ExecResponse};
pub use spec::{ExecCredentialSpec, ExecInfoError, NoClusterInformation};
pub use status::{ClientIdentity, ExecAnswerError, ExecCredentialStatus, ExecDecodingError};

const GROUP: &str = "client.authentication.k8s.io";
const KIND: &str = "ExecCredential";

/// A version of the group `client.authentication.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ExecVersion {
    /// Since Kubernetes 1.22.
    V1,
    /// Since Kubernetes 1.11.
    V1Beta1,
    /// From Kubernetes 1.10 to 1.23; today's clients refuse it.
    V1Alpha1,
}

/// What `spec` looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpecFields {
    /// `cluster`, and `interactive` always.
    Cluster,
    /// `response`, and `interactive` when true.
    Response,
}

const VERSIONS: [(&str, ExecVersion, SpecFields); 3] = [
    ("client.authentication.k8s.io/v1", ExecVersion::V1, SpecFields::Cluster),
    ("client.authentication.k8s.io/v1beta1", ExecVersion::V1Beta1, SpecFields::Cluster),
    ("client.authentication.k8s.io/v1alpha1", ExecVersion::V1Alpha1, SpecFields::Response),
];

impl ExecVersion {
    /// Every version, newest first.
    pub const ALL: [Self; 3] = [Self::V1, Self::V1Beta1, Self::V1Alpha1];

    /// The full name: `client.authentication.k8s.io/v1`.
    pub fn api_version(self) -> &'static str {
        self.row().0
    }

    fn spec_fields(self) -> SpecFields {
        self.row().2
    }

    fn row(self) -> (&'static str, Self, SpecFields) {
        let [newest, ..] = VERSIONS;
        VERSIONS.into_iter().find(|row| row.1 == self).unwrap_or(newest)
    }
}

impl fmt::Display for ExecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.api_version())
    }
}

impl FromStr for ExecVersion {
    type Err = UnknownExecVersion;

    fn from_str(text: &str) -> Result<Self, UnknownExecVersion> {
        let row = VERSIONS.into_iter().find(|row| row.0 == text);
        row.map(|row| row.1).ok_or(UnknownExecVersion)
    }
}

/// A text that names no version of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a version of {GROUP} (v1, v1beta1, v1alpha1)")]
#[non_exhaustive]
pub struct UnknownExecVersion;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_parsed_from_its_full_name_only() {
        for version in ExecVersion::ALL {
            assert_eq!(version.api_version().parse(), Ok(version));
        }
        assert_eq!("v1".parse::<ExecVersion>(), Err(UnknownExecVersion));
        assert_eq!(
            "client.authentication.k8s.io/__internal".parse::<ExecVersion>(),
            Err(UnknownExecVersion)
        );
    }
}
