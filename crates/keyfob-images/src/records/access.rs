//! What gives access to an image.

use keyfob_keyring::{SecretCoordinates, ServiceAccountCoordinates};

/// What gave access to an image: upstream's `ImagePullCredentials`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct PullAccess {
    /// Secrets that it was pulled with.
    pub secrets: Vec<SecretAccess>,
    /// Service accounts that it was pulled as.
    pub service_accounts: Vec<ServiceAccountCoordinates>,
    /// Whether every pod of the node has access: it was pulled without credentials, or with the node's own.
    pub node_pods_accessible: bool,
}

/// A pull secret, and what it held: upstream's `ImagePullSecret`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct SecretAccess {
    /// Which secret.
    pub secret: SecretCoordinates,
    /// The hash of the credential; empty if it is not known.
    pub credential_hash: String,
}

/// What a pod has to prove its access with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct PodCredentials {
    /// Its pull secrets that are for the image.
    pub secrets: Vec<SecretAccess>,
    /// Its service account, if a provider gave a credential for it.
    pub service_account: Option<ServiceAccountCoordinates>,
}
