//! Asks registries.
//!
//! - https always, but for this machine and hosts that were named.
//! - A login is shown to the registry, or to the token server that the registry names, and to nobody else: not to the
//!   storage that a redirect leads to, and not over plain http.
//! - Bodies are bounded; connections and silences have limits. How long an answer may take grows with what has come of it.
//!
//! Upstream: the distribution specification (OCI, 1.1) and the token specification of the distribution project.

mod answer;
mod challenge;
mod endpoint;
mod exchange;
mod grant;
mod pace;
mod plain_http;
mod repository;
mod said;
mod token;

use std::{num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use keyfob_api::{ImageRef, SecretSet};
use keyfob_exec::{Clock, Environment, SystemClock};
use keyfob_keyring::Login;
use keyfob_net::{Clients, ClientsBuilder, Patience};

pub(crate) use self::repository::{Fetched, Repository};
use self::{grant::Grants, pace::Pace, plain_http::PlainHttp};
use crate::PullError;

/// Asks registries. Clones share connections and tokens.
///
/// ```
/// use keyfob_exec::SystemEnvironment;
/// use keyfob_oci::Client;
///
/// let client = Client::builder(&SystemEnvironment).insecure(["registry.lan:5000"]).build();
/// # let _ = client;
/// ```
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clients: Clients,
    plain_http: PlainHttp,
    patience: Patience,
    pace: Pace,
    clock: Arc<dyn Clock>,
    grants: Grants,
    /// What registries and token servers were shown, and what they issued. Any of them may repeat it later, in the answer to
    /// another attempt.
    secrets: SecretSet,
}

/// A client to come.
#[derive(Debug)]
#[must_use = "nothing is set before `build`"]
pub struct ClientBuilder {
    clients: ClientsBuilder,
    insecure: Vec<String>,
    has_ca_file: bool,
    patience: Patience,
    pace: Pace,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client that goes through the proxies which this environment names.
    pub fn builder(environment: &dyn Environment) -> ClientBuilder {
        let clients = Clients::builder()
            .proxies(environment)
            .user_agent(concat!("keyfob/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(15))
            .stall_timeout(Pace::default().grace);
        let (patience, pace) = (Patience::default(), Pace::default());
        ClientBuilder {
            clients,
            insecure: Vec::new(),
            has_ca_file: false,
            patience,
            pace,
            clock: Arc::new(SystemClock),
        }
    }

    /// The secrets of all attempts so far. Whatever else is learned here is hidden in errors and logs, too: credentials that
    /// are still to be tried, for instance.
    pub fn secrets(&self) -> &SecretSet {
        &self.0.secrets
    }

    /// The repository of an image, asked as someone or as nobody.
    pub(crate) fn repository(
        &self,
        image: &ImageRef,
        login: Option<&Login>,
    ) -> Result<Repository, PullError> {
        Repository::new(self.clone(), image, login.cloned())
    }

    /// How long to wait after an attempt that failed; nothing if another would not help.
    pub(crate) fn pause(&self, error: &PullError, attempt: u32) -> Option<Duration> {
        /// Who asks for more does not want to be waited for.
        const LONGEST: Duration = Duration::from_secs(30);
        match error {
            PullError::Unavailable { retry_after, .. }
                if retry_after.is_none_or(|asked_for| asked_for <= LONGEST) =>
            {
                self.0.patience.pause(attempt, *retry_after)
            }
            _ => None,
        }
    }
}

impl ClientBuilder {
    /// Trust the certificates of this PEM file, and no others. Registries of this machine are then expected to speak https.
    pub fn ca_file(mut self, path: Option<PathBuf>) -> Self {
        self.has_ca_file = path.is_some();
        self.clients = self.clients.ca_file(path);
        self
    }

    /// Speak plain http with these hosts: `host`, at any port, or `host:port`. With this machine it is spoken anyway, unless there is a
    /// [`ca_file`](Self::ca_file).
    pub fn insecure<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.insecure.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// How long a connection may take to come about; 15 seconds unless told.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.clients = self.clients.connect_timeout(limit);
        self
    }

    /// How long a server may be silent, or slower than [`slowest`](Self::slowest); 30 seconds unless told.
    pub fn stall_timeout(mut self, limit: Duration) -> Self {
        self.clients = self.clients.stall_timeout(limit);
        self.pace.grace = limit;
        self
    }

    /// How many bytes a server must send in a second, on average over an answer; 1000 unless told.
    pub fn slowest(mut self, bytes: NonZeroU32) -> Self {
        self.pace.slowest = bytes;
        self
    }

    /// When what failed is tried again.
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// By which tokens expire.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The client. Nothing is loaded before something is asked.
    pub fn build(self) -> Client {
        let Self { clients, insecure, has_ca_file, patience, pace, clock } = self;
        let clients = clients.build();
        let plain_http = PlainHttp::new(insecure).with_tls_on_loopback(has_ca_file);
        let (grants, secrets) = (Grants::default(), SecretSet::default());
        Client(Arc::new(Inner { clients, plain_http, patience, pace, clock, grants, secrets }))
    }
}
