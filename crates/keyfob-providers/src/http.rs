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
mod reply;
mod sending;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

pub use address::{AddressError, address, secure_address};
#[cfg(feature = "ecr")]
pub(crate) use aws::AwsHttp;
pub use error::HttpError;
use keyfob_exec::{Environment, shortened};
use keyfob_net::{Clients, ConnectionError, named};
pub use reply::Reply;
pub use sending::Sending;

use self::error::Fault;

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
pub struct Http(Clients);

impl Http {
    /// A client that has not loaded anything yet.
    pub fn new(args: &HttpArgs, environment: &dyn Environment) -> Self {
        Self(Clients::builder().ca_file(args.ca_file.clone()).proxies(environment).build())
    }

    /// A client for one host, which is found at this address whatever its name resolves to, and past any proxy.
    /// It trusts the certificates of this file only.
    pub fn pinned(host: &str, address: SocketAddr, ca_file: &Path) -> Self {
        Self(Clients::builder().ca_file(Some(ca_file.into())).pin(host, address).build())
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
        let what = named(request.method(), &request.uri().to_string());
        self.attempt(request, timeout).await.map_err(|fault| HttpError::new(what, fault))
    }

    async fn attempt(
        &self,
        request: http::Request<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Reply, Fault> {
        let client = self.0.client(request.uri().scheme_str() == Some("https"))?;
        let sending = async {
            let request = reqwest::Request::try_from(request).map_err(|_| Fault::NotAUrl)?;
            Reply::receive(client.execute(request).await.map_err(ConnectionError::of)?).await
        };
        tokio::time::timeout(timeout, sending).await.unwrap_or(Err(Fault::TooSlow(timeout)))
    }
}

/// What the body of a failure says; it is cut before it gets long.
pub(crate) fn complaint(body: &[u8]) -> String {
    const LONGEST: usize = 300;
    shortened(&keyfob_net::complaint(body), LONGEST)
}
