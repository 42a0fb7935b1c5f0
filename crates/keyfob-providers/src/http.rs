//! The one HTTP client of all plugins, and its rules.
//!
//! - Nothing is loaded until something is asked; the platform's roots only when TLS is used.
//! - Redirects are not followed: a token goes where the configuration says and nowhere else.
//! - `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured, except for this machine, link-local addresses
//!   and metadata services, which a proxy cannot reach for us.
//! - Bodies are bounded, every attempt has a time limit, and throttling is met with patience inside the plugin's deadline.

mod address;
#[cfg(feature = "ecr")]
mod aws;
#[cfg(feature = "acr")]
pub(crate) mod azure;
mod error;
mod proxy;
mod reply;
mod retry;
mod roots;
mod sending;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

pub use address::{AddressError, address, secure_address};
#[cfg(feature = "ecr")]
pub(crate) use aws::AwsHttp;
pub use error::HttpError;
use keyfob_exec::Environment;
pub use reply::Reply;
#[cfg(feature = "gcp")]
pub(crate) use reply::complaint;
pub use sending::Sending;

use self::{error::Fault, proxy::Proxies};

/// What is told of connections at the command line.
#[derive(Debug, Clone, Default, clap::Args)]
#[non_exhaustive]
pub struct HttpArgs {
    /// Trust the certificates of this PEM file, and no others.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Connections",
        env = "KEYFOB_CA_FILE",
        hide_env_values = true
    )]
    pub ca_file: Option<PathBuf>,
}

/// Sends requests by the rules of this module.
#[derive(Debug, Clone)]
pub struct Http(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ca_file: Option<PathBuf>,
    proxies: Proxies,
    pin: Option<(String, SocketAddr)>,
    plain: OnceLock<Result<reqwest::Client, Fault>>,
    secure: OnceLock<Result<reqwest::Client, Fault>>,
}

impl Http {
    /// A client that has not loaded anything yet.
    pub fn new(args: &HttpArgs, environment: &dyn Environment) -> Self {
        Self::of(args.ca_file.clone(), Proxies::of(environment), None)
    }

    /// A client for one host, which is found at this address whatever its name resolves to, and past any proxy.
    /// It trusts the certificates of this file only.
    pub fn pinned(host: &str, address: SocketAddr, ca_file: &Path) -> Self {
        Self::of(Some(ca_file.into()), Proxies::none(), Some((host.to_owned(), address)))
    }

    fn of(ca_file: Option<PathBuf>, proxies: Proxies, pin: Option<(String, SocketAddr)>) -> Self {
        let (plain, secure) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Inner { ca_file, proxies, pin, plain, secure }))
    }

    /// A `GET` to come.
    pub fn get(&self, url: impl Into<String>) -> Sending<'_> {
        Sending::new(self, http::Method::GET, url.into())
    }

    /// A `POST` to come.
    pub fn post(&self, url: impl Into<String>) -> Sending<'_> {
        Sending::new(self, http::Method::POST, url.into())
    }

    /// One attempt: for the clouds' own libraries, which try again by their own rules.
    pub async fn once(
        &self,
        request: http::Request<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Reply, HttpError> {
        let what = error::named(request.method(), &request.uri().to_string());
        self.attempt(request, timeout).await.map_err(|fault| HttpError::new(what, fault))
    }

    async fn attempt(
        &self,
        request: http::Request<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Reply, Fault> {
        let client = self.client(request.uri().scheme_str() == Some("https"))?;
        let sending = async {
            let request = reqwest::Request::try_from(request).map_err(|_| Fault::NotAUrl)?;
            Reply::receive(client.execute(request).await.map_err(Fault::of)?).await
        };
        tokio::time::timeout(timeout, sending).await.unwrap_or(Err(Fault::TooSlow(timeout)))
    }

    fn client(&self, secure: bool) -> Result<&reqwest::Client, Fault> {
        let Inner { ca_file, proxies, plain, secure: over_tls, .. } = self.0.as_ref();
        // A proxy may itself be spoken to over TLS.
        let client = if secure || proxies.need_tls() {
            over_tls.get_or_init(|| self.0.build(roots::load(ca_file.as_deref())?))
        } else {
            plain.get_or_init(|| self.0.build(rustls::RootCertStore::empty()))
        };
        client.as_ref().map_err(Clone::clone)
    }
}

impl Inner {
    fn build(&self, roots: rustls::RootCertStore) -> Result<reqwest::Client, Fault> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(roots::client_config(roots)?)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .no_proxy();
        if let Some((host, address)) = &self.pin {
            builder = builder.resolve(host, *address);
        }
        self.proxies.apply(builder)?.build().map_err(Fault::of)
    }
}
