//! One authenticator for each distinct user and cluster.
//!
//! Upstream: `globalCache` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: a value, not a global; compared as what they are, not as printed texts; of those that nobody uses any more only
//! the last few are kept (upstream keeps all for ever); v1alpha1 can be allowed.

mod key;
#[cfg(feature = "metrics")]
mod metrics;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keyfob_api::{ExecCluster, ExecVersion, Quoted};
use keyfob_exec::{
    Clock, Environment, ProcessRunner, ProcessTerminal, Runner, SystemClock, SystemEnvironment,
    Terminal,
};
use thiserror::Error;

use crate::{
    Authenticator, Behaviour, ExecConfig, Messages, PolicyError, authenticator::Plugin,
    metrics::Metrics,
};
use key::Key;

/// How many are kept that nobody uses: enough for a program that makes its clients anew all the time.
const MOST_IDLE: usize = 64;

/// The outside world of authenticators. Start with [`World::system`], and replace what shall be different.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct World {
    /// By which credentials expire.
    pub clock: Arc<dyn Clock>,
    /// Where `PATH` is.
    pub environment: Arc<dyn Environment>,
    /// Starts plugins, from that environment.
    pub runner: Arc<dyn Runner>,
    /// Whether a person could be asked.
    pub terminal: Arc<dyn Terminal>,
    /// Where what plugins say is shown.
    pub messages: Messages,
}

impl World {
    /// The world of this process.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            environment: Arc::new(SystemEnvironment),
            runner: Arc::new(ProcessRunner::new(SystemEnvironment)),
            terminal: Arc::new(ProcessTerminal),
            messages: Messages::default(),
        }
    }
}

/// The authenticators of a program. A clone shares them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use keyfob_client::{Authenticators, ExecConfig, InteractiveMode};
///
/// let answer = r#"{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "abc"}}"#;
/// let config = ExecConfig {
///     command: "echo".into(),
///     args: vec![answer.into()],
///     api_version: "client.authentication.k8s.io/v1".into(),
///     interactive_mode: InteractiveMode::Never,
///     ..ExecConfig::default()
/// };
/// let authenticator = Authenticators::system().get(&config, None)?;
///
/// let credential = authenticator.credential().await?;
/// assert_eq!(credential.token().unwrap().expose(), "abc");
/// assert_eq!(authenticator.ready().unwrap().generation(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Authenticators {
    shared: Arc<Shared>,
}

struct Shared {
    world: World,
    behaviour: Behaviour,
    metrics: Metrics,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    authenticators: HashMap<Key, Entry>,
    /// How often one was asked for.
    asked: u64,
}

struct Entry {
    authenticator: Authenticator,
    asked: u64,
}

impl Authenticators {
    /// Authenticators in a given world.
    pub fn new(world: World, behaviour: Behaviour) -> Self {
        let (metrics, known) = (Metrics::default(), Mutex::default());
        Self { shared: Arc::new(Shared { world, behaviour, metrics, known }) }
    }

    /// Authenticators of this process, as good as they can be.
    pub fn system() -> Self {
        Self::new(World::system(), Behaviour::default())
    }

    /// The one for a user and a cluster: equal arguments get the same, for as long as somebody has it, and for a while longer.
    /// No plugin is run yet.
    pub fn get(
        &self,
        config: &ExecConfig,
        cluster: Option<&ExecCluster>,
    ) -> Result<Authenticator, UnusableExec> {
        let version = self.version(&config.api_version)?;
        config.policy.validate().map_err(UnusableExec::Policy)?;
        let key = Key::new(config, cluster);
        let mut known = self.shared.known();
        known.asked += 1;
        let asked = known.asked;
        if let Some(entry) = known.authenticators.get_mut(&key) {
            entry.asked = asked;
            return Ok(entry.authenticator.clone());
        }
        let Shared { world, behaviour, metrics, .. } = &*self.shared;
        let plugin = Plugin::new(config.clone(), cluster.cloned(), version);
        let authenticator =
            Authenticator::new(plugin, world.clone(), behaviour.clone(), metrics.clone());
        known.forget_idle();
        known.authenticators.insert(key, Entry { authenticator: authenticator.clone(), asked });
        Ok(authenticator)
    }

    /// How they behave.
    pub fn behaviour(&self) -> &Behaviour {
        &self.shared.behaviour
    }

    /// Their world.
    pub fn world(&self) -> &World {
        &self.shared.world
    }

    fn version(&self, api_version: &str) -> Result<ExecVersion, UnusableExec> {
        match api_version.parse() {
            Ok(ExecVersion::V1Alpha1) if !self.shared.behaviour.v1alpha1 => None,
            parsed => parsed.ok(),
        }
        .ok_or_else(|| UnusableExec::ApiVersion(api_version.to_owned()))
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Makes room for one more, if others are idle: who was asked for longest ago goes first.
    fn forget_idle(&mut self) {
        let idle = self.authenticators.iter().filter(|(_, entry)| entry.authenticator.is_idle());
        let mut idle: Vec<u64> = idle.map(|(_, entry)| entry.asked).collect();
        if idle.len() >= MOST_IDLE {
            idle.sort_unstable();
            let newest_to_go = idle.get(idle.len() - MOST_IDLE).copied().unwrap_or_default();
            self.authenticators
                .retain(|_, entry| entry.asked > newest_to_go || !entry.authenticator.is_idle());
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticators")
            .field("known", &self.known().authenticators.len())
            .field("behaviour", &self.behaviour)
            .finish_non_exhaustive()
    }
}

/// Why a user's plugin can never be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnusableExec {
    /// Its version is none that is spoken here.
    #[error("exec plugin: invalid apiVersion {}", Quoted(.0))]
    ApiVersion(String),
    /// The policy cannot be meant. Upstream's sentence, so it is no source.
    #[error("invalid plugin policy: {0}")]
    Policy(PolicyError),
}
