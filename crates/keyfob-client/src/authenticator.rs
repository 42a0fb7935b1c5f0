//! Use, wait or run.
//!
//! A credential that is good is used without waiting for anybody. Otherwise there is one run of the plugin for all who ask, and it
//! belongs to none of them.
//!
//! A credential that a server refused can be replaced at once ([`Authenticator::refused`]), or when somebody next needs one
//! ([`Authenticator::invalidate`]). The second spares a run, and with it a prompt, whose answer nobody might ever use.
//!
//! Upstream: `Authenticator` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: no lock is held while the plugin runs, and everybody who waited for a run gets what came of it (upstream runs a
//! plugin that fails once for each); a credential near its end is replaced in the background; after failures there is a pause.

mod error;
mod hint;
mod obtain;
mod patience;
mod plugin;
mod refusal;
mod run;
mod status;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use arc_swap::ArcSwapOption;
use keyfob_api::{ExecResponse, ExecVersion};
use keyfob_exec::single_flight::Waiter;

pub use error::{AuthError, NotInteractive, StartError};
pub use hint::Help;
pub(crate) use plugin::Plugin;
pub use status::AuthenticatorStatus;

use crate::{Behaviour, Credential, ExecConfig, Identity, World, metrics::Metrics};
use obtain::Cause;
use patience::Patience;

/// What a run comes to.
pub(crate) type Outcome = Result<Arc<Credential>, AuthError>;

/// Knows the credential of one user, and how to get it. A clone is the same.
#[derive(Clone, Debug)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    plugin: Plugin,
    world: World,
    behaviour: Behaviour,
    pub(crate) metrics: Metrics,
    current: ArcSwapOption<Credential>,
    /// The newest generation that a server has accepted.
    accepted: AtomicU64,
    /// The newest generation that was invalidated: it and all before it are no longer used, if a new one can be had.
    invalidated: AtomicU64,
    desk: Mutex<Desk>,
    observers: Mutex<Vec<Weak<dyn IdentityObserver>>>,
}

/// Is told when an authenticator's certificate is another one, or gone.
///
/// [`Rotating`](crate::Rotating) is one. It is public for transports of others, which must then open new connections. It is a trait and
/// no closure because the authenticator holds it weakly: a transport that was dropped is forgotten.
pub trait IdentityObserver: Send + Sync {
    /// This is the certificate from now on.
    fn identity_changed(&self, identity: Option<&Arc<Identity>>);
}

/// What is decided under a lock, which is never held while anything waits.
#[derive(Default)]
pub(crate) struct Desk {
    /// The run of the plugin that is in flight.
    in_flight: Option<Waiter<Outcome>>,
    patience: Patience,
    /// From when on a use of the current credential starts a run in the background, once it is time for that at all; never if
    /// it is `None`.
    refresh_from: Option<SystemTime>,
    /// The server's answer to the credential that was invalidated last, for plugins that are told of it.
    refusal: Option<ExecResponse>,
}

impl Authenticator {
    pub(crate) fn new(
        plugin: Plugin,
        world: World,
        behaviour: Behaviour,
        metrics: Metrics,
    ) -> Self {
        let inner = Inner {
            plugin,
            world,
            behaviour,
            metrics,
            current: ArcSwapOption::empty(),
            accepted: AtomicU64::new(0),
            invalidated: AtomicU64::new(0),
            desk: Mutex::default(),
            observers: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The credential, if there is one that can be used now without waiting.
    pub fn ready(&self) -> Option<Arc<Credential>> {
        let current = self.inner.current.load();
        let credential = current.as_ref().filter(|credential| self.is_usable(credential))?;
        Some(Arc::clone(credential))
    }

    /// The credential: the one that is there, that of the run under way, or that of a new run.
    ///
    /// One that was invalidated is replaced first. If that fails, or must wait, it is used again until it expires: the server
    /// may have changed its mind.
    ///
    /// Must be called within a tokio runtime. Who stops waiting does not stop the run.
    pub async fn credential(&self) -> Result<Arc<Credential>, AuthError> {
        if let Some(credential) = self.ready() {
            return Ok(credential);
        }
        let Some((invalidated, refusal)) = self.invalidated() else {
            return self.obtain(Cause::Missing).await;
        };
        let replaced = self.obtain(Cause::Refused(invalidated.generation(), refusal)).await;
        Ok(replaced.unwrap_or_else(|error| {
            self.log_not_replaced(&error);
            invalidated
        }))
    }

    /// The server refused a credential with 401: a new one, unless there is one already.
    pub async fn refused(&self, generation: u64) -> Result<Arc<Credential>, AuthError> {
        self.obtain(Cause::Refused(generation, None)).await
    }

    /// The same, with the server's answer.
    pub(crate) async fn refused_with(
        &self,
        generation: u64,
        response: Option<ExecResponse>,
    ) -> Result<Arc<Credential>, AuthError> {
        self.obtain(Cause::Refused(generation, response)).await
    }

    /// Whether its plugin is told of the server's answer: those of v1alpha1 were.
    pub(crate) fn passes_refusals_on(&self) -> bool {
        self.inner.plugin.version() == ExecVersion::V1Alpha1
    }

    /// The server accepted a credential: any answer but 401.
    pub fn accepted(&self, generation: u64) {
        if self.inner.accepted.load(Ordering::Relaxed) < generation {
            self.inner.accepted.fetch_max(generation, Ordering::Relaxed);
        }
        self.revalidate(generation);
    }

    /// Whether a server has accepted a credential, or a newer one.
    pub(crate) fn has_been_accepted(&self, generation: u64) -> bool {
        self.inner.accepted.load(Ordering::Relaxed) >= generation
    }

    /// Has somebody told of each new certificate, for as long as they are there.
    pub fn observe(&self, observer: Weak<dyn IdentityObserver>) {
        let mut observers = self.inner.observers();
        observers.retain(|each| each.strong_count() > 0);
        observers.push(observer);
    }

    /// How it behaves.
    pub fn behaviour(&self) -> &Behaviour {
        &self.inner.behaviour
    }

    /// What it runs.
    pub fn config(&self) -> &ExecConfig {
        self.inner.plugin.config()
    }

    /// The command that it runs, as it is looked for.
    pub fn command(&self) -> &str {
        self.inner.plugin.command()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The current credential, good or not.
    pub(crate) fn current(&self) -> Option<Arc<Credential>> {
        self.inner.current.load_full()
    }

    /// Whether nobody else has it, nor runs it.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Whether a credential may be used now. Using one that ends soon has a new one fetched.
    fn is_usable(&self, credential: &Credential) -> bool {
        let now = self.inner.world.clock.now();
        let is_usable = !self.is_invalidated(credential) && credential.is_usable(now);
        if is_usable && credential.ends_soon(now) {
            self.refresh_ahead(now);
        }
        is_usable
    }
}

/// Whether they are the same, not whether they are alike.
impl PartialEq for Authenticator {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Inner {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observers(&self) -> MutexGuard<'_, Vec<Weak<dyn IdentityObserver>>> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The command and the generation: nothing of what it is given.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generation = self.current.load().as_ref().map(|current| current.generation());
        f.debug_struct("Authenticator")
            .field("command", &self.plugin.command())
            .field("generation", &generation)
            .finish_non_exhaustive()
    }
}
