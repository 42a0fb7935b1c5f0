//! A small API server that `kubectl` and `kube` can talk to, for trying and testing.
//!
//! It serves the objects that the rule looks at, signs service accounts' tokens as Kubernetes does, answers reviews, and
//! enforces the rule through the same code as everybody else here. It keeps everything in memory and forgets it at the end.
//!
//! - `serve`: from a request to its answer. `request`: what it is for; `authenticate` and `users`: who asks;
//!   `authorize` and `node_reads`: may they; `body`, `protobuf`, `status`: what is read and answered.
//! - `store`, `writes`, `names`, `defaults`, `watch`, `selector`: the objects.
//! - `token_request`, `claims`, `signer`: tokens. `reviews`, `access_review`: questions about them and about access.
//! - `discovery`, `resources`: what there is.
//!
//! Differs: no other resources; whoever may write roles may give away more than they have, and may change
//! what a binding binds; a pod's `spec` can be changed, so also its node and its account; of an object only the types of its
//! fields and its name are checked. `dryRun`, deleting collections, JSON patches, apply patches and directives in strategic
//! patches are refused; a `SelfSubjectRulesReview` is always incomplete; there are no tables, so `kubectl` shows names and
//! ages; and no `OpenAPI`, so `kubectl apply` and `create -f` want `--validate=false`. Whoever has no token is answered 401
//! where Kubernetes answers 403.

mod access_review;
mod authenticate;
mod authorize;
mod body;
mod certificates;
mod claims;
mod defaults;
mod discovery;
mod kubeconfig;
mod metadata;
mod names;
mod node_reads;
mod protobuf;
mod request;
mod resources;
mod reviews;
mod running;
mod selector;
mod serve;
mod signer;
mod status;
mod store;
mod token_request;
mod users;
mod watch;
mod writes;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{Router, routing::any};
use keyfob_api::{Secret, Timestamp};
use keyfob_control::{
    objects::Objects,
    rule::Policy,
    server::{Limits, TlsError, serve},
};
use keyfob_exec::{Clock, SystemClock};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{net::TcpListener, sync::watch as signal};
use tracing::debug;

pub use self::{running::Running, signer::KeyError};
use self::{signer::Signer, store::Store, users::Tokens};

/// What a server starts with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The objects that are there at first.
    pub objects: Objects,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The rule for nodes.
    pub policy: Policy,
    /// By which tokens expire.
    pub clock: Arc<dyn Clock>,
    /// Who signs the tokens, as they say; without it the server's own address.
    pub issuer: Option<String>,
    /// A private RSA key in PEM; without it one is made.
    pub signing_key: Option<Secret<Vec<u8>>>,
    /// What a client may cost.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            objects: Objects::default(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            policy: Policy::default(),
            clock: Arc::new(SystemClock),
            issuer: None,
            signing_key: None,
            limits: Limits::default(),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Tokens cannot be signed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The issuer is no `https` address.
    #[error("the issuer must be an https URL without query and fragment, not {0}")]
    Issuer(String),
    /// The objects could not be taken in.
    #[error("the system gives no random numbers")]
    NoRandomNumbers,
}

/// The embedded API server.
#[derive(Debug)]
pub struct ApiServer;

impl ApiServer {
    /// Starts to serve, on a task of its own.
    pub async fn start(options: Options) -> Result<Running, StartError> {
        let unheard = |error| StartError::Listen(options.listen, error);
        let listener = TcpListener::bind(options.listen).await.map_err(unheard)?;
        let address = listener.local_addr().map_err(unheard)?;
        let identity = certificates::make(address.ip())?;
        let (stop, stopping) = signal::channel(false);
        let limits = options.limits;
        let api = Arc::new(Api::new(options, address, stopping.clone())?);
        let app = Router::new()
            .route("/", any(serve::handle))
            .route("/{*path}", any(serve::handle))
            .with_state(Arc::clone(&api));
        let task = tokio::spawn(async move {
            let mut stopping = stopping;
            let stopped = async move {
                if stopping.wait_for(|stopping| *stopping).await.is_err() {
                    debug!("nobody holds the API server any more; it stops");
                }
            };
            serve(listener, identity.tls, app, limits, stopped).await;
        });
        Ok(Running { api, authority: identity.authority, stop, task })
    }
}

/// What all requests share.
#[derive(Debug)]
struct Api {
    address: SocketAddr,
    /// Where clients find it.
    host: SocketAddr,
    issuer: String,
    store: Store,
    tokens: Tokens,
    signer: Signer,
    policy: Policy,
    clock: Arc<dyn Clock>,
    stopping: signal::Receiver<bool>,
}

impl Api {
    fn new(
        options: Options,
        address: SocketAddr,
        stopping: signal::Receiver<bool>,
    ) -> Result<Self, StartError> {
        let signer = match &options.signing_key {
            Some(key) => Signer::from_pem(key.expose())?,
            None => Signer::generate()?,
        };
        let host = kubeconfig::reachable(address);
        let issuer = options.issuer.unwrap_or_else(|| format!("https://{host}"));
        if !issuer.starts_with("https://") || issuer.contains(['?', '#']) {
            return Err(StartError::Issuer(issuer));
        }
        let (policy, clock) = (options.policy, options.clock);
        let (store, tokens) = (Store::empty(), Tokens::default());
        let api = Self { address, host, issuer, store, tokens, signer, policy, clock, stopping };
        let now = metadata::timestamp(api.now());
        let loaded = defaults::load(&api.store, &options.objects, &now);
        loaded.map_err(|_| StartError::NoRandomNumbers)?;
        Ok(api)
    }

    /// Seconds since the epoch.
    fn now(&self) -> i64 {
        Timestamp::from(self.clock.now()).unix_seconds()
    }

    fn openid_configuration(&self) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("https://{}/openid/v1/jwks", self.host),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        })
    }
}
