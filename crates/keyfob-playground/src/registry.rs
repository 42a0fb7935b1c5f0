//! A small private registry on loopback, for trying and testing.
//!
//! It speaks the distribution API to real clients, lets in whom it knows by a password, a bearer token of its own token
//! service, or a pod's identity, and goes wrong on command. It forgets everything at the end.
//!
//! - `serve`: connections; `answer`: from a request to its answer; `route`, `name`, `digest`: what it is about.
//! - `access`, `users`, `scope`, `tokens`, `authorize`: who may do what. `token_service` and `exchange`: how they prove it.
//! - `storage` and `upload`: what is kept. `blobs`, `uploads`, `manifests`, `tags`: what is asked about it.
//! - `fault` and `journal`: what tests and demonstrations need. `image`, `tar` and `gzip`: something to pull.
//!
//! Upstream: the OCI distribution specification 1.1, and docker's token authentication
//! (`distribution.github.io/distribution/spec/auth/token`).
//! Differs: nothing can be deleted but an upload; there are no referrers and no catalog; digests are SHA-256; a token service
//! that is shown no login gives no token that opens nothing; whoever is known and not entitled is answered 403.

mod access;
mod answer;
mod authorize;
mod blobs;
mod body;
mod digest;
mod exchange;
mod fault;
mod gzip;
mod image;
mod journal;
mod limits;
mod manifests;
mod media_type;
mod name;
mod range;
mod refusal;
mod route;
mod running;
mod scope;
mod serve;
mod storage;
mod tags;
mod tar;
mod token_service;
mod tokens;
mod upload;
mod uploads;
mod users;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use keyfob_exec::{Clock, SystemClock};
use thiserror::Error;
use tokio::{net::TcpListener, sync::watch};
use tracing::debug;

pub use self::{
    access::{Access, Grant, Right, User},
    exchange::{TokenVerifier, TokenVerifierError, Trust},
    fault::Fault,
    image::{ImageToMake, PushError, PushedImage},
    journal::SeenRequest,
    limits::Limits,
    media_type::MediaTypes,
    running::Running,
    storage::{NotKept, Storage},
};
use self::{fault::Faults, journal::Journal, tokens::Tokens, uploads::Uploads, users::Users};

/// What a registry starts with. As it stands by default, nobody gets in.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen: a loopback address, because passwords come in without TLS.
    pub listen: SocketAddr,
    /// How a client shows who it is.
    pub access: Access,
    /// Who is known.
    pub users: Vec<User>,
    /// What strangers may do.
    pub anonymous: Vec<Grant>,
    /// Whose tokens can be traded for a login at `/exchange`.
    pub trust: Option<Trust>,
    /// What the registry calls itself in a challenge.
    pub service: String,
    /// How long a bearer token lives, a year at most.
    pub token_lifetime: Duration,
    /// Where images are kept.
    pub storage: Storage,
    /// By which tokens and logins expire.
    pub clock: Arc<dyn Clock>,
    /// What a client may cost.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            access: Access::Bearer,
            users: Vec::new(),
            anonymous: Vec::new(),
            trust: None,
            service: "keyfob-registry".to_owned(),
            token_lifetime: Duration::from_mins(5),
            storage: Storage::memory(),
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
        }
    }
}

/// Why a registry does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// Passwords would cross a network in the clear.
    #[error("the registry has no TLS and listens on loopback only, not on {0}")]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The directory for blobs cannot be used.
    #[error("cannot keep blobs in {0}: {1}")]
    Storage(PathBuf, #[source] io::Error),
    /// A header or a login cannot hold it.
    #[error("the {0} may not be empty or hold quotes, colons and control characters")]
    Unspeakable(&'static str),
}

/// The registry.
#[derive(Debug)]
pub struct Registry;

impl Registry {
    /// Starts to serve, on a task of its own.
    pub async fn start(options: Options) -> Result<Running, StartError> {
        check(&options)?;
        options.storage.prepare()?;
        let unheard = |error| StartError::Listen(options.listen, error);
        let listener = TcpListener::bind(options.listen).await.map_err(unheard)?;
        let address = listener.local_addr().map_err(unheard)?;
        let (stop, stopping) = watch::channel(false);
        let server = Arc::new(Server::new(options, address, stopping));
        debug!(%address, "a registry listens");
        let task = tokio::spawn(serve::serve(listener, Arc::clone(&server)));
        Ok(Running::new(server, stop, task))
    }
}

fn check(options: &Options) -> Result<(), StartError> {
    if !options.listen.ip().is_loopback() {
        return Err(StartError::NotLoopback(options.listen));
    }
    let is_plain = |text: &str| {
        !text.is_empty()
            && !text.contains(|c: char| c.is_control() || matches!(c, '"' | '\\' | ':'))
    };
    if !is_plain(&options.service) || !options.service.is_ascii() {
        return Err(StartError::Unspeakable("service"));
    }
    if !options.users.iter().all(|user| is_plain(&user.name)) {
        return Err(StartError::Unspeakable("name of a user"));
    }
    Ok(())
}

/// Of a token.
const LONGEST_LIFE: Duration = Duration::from_hours(24 * 365);

/// What all connections share.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    access: Access,
    users: Users,
    trust: Option<Trust>,
    service: String,
    tokens: Tokens,
    token_lifetime: Duration,
    storage: Storage,
    uploads: Uploads,
    faults: Faults,
    journal: Journal,
    clock: Arc<dyn Clock>,
    limits: Limits,
    stopping: watch::Receiver<bool>,
}

impl Server {
    fn new(options: Options, address: SocketAddr, stopping: watch::Receiver<bool>) -> Self {
        Self {
            address,
            access: options.access,
            users: Users::new(options.users, options.anonymous),
            trust: options.trust,
            service: options.service,
            tokens: Tokens::default(),
            // A time that no clock can show would be an end that is none.
            token_lifetime: options.token_lifetime.min(LONGEST_LIFE),
            storage: options.storage,
            uploads: Uploads::new(options.limits.uploads),
            faults: Faults::default(),
            journal: Journal::default(),
            clock: options.clock,
            limits: options.limits,
            stopping,
        }
    }

    /// Done when the registry is told to stop, or when nobody holds it any more.
    async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        if stopping.wait_for(|stopping| *stopping).await.is_err() {
            debug!("nobody holds the registry any more; it stops");
        }
    }
}
