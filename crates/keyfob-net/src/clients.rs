//! The clients: one for plain HTTP, one for TLS, each built when it is first asked for.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use keyfob_exec::Environment;

use crate::{
    ConnectionError,
    proxy::Proxies,
    roots::{self, Roots},
};

/// Clients that share their settings. Clones share their connections too.
///
/// - Nothing is loaded until something is asked; the platform's roots only when TLS is used.
/// - Redirects are not followed, and nothing is sent twice: both are decisions of whoever asks.
/// - `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured, except for this machine, link-local addresses
///   and metadata services, which a proxy cannot reach for us.
///
/// ```
/// use keyfob_exec::SystemEnvironment;
/// use keyfob_net::Clients;
///
/// let clients = Clients::builder().proxies(&SystemEnvironment).build();
/// let client = clients.client(false)?;
/// # let _ = client;
/// # Ok::<(), keyfob_net::ConnectionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Clients(Arc<Inner>);

/// Settings to come.
#[derive(Debug, Default)]
#[must_use = "nothing is set before `build`"]
pub struct ClientsBuilder(Settings);

#[derive(Debug, Default)]
struct Settings {
    roots: Roots,
    proxies: Proxies,
    pin: Option<(String, SocketAddr)>,
    user_agent: Option<&'static str>,
    connect: Option<Duration>,
    stall: Option<Duration>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    plain: OnceLock<Result<reqwest::Client, ConnectionError>>,
    secure: OnceLock<Result<reqwest::Client, ConnectionError>>,
}

impl Clients {
    /// Without a proxy, with the platform's roots, and with all the time there is.
    pub fn builder() -> ClientsBuilder {
        ClientsBuilder::default()
    }

    /// The client for addresses with TLS, or without.
    pub fn client(&self, secure: bool) -> Result<&reqwest::Client, ConnectionError> {
        let Inner { settings, plain, secure: over_tls } = self.0.as_ref();
        // A proxy may itself be spoken to over TLS.
        let client = if secure || settings.proxies.need_tls() {
            over_tls.get_or_init(|| settings.client(settings.roots.client_config()?))
        } else {
            plain.get_or_init(|| {
                settings.client(roots::client_config(rustls::RootCertStore::empty())?)
            })
        };
        client.as_ref().map_err(Clone::clone)
    }
}

impl ClientsBuilder {
    /// Trust the certificates of this PEM file, and no others.
    pub fn ca_file(mut self, path: Option<PathBuf>) -> Self {
        self.0.roots = path.map_or(Roots::Platform, Roots::File);
        self
    }

    /// Trust the certificates of this PEM text, and no others; if it is empty, the platform's.
    ///
    /// So a kubeconfig's plugin can speak to the cluster that it is asked about: `ExecInfo::anonymous_config` of
    /// `keyfob-plugin` has the text.
    ///
    /// ```
    /// # let certificate_authority_data = Vec::new();
    /// let clients = keyfob_net::Clients::builder().ca_pem(certificate_authority_data).build();
    /// # let _ = clients;
    /// ```
    pub fn ca_pem(mut self, pem: Vec<u8>) -> Self {
        self.0.roots = if pem.is_empty() { Roots::Platform } else { Roots::Pem(pem) };
        self
    }

    /// Go through the proxies that the environment names.
    pub fn proxies(mut self, environment: &dyn Environment) -> Self {
        self.0.proxies = Proxies::of(environment);
        self
    }

    /// Find this host at this address, whatever its name resolves to.
    pub fn pin(mut self, host: &str, address: SocketAddr) -> Self {
        self.0.pin = Some((host.to_owned(), address));
        self
    }

    /// Say who asks.
    pub fn user_agent(mut self, name: &'static str) -> Self {
        self.0.user_agent = Some(name);
        self
    }

    /// How long a connection may take to come about.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.0.connect = Some(limit);
        self
    }

    /// How long the other side may be silent, before its answer and within.
    pub fn stall_timeout(mut self, limit: Duration) -> Self {
        self.0.stall = Some(limit);
        self
    }

    /// The clients.
    pub fn build(self) -> Clients {
        let (plain, secure) = (OnceLock::new(), OnceLock::new());
        Clients(Arc::new(Inner { settings: self.0, plain, secure }))
    }
}

impl Settings {
    fn client(&self, tls: rustls::ClientConfig) -> Result<reqwest::Client, ConnectionError> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .no_proxy();
        if let Some((host, address)) = &self.pin {
            builder = builder.resolve(host, *address);
        }
        if let Some(name) = self.user_agent {
            builder = builder.user_agent(name);
        }
        if let Some(limit) = self.connect {
            builder = builder.connect_timeout(limit);
        }
        if let Some(limit) = self.stall {
            builder = builder.read_timeout(limit);
        }
        self.proxies.apply(builder)?.build().map_err(ConnectionError::of)
    }
}
