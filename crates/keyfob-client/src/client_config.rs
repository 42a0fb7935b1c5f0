//! How to reach a cluster and as whom: what a context of a kubeconfig comes to.
//!
//! Upstream: `rest.Config` of client-go.

mod build;
mod file;
mod transport;
mod unusable;

use std::{fmt, path::PathBuf};

use keyfob_api::{REDACTED, Secret};

use crate::{AuthProvider, ExecConfig};
pub use build::{ClientConfigError, EXEC_EXTENSION};
pub(crate) use file::read_file;
pub use file::{FileError, FileProblem};
pub use unusable::{InvalidAuthorities, UnusableConfig};

/// A server, whom to trust, and as whom to speak.
///
/// `Debug` tells what there is, not what it says.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The server's address, as it will be used.
    pub server: String,
    /// The namespace of the context, or `default`.
    pub namespace: String,
    /// Whom to trust.
    pub tls: ServerTls,
    /// The kubeconfig's `proxy-url`; it may hold a password.
    pub proxy_url: Option<Secret<String>>,
    /// Whether answers must not be compressed.
    pub disable_compression: bool,
    /// The user's own credentials, without its plugin.
    pub user: StaticCredentials,
    /// As whom to act.
    pub impersonate: Impersonation,
    /// The user's plugin, if the server may be told credentials at all.
    pub exec: Option<ExecConfig>,
}

/// How a server proves who it is.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerTls {
    /// The name to check the certificate against, if not the address.
    pub server_name: String,
    /// Whether the certificate is not checked at all.
    pub insecure: bool,
    /// PEM certificates to check with.
    pub ca_data: Vec<u8>,
    /// A file of them. Data comes first.
    pub ca_file: Option<PathBuf>,
}

/// What a user of a kubeconfig has of its own. `Debug` tells which, not what.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct StaticCredentials {
    /// A bearer token.
    pub token: Option<Secret<String>>,
    /// A file of one, read anew now and then.
    pub token_file: Option<PathBuf>,
    /// Basic authentication.
    pub username: String,
    /// Its password.
    pub password: Secret<String>,
    /// A certificate in PEM.
    pub cert_data: Vec<u8>,
    /// A file of one.
    pub cert_file: Option<PathBuf>,
    /// Its key in PEM.
    pub key_data: Secret<Vec<u8>>,
    /// A file of one.
    pub key_file: Option<PathBuf>,
    /// An `auth-provider`, which makes the whole configuration unusable.
    pub auth_provider: Option<AuthProvider>,
}

/// As whom to act.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "mirrors fields of a kubeconfig, and is written out")]
pub struct Impersonation {
    /// `as`
    pub user: String,
    /// `as-uid`
    pub uid: String,
    /// `as-groups`
    pub groups: Vec<String>,
    /// `as-user-extra`
    pub extra: Vec<(String, Vec<String>)>,
}

impl StaticCredentials {
    /// Whether any of them counts, so that the user's plugin is not asked: a token or a file of one, a user name, a certificate
    /// with its key. A password alone does not.
    pub fn has_any(&self) -> bool {
        let has_token = self.token.is_some() || self.token_file.is_some();
        has_token || !self.username.is_empty() || self.has_certificate()
    }

    fn has_certificate(&self) -> bool {
        let has_certificate = !self.cert_data.is_empty() || self.cert_file.is_some();
        has_certificate && (!self.key_data.expose().is_empty() || self.key_file.is_some())
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("server", &shown_url(&self.server))
            .field("namespace", &self.namespace)
            .field("tls", &self.tls)
            .field("proxy_url", &self.proxy_url)
            .field("disable_compression", &self.disable_compression)
            .field("user", &self.user)
            .field("impersonate", &self.impersonate)
            .field("exec", &self.exec)
            .finish()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("server_name", &self.server_name)
            .field("insecure", &self.insecure)
            .field("ca_data", &format_args!("{} bytes", self.ca_data.len()))
            .field("ca_file", &self.ca_file)
            .finish()
    }
}

impl fmt::Debug for StaticCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticCredentials")
            .field("token", &self.token)
            .field("token_file", &self.token_file)
            .field("username", &self.username)
            .field("cert_data", &format_args!("{} bytes", self.cert_data.len()))
            .field("cert_file", &self.cert_file)
            .field("key_file", &self.key_file)
            .field("auth_provider", &self.auth_provider)
            .finish_non_exhaustive()
    }
}

/// An address, unless it may hold a password.
pub(crate) fn shown_url(url: &str) -> &str {
    if url.contains(['@', '?']) { REDACTED } else { url }
}
