//! From a kubeconfig to a configuration.
//!
//! Upstream: `DirectClientConfig.ClientConfig` in `clientcmd/client_config.go`.

use std::path::PathBuf;

use keyfob_api::{GoUrl, RawJson, Secret};
use thiserror::Error;

use super::{ClientConfig, FileError, Impersonation, ServerTls, StaticCredentials, read_file};
use crate::{
    Cluster, Dialect, ExecConfig, InvalidConfiguration, Kubeconfig, NotFound, Overrides, Selection,
    User, printable_hint,
};

/// The name of a cluster's extension that is for plugins.
pub const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";
/// What KEP-541 called it.
const EXTENSION_OF_THE_KEP: &str = "exec";

/// Why a kubeconfig comes to nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientConfigError {
    /// A program asked for something that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// What was selected cannot be used.
    #[error(transparent)]
    Invalid(#[from] InvalidConfiguration),
    /// The user's token cannot be read.
    #[error(transparent)]
    TokenFile(#[from] FileError),
}

impl Kubeconfig {
    /// What the current context, or another that is asked for, comes to. Files that it names must be there; a token is
    /// read.
    pub fn client_config(&self, overrides: &Overrides) -> Result<ClientConfig, ClientConfigError> {
        let selection = self.select(overrides)?;
        self.confirm(&selection)?;
        let Selection { context, cluster, user, .. } = selection;
        let server = final_address(&cluster.server);
        let mut config = ClientConfig {
            namespace: if context.namespace.is_empty() {
                "default".into()
            } else {
                context.namespace
            },
            proxy_url: Some(cluster.proxy_url.clone()).filter(|url| !url.expose().is_empty()),
            disable_compression: cluster.disable_compression,
            impersonate: impersonation(&user),
            ..ClientConfig::default()
        };
        // Who cannot be sure of the server tells it nothing.
        if is_https(&server) {
            config.user = StaticCredentials::of(&user)?;
            config.exec = user.exec.map(|exec| self.for_cluster(exec, &cluster));
            config.tls = ServerTls::of(cluster);
        }
        Ok(ClientConfig { server, ..config })
    }

    fn for_cluster(&self, exec: ExecConfig, cluster: &Cluster) -> ExecConfig {
        ExecConfig {
            install_hint: printable_hint(&exec.install_hint),
            config: self.plugin_extension(cluster),
            ..exec
        }
    }

    fn plugin_extension(&self, cluster: &Cluster) -> Option<RawJson> {
        let name = self.plugin_extension_name(cluster)?;
        cluster.extensions.get(name).cloned().flatten()
    }

    /// The name of the cluster's extension that is for plugins, if it has one. Plugins are told of it only with
    /// `provideClusterInfo`.
    pub fn plugin_extension_name(&self, cluster: &Cluster) -> Option<&'static str> {
        let names: &[_] = match self.dialect {
            Dialect::WithKep541 => &[EXEC_EXTENSION, EXTENSION_OF_THE_KEP],
            Dialect::ClientGo => &[EXEC_EXTENSION],
        };
        names.iter().copied().find(|name| cluster.extensions.contains_key(*name))
    }
}

impl ServerTls {
    fn of(cluster: Cluster) -> Self {
        Self {
            server_name: cluster.tls_server_name,
            insecure: cluster.insecure_skip_tls_verify,
            ca_data: cluster.certificate_authority_data,
            ca_file: file(&cluster.certificate_authority),
        }
    }
}

impl StaticCredentials {
    fn of(user: &User) -> Result<Self, FileError> {
        let mut credentials = Self {
            token: Some(user.token.clone()).filter(|token| !token.expose().is_empty()),
            token_file: file(&user.token_file),
            username: user.username.clone(),
            password: user.password.clone(),
            auth_provider: user.auth_provider.clone(),
            ..Self::default()
        };
        if let (None, Some(path)) = (&credentials.token, &credentials.token_file) {
            let token = read_file(path)?;
            let token = String::from_utf8_lossy(token.expose()).into_owned();
            credentials.token = Some(Secret::new(token)).filter(|token| !token.expose().is_empty());
        }
        // A key without a certificate is none.
        credentials.cert_file = file(&user.client_certificate);
        if credentials.cert_file.is_some() || !user.client_certificate_data.is_empty() {
            credentials.cert_data.clone_from(&user.client_certificate_data);
            credentials.key_file = file(&user.client_key);
            credentials.key_data = user.client_key_data.clone();
        }
        Ok(credentials)
    }
}

/// Nobody's uid, groups and extras are nothing.
fn impersonation(user: &User) -> Impersonation {
    match user.impersonate.user.as_str() {
        "" => Impersonation::default(),
        _ => user.impersonate.clone(),
    }
}

fn file(path: &str) -> Option<PathBuf> {
    Some(path).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The address as requests will have it: with a path it is put together anew, without its query. A fragment is taken for a
/// part of the path.
fn final_address(server: &str) -> String {
    match GoUrl::parse_request_uri(server) {
        Ok(url) if url.path().len() > 1 => url.without_query().text().expose().clone(),
        _ => server.to_owned(),
    }
}

/// By the address alone: one without a scheme is not, whatever else is said about certificates.
fn is_https(server: &str) -> bool {
    GoUrl::parse(server).is_ok_and(|url| url.scheme() == "https" && url.has_host())
}
