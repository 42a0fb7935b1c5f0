//! Why no transport can be made of a configuration.

use keyfob_api::Quoted;
use thiserror::Error;

use super::FileError;
use crate::{AuthProvider, IdentityError};

/// Why a configuration cannot be used. The sentences are upstream's where it has one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnusableConfig {
    /// A user has a plugin and an `auth-provider`. One of them must go.
    #[error("execProvider and authProvider cannot be used in combination")]
    ExecAndAuthProvider,
    /// A user has an `auth-provider`. An exec plugin can take its place.
    #[error("no Auth Provider found for name {}: only exec plugins are supported", Quoted(&.0.name))]
    AuthProvider(AuthProvider),
    /// The plugin is to be told about the cluster, whose certificates cannot be read.
    #[error("failed to load CA bundle for execProvider: {0}")]
    ExecAuthorities(FileError),
    /// The plugin is to be told about the cluster's proxy, and the server has no address.
    #[error("failed to create proxy URL request for execProvider: the server is no URL")]
    ExecServer,
    /// The plugin is to be told about the cluster's proxy, which has no address.
    #[error("failed to get proxy URL for execProvider: proxy-url is no URL")]
    ExecProxy,
    /// Certificates are to be checked with, and not to be checked.
    #[error("specifying a root certificates file with the insecure flag is not allowed")]
    InsecureWithAuthorities,
    /// The file of the cluster's certificates, or of the user's certificate or key, cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cluster's certificates are none.
    #[error("unable to load root certificates: {0}")]
    Authorities(InvalidAuthorities),
    /// The user's certificate and key are no pair.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Why the cluster's certificates are none. Part of upstream's sentence, so it is no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidAuthorities {
    /// They are not in PEM.
    #[error("unable to parse bytes as PEM block")]
    NotPem,
    /// They are PEM of something else.
    #[error("no valid certificate authority data seen")]
    NoCertificate,
    /// There are certificates, and none of them can be read.
    #[error("failed to parse certificate")]
    Malformed,
}
