//! From a kubeconfig, or a `kube::Config`, to a `kube::Client` whose plugin is run by an [`Authenticator`].
//!
//! Everything that `kube` does with a configuration still holds: addresses, roots, proxies, time limits, retries, headers,
//! impersonation, upgrades. What differs is who runs the plugin, when, and what a 401 or a new certificate does.
//!
//! Differs: a user's own token that cannot stand in a header is refused at once (upstream: with each request).

mod connections;
mod convert;
mod proxies;
mod shown;
mod tls;
mod token_file;
mod transport;
mod transports;

use std::{
    path::{Path, PathBuf},
    str::Utf8Error,
    sync::Arc,
};

use keyfob_api::{Quoted, Secret, SecretSet};
use keyfob_exec::{Environment, SystemEnvironment};
use kube::{
    Client, Config,
    client::{ConfigExt as _, retry::RetryPolicy},
};
use rustls::client::VerifierBuilderError;
use secrecy::ExposeSecret as _;
use thiserror::Error;
use tower::{ServiceBuilder, retry::RetryLayer, util::MapRequestLayer};

use self::{
    shown::Shown,
    token_file::TokenFile,
    transport::Dialer,
    transports::{Key, Transport, Transports},
};
use crate::{
    Authenticator, Authenticators, ClientConfig, ExecLayer, FileError, Identity, IdentityError,
    UnusableConfig, UnusableExec, UnusableToken, credential::authorization,
};

/// Makes clients that share what they can: authenticators, and connections to the same servers as the same user. A clone
/// shares them too.
#[derive(Clone, Debug)]
pub struct Clients {
    authenticators: Authenticators,
    environment: Arc<dyn Environment>,
    transports: Transports,
    secrets: SecretSet,
}

impl Clients {
    /// Clients of this process: the real clock, environment, terminal and processes.
    pub fn system() -> Self {
        Self::new(Authenticators::system(), Arc::new(SystemEnvironment))
    }

    /// Clients with given authenticators; proxies are found in the environment.
    pub fn new(authenticators: Authenticators, environment: Arc<dyn Environment>) -> Self {
        let (transports, secrets) = (Transports::default(), SecretSet::default());
        Self { authenticators, environment, transports, secrets }
    }

    /// What these clients have shown to their servers. Whatever a server answers goes through [`SecretSet::redact`]
    /// before it becomes part of an error or a log line: a server may repeat a token.
    pub fn secrets(&self) -> &SecretSet {
        &self.secrets
    }

    /// A client for a context of a kubeconfig. Nothing is run and nobody is asked yet.
    pub fn connect(&self, config: &ClientConfig) -> Result<Client, ClientError> {
        self.connect_with(config, |_| ())
    }

    /// The same, with a last word on what no kubeconfig says: time limits, retries, headers.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        adjust: impl FnOnce(&mut Config),
    ) -> Result<Client, ClientError> {
        let authenticator = self.authenticator(config)?;
        let mut kube = convert::kube_config(config, &*self.environment)?;
        let identity = config.user.identity()?.map(Arc::new);
        adjust(&mut kube);
        let token_file = config.user.token_file.as_deref();
        let token_file =
            token_file.map(|path| self.token_file(path, config.user.token.as_ref())).transpose()?;
        self.client(&kube, authenticator, identity.as_ref(), token_file)
    }

    /// Who gets the user's credential, if that comes from a plugin: the one that clients of this configuration share.
    pub fn authenticator(
        &self,
        config: &ClientConfig,
    ) -> Result<Option<Authenticator>, ClientError> {
        let cluster = config.exec_cluster()?;
        let authenticator = match config.plugin()? {
            Some(exec) => Some(self.authenticators.get(exec, cluster.as_ref())?),
            None => None,
        };
        Ok(authenticator.filter(|_| !config.user.has_any()))
    }

    /// A client for a configuration of `kube`; its plugin, if it has one, is taken over from `kube`.
    ///
    /// A plugin is only run for an `https` server, and not beside a token, a user name or a certificate.
    pub fn connect_kube(&self, mut config: Config) -> Result<Client, ClientError> {
        if let Some(provider) = &config.auth_info.auth_provider {
            // `kube` would run its command itself, for any server and whatever the policy says.
            return Err(ClientError::AuthProvider { name: provider.name.clone() });
        }
        let is_https = config.cluster_url.scheme_str() == Some("https");
        let authenticator = match config.auth_info.exec.take() {
            Some(exec) if is_https => {
                let (exec, cluster) = convert::exec_config(exec)?;
                Some(self.authenticators.get(&exec, cluster.as_ref())?)
            }
            _ => None,
        };
        let identity = convert::take_identity(&mut config.auth_info)?.map(Arc::new);
        let token_file = config.auth_info.token_file.take();
        let user = &config.auth_info;
        // For `kube` the token itself comes first.
        let token_file = token_file.filter(|_| user.token.is_none());
        let token_file = token_file.map(|path| self.token_file(path.as_ref(), None)).transpose()?;
        let has_own = identity.is_some()
            || user.token.is_some()
            || token_file.is_some()
            || user.username.as_ref().is_some_and(|name| !name.is_empty());
        self.client(&config, authenticator.filter(|_| !has_own), identity.as_ref(), token_file)
    }

    fn token_file(
        &self,
        path: &Path,
        other: Option<&Secret<String>>,
    ) -> Result<TokenFile, ClientError> {
        TokenFile::open(path, other, Arc::clone(&self.authenticators.world().clock))
    }

    fn client(
        &self,
        config: &Config,
        authenticator: Option<Authenticator>,
        identity: Option<&Arc<Identity>>,
        token_file: Option<TokenFile>,
    ) -> Result<Client, ClientError> {
        let transport = self.transport(config, authenticator.clone(), identity)?;
        if let Some(token) = &config.auth_info.token {
            // `kube` would panic.
            authorization(&token.expose_secret().into())?;
        }
        let shown = Shown::new(self.secrets.clone());
        let retry = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(retry)
            .option_layer(authenticator.map(ExecLayer::new))
            .option_layer(
                token_file.map(|file| MapRequestLayer::new(move |request| file.authorize(request))),
            )
            .option_layer(config.auth_layer().map_err(ClientError::kube)?)
            .layer(config.extra_headers_layer().map_err(ClientError::kube)?)
            .layer(MapRequestLayer::new(move |request| shown.note(request)))
            .service(transport);
        Ok(Client::new(service, config.default_namespace.clone()))
    }

    fn transport(
        &self,
        config: &Config,
        authenticator: Option<Authenticator>,
        identity: Option<&Arc<Identity>>,
    ) -> Result<Transport, ClientError> {
        let key = Key::new(config, authenticator.as_ref(), identity);
        self.transports.get_or_open(key, || {
            let dialer = Dialer::new(config, tls::client_config(config)?)?;
            Ok(match authenticator {
                Some(authenticator) => dialer.rotating(authenticator),
                None => dialer.fixed(identity),
            })
        })
    }
}

/// Why there is no client.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The configuration contradicts itself, or what it names cannot be read.
    #[error(transparent)]
    Config(#[from] UnusableConfig),
    /// The user's plugin cannot be used as it is configured.
    #[error(transparent)]
    Exec(#[from] UnusableExec),
    /// The user's own certificate or key is none.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The user's own token cannot be sent.
    #[error(transparent)]
    Token(#[from] UnusableToken),
    /// The server's address is none.
    #[error("the server's address is no http or https URL: {0}")]
    Server(String),
    /// The name to check the server's certificate against is none.
    #[error("tls-server-name is neither a DNS name nor an IP address")]
    ServerName,
    /// A file that the user names cannot be read.
    #[error("cannot read {field} of the user")]
    UserFile {
        /// Which file, by its name in a kubeconfig.
        field: &'static str,
        /// Why not.
        source: FileError,
    },
    /// The user's certificate or key is not in base64. There is no source, because it would quote a byte of the key.
    #[error("{field}-data is not in base64")]
    NotBase64 {
        /// Which of them, by its name in a kubeconfig.
        field: &'static str,
    },
    /// The user's certificate or key is not even text, and so not in PEM.
    #[error("{field} is not in PEM")]
    NotText {
        /// Which of them, by its name in a kubeconfig.
        field: &'static str,
        /// Where it stops being text.
        source: Utf8Error,
    },
    /// The file of the user's token has nothing in it. The sentence is upstream's.
    #[error("read empty token from file {}", Quoted(&*path.to_string_lossy()))]
    EmptyTokenFile {
        /// Which file.
        path: PathBuf,
    },
    /// The user of a `kube::Config` has an `auth-provider`, which Kubernetes removed in 1.26.
    #[error(
        "auth-provider {} of a kube::Config is not supported: use an exec plugin",
        Quoted(name)
    )]
    AuthProvider {
        /// Which one.
        name: String,
    },
    /// The plugin of a `kube::Config` shall run without some variables, which no kubeconfig can ask for.
    #[error("drop_env of a kube::Config is not supported")]
    DropEnv,
    /// The proxy's address is none; it may hold a password, so it is not shown.
    #[error(
        "the proxy's address is no http, https or socks5 URL (proxy-url of the kubeconfig, or HTTPS_PROXY)"
    )]
    Proxy,
    /// None of the certificates to check the server's with can be read, or the machine has none.
    #[error("unable to load root certificates")]
    Authorities(#[source] VerifierBuilderError),
    /// There is no TLS to be had.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
    /// `kube` refuses the rest of the configuration.
    #[error("kube refuses the configuration")]
    Kube(#[source] Box<kube::Error>),
}

impl ClientError {
    fn kube(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}
