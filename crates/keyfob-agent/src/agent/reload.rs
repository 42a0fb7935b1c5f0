//! Replacing the configuration while the agent serves. Reading files and looking up users may take long on a slow disk or with a slow
//! name service, so all of it is called on threads that may block.

use std::{
    path::Path,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::SystemTime,
};

use keyfob_agent_config::AgentConfig;
use keyfob_api::Chain;
use keyfob_config::{ValidConfig, ValidProvider};
use keyfob_exec::read_bounded;
use keyfob_host::Reloaded;

use super::{AgentError, Shared, read_providers};
use crate::{
    status::{Moment, ReloadRecord},
    watch_files::FileContents,
};

/// What became of the configuration since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) hash: Option<String>,
    /// When the configuration that is in use was read, if that was after the start.
    pub(crate) loaded: Option<SystemTime>,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) last: Option<LastReload>,
    /// Fields that changed and take effect only after a restart.
    pub(crate) restart_needed: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct LastReload {
    pub(crate) time: SystemTime,
    pub(crate) error: Option<String>,
}

impl Shared {
    pub(crate) fn reload(&self) -> Result<Reloaded, AgentError> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        // Before they are read: what changes in between is noticed by whoever watches the files.
        let tried = FileContents::read(&self.path, &self.config());
        *self.files_tried.lock().unwrap_or_else(PoisonError::into_inner) = Some(tried);
        let replaced = self.replace();
        self.metrics.reloaded(replaced.is_ok());
        let mut reloads = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        let error = match &replaced {
            Ok(_) => {
                reloads.succeeded += 1;
                None
            }
            Err(error) => {
                reloads.failed += 1;
                let error = Chain(error).to_string();
                tracing::error!(error, "the new configuration is not used; the old one stays");
                Some(error)
            }
        };
        let time = self.clock.now();
        self.history.reloaded(ReloadRecord {
            time: Moment(time),
            error: error.clone(),
            provider_config_hash: reloads.hash.clone(),
            started: replaced.as_ref().map(|each| each.started.clone()).unwrap_or_default(),
            removed: replaced.as_ref().map(|each| each.removed.clone()).unwrap_or_default(),
        });
        reloads.last = Some(LastReload { time, error });
        replaced
    }

    /// What the files contained when somebody last tried to use them; nothing if nobody has since the agent was started.
    pub(crate) fn files_tried(&self) -> Option<FileContents> {
        self.files_tried.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self) -> Result<Reloaded, AgentError> {
        let config = AgentConfig::read(&self.path)?;
        let providers = read_providers(&config, self.gates)?;
        let hash = providers.hash().map(str::to_owned);
        warn_of_unknown_providers(&self.path, &providers);
        let reloaded = self.swap(config.clone(), |shared| shared.host.reload(providers))?;
        let restart_needed = restart_needed(&self.first_config, &config);
        if !restart_needed.is_empty() {
            tracing::warn!(
                fields = restart_needed.join(", "),
                "restart the agent for these fields to take effect"
            );
        }
        let mut reloads = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        (reloads.hash, reloads.loaded) = (hash, Some(self.clock.now()));
        reloads.restart_needed = restart_needed;
        drop(reloads);
        self.metrics.configured(&config, &self.host);
        Ok(reloaded)
    }

    /// Replaces providers and rules. Whoever asks meanwhile may get an answer of either providers, so rules that are older than the
    /// providers decide before, and rules that are newer decide after ([`Shared::next_config`]): both must allow it.
    pub(super) fn swap<T, E>(
        &self,
        config: AgentConfig,
        swap_providers: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let config = Arc::new(config);
        self.reloads_begun.fetch_add(1, Ordering::SeqCst);
        self.next_config.store(config.clone());
        let swapped = swap_providers(self);
        match &swapped {
            Ok(_) => self.config.store(config),
            Err(_) => self.next_config.store(self.config()),
        }
        self.reloads_ended.fetch_add(1, Ordering::SeqCst);
        swapped
    }

    /// The configuration whose rules decide whether an answer may be handed out.
    pub(crate) fn next_config(&self) -> Arc<AgentConfig> {
        self.next_config.load_full()
    }

    /// Counts the reloads that have ended: an answer that is asked for now is not older.
    pub(crate) fn reloads_ended(&self) -> u64 {
        self.reloads_ended.load(Ordering::SeqCst)
    }

    /// Whether at most one reload can have changed anything since so many had ended. After more, an answer may be of providers that
    /// neither the rules of then nor those of now are about.
    pub(crate) fn is_at_most_one_reload_later(&self, ended: u64) -> bool {
        self.reloads_begun.load(Ordering::SeqCst) <= ended + 1
    }
}

/// Logs names in rules that no provider has, with their places in the agent's file.
pub(super) fn warn_of_unknown_providers(path: &Path, providers: &ValidConfig) {
    let Ok(text) = read_bounded(path, AgentConfig::MAX_BYTES) else { return };
    let known: Vec<_> = providers.providers().iter().map(ValidProvider::name).collect();
    for problem in AgentConfig::unknown_providers(&path.to_string_lossy(), text.expose(), &known) {
        let help = problem.help.as_deref();
        tracing::warn!(%problem, help, "a rule names a provider that does not exist");
    }
}

/// The fields that changed since the start and are read only then.
fn restart_needed(old: &AgentConfig, new: &AgentConfig) -> Vec<&'static str> {
    let changed = [
        ("pluginDirectory", old.plugin_directory != new.plugin_directory),
        ("nodeKubeconfig", old.cluster != new.cluster),
        ("stateDirectory", old.state_directory != new.state_directory),
        (
            "listeners",
            (&old.agent_socket, &old.admin_socket, &old.http_address, &old.http_socket)
                != (&new.agent_socket, &new.admin_socket, &new.http_address, &new.http_socket),
        ),
        ("audit", old.audit != new.audit),
        ("limits.connections", old.limits.connections != new.limits.connections),
        ("limits.bodyBytes", old.limits.body_bytes != new.limits.body_bytes),
        (
            "limits.pluginRunsPerProvider",
            old.limits.plugin_runs_per_provider != new.limits.plugin_runs_per_provider,
        ),
        ("warm.refreshAhead", old.warm.refresh_ahead != new.warm.refresh_ahead),
    ];
    changed.into_iter().filter_map(|(field, changed)| changed.then_some(field)).collect()
}
