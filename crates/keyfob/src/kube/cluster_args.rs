//! The flags that lead to a cluster, as whom, and with which plugin.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args;
use keyfob_api::GoDuration;
use keyfob_client::{Authenticators, Behaviour, Messages, Overrides, World};
use keyfob_exec::SystemEnvironment;

use super::{
    chosen::{Cluster, Wanted, kubeconfigs},
    failure::KubeFailure,
};
use crate::logging::LogArgs;

/// Which cluster, and as whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// The kubeconfigs: one, which must be there, or several with colons between them as in `$KUBECONFIG`. Without it:
    /// `$KUBECONFIG`, else `~/.kube/config`.
    #[arg(long, value_name = "PATHS")]
    kubeconfig: Option<OsString>,
    /// Another context than the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Another cluster than the context's.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Another user than the context's.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Another namespace than the context's.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Another address than the cluster's.
    #[arg(short, long, value_name = "URL")]
    server: Option<String>,
    /// The file that says which plugins may be run. Without it: `$KUBERC` (`off` for none), else `~/.kube/kuberc`. If it cannot
    /// be read, no plugin is run.
    #[arg(long, value_name = "FILE")]
    kuberc: Option<PathBuf>,
    /// After how long a plugin is killed that asks nobody; 0 is never.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    plugin_timeout: Duration,
    #[command(flatten)]
    pub(super) logging: LogArgs,
}

impl ClusterArgs {
    /// Finds the cluster. Nothing is run and nobody is asked yet. What plugins say on stderr goes to `messages`.
    pub(super) fn open(&self, messages: Messages) -> Result<Cluster, KubeFailure> {
        let chosen = self.wanted().choose(&SystemEnvironment)?;
        Ok(Cluster::new(chosen, self.authenticators(messages)))
    }

    pub(super) fn authenticators(&self, messages: Messages) -> Authenticators {
        let (mut world, mut behaviour) = (World::system(), Behaviour::default());
        world.messages = messages;
        behaviour.deadline = self.deadline();
        Authenticators::new(world, behaviour)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        Some(self.plugin_timeout).filter(|timeout| !timeout.is_zero())
    }

    pub(super) fn wanted(&self) -> Wanted {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mut overrides = Overrides::default();
        overrides.context_name = text(&self.context);
        overrides.context.cluster = text(&self.cluster);
        overrides.context.user = text(&self.user);
        overrides.context.namespace = text(&self.namespace);
        overrides.cluster.server = text(&self.server);
        let rules = kubeconfigs(self.kubeconfig.as_deref(), &SystemEnvironment);
        Wanted { rules, overrides, kuberc: self.kuberc.clone() }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = GoDuration::parse(text).map_err(|error| error.to_string())?;
    duration.to_std().ok_or_else(|| "no plugin is that fast: write a duration such as 30s".into())
}
