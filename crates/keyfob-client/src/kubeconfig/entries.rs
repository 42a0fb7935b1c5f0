//! Clusters, users and contexts.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use keyfob_api::Secret;

use super::Extensions;
use crate::{ExecConfig, Impersonation, client_config::shown_url};

/// A `cluster`. `Debug` hides what may hold a password.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors `cluster` of a kubeconfig, and is written out"
)]
pub struct Cluster {
    /// The file that it comes from.
    pub origin: Option<PathBuf>,
    /// `server`
    pub server: String,
    /// `tls-server-name`
    pub tls_server_name: String,
    /// `insecure-skip-tls-verify`
    pub insecure_skip_tls_verify: bool,
    /// `certificate-authority`: a file.
    pub certificate_authority: String,
    /// `certificate-authority-data`
    pub certificate_authority_data: Vec<u8>,
    /// `proxy-url`
    pub proxy_url: Secret<String>,
    /// `disable-compression`
    pub disable_compression: bool,
    /// `extensions`
    pub extensions: Extensions,
}

/// A `user`. `Debug` tells what it has, not what that says.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "mirrors `user` of a kubeconfig, and is written out")]
pub struct User {
    /// The file that it comes from.
    pub origin: Option<PathBuf>,
    /// `client-certificate`: a file.
    pub client_certificate: String,
    /// `client-certificate-data`
    pub client_certificate_data: Vec<u8>,
    /// `client-key`: a file.
    pub client_key: String,
    /// `client-key-data`
    pub client_key_data: Secret<Vec<u8>>,
    /// `token`
    pub token: Secret<String>,
    /// `tokenFile`
    pub token_file: String,
    /// `as`, `as-uid`, `as-groups`, `as-user-extra`
    pub impersonate: Impersonation,
    /// `username`
    pub username: String,
    /// `password`
    pub password: Secret<String>,
    /// `auth-provider`
    pub auth_provider: Option<AuthProvider>,
    /// `exec`
    pub exec: Option<ExecConfig>,
    /// `extensions`
    pub extensions: Extensions,
}

/// An `auth-provider`: the way to log in that came before exec plugins. There is none here, so that its user cannot be used.
///
/// client-go still has `oidc`; `gcp` and `azure` were removed in 1.26.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors `auth-provider` of a kubeconfig, and is written out"
)]
pub struct AuthProvider {
    /// `name`
    pub name: String,
    /// `config`, in which there may be tokens and a client's secret.
    pub config: BTreeMap<String, Secret<String>>,
}

/// A `context`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors `context` of a kubeconfig, and is written out"
)]
pub struct Context {
    /// The file that it comes from.
    pub origin: Option<PathBuf>,
    /// `cluster`
    pub cluster: String,
    /// `user`
    pub user: String,
    /// `namespace`
    pub namespace: String,
    /// `extensions`
    pub extensions: Extensions,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("origin", &self.origin)
            .field("server", &shown_url(&self.server))
            .field("tls_server_name", &self.tls_server_name)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("certificate_authority", &self.certificate_authority)
            .field("disable_compression", &self.disable_compression)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("origin", &self.origin)
            .field("client_certificate", &self.client_certificate)
            .field("client_key", &self.client_key)
            .field("has_token", &!self.token.expose().is_empty())
            .field("token_file", &self.token_file)
            .field("impersonate", &self.impersonate)
            .field("username", &self.username)
            .field("auth_provider", &self.auth_provider)
            .field("exec", &self.exec)
            .finish_non_exhaustive()
    }
}
