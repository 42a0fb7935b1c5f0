//! From what was typed to the context that counts, and which plugins may be run for it.
//!
//! Upstream: the flags of kubectl.
//! Differs: `--kubeconfig` takes a list too; a user that a context names must be there (kubectl goes on as nobody); a kuberc
//! that cannot be read is no obstacle where no plugin would be run.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyfob_api::SecretSet;
use keyfob_client::{
    Authenticator, Authenticators, ClientConfig, ClientError, Clients, Kubeconfig, Kuberc,
    LoadingRules, NotFound, Overrides, Selection, UnusableConfig,
};
use keyfob_exec::{Environment, SystemEnvironment, printable};
use kube::Client;

use super::{auth_provider::UnsupportedAuthProvider, failure::KubeFailure};
use crate::match_images::shown;

/// What was asked for: which files, and what is said against them.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) rules: LoadingRules,
    pub(crate) overrides: Overrides,
    /// The file of the policy, if somebody named one.
    pub(crate) kuberc: Option<PathBuf>,
}

/// The kubeconfigs of a list, of which one alone must be there; or those of the environment.
pub(crate) fn kubeconfigs(list: Option<&OsStr>, environment: &dyn Environment) -> LoadingRules {
    let Some(list) = list else { return LoadingRules::from_environment(environment) };
    let rules = LoadingRules::from_list(list);
    match rules.precedence.as_slice() {
        [one] => LoadingRules::from_file(one),
        _ => rules,
    }
}

/// What counts.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) selection: Selection,
    /// With the policy, if there is one.
    pub(crate) config: ClientConfig,
    pub(crate) kuberc: Option<Kuberc>,
}

impl Wanted {
    /// Reads the files, and finds what counts in them.
    pub(crate) fn choose(&self, environment: &dyn Environment) -> Result<Chosen, KubeFailure> {
        self.choose_from(&self.load()?, environment)
    }

    /// Reads the files. They must say something, unless that was typed.
    pub(super) fn load(&self) -> Result<Kubeconfig, KubeFailure> {
        let kubeconfig = self.rules.load()?;
        let says_something = !kubeconfig.contexts.is_empty()
            || !kubeconfig.clusters.is_empty()
            || !kubeconfig.users.is_empty()
            || !kubeconfig.current_context.is_empty()
            || !self.overrides.cluster.server.is_empty();
        if says_something {
            return Ok(kubeconfig);
        }
        let missing = kubeconfig.missing.iter().map(|path| format!("{} is missing", named(path)));
        let empty = sources(&kubeconfig).map(|path| format!("{} says nothing", named(path)));
        let looked = missing.chain(empty).collect::<Vec<_>>().join(", ");
        Err(KubeFailure::Nothing { looked })
    }

    /// Finds what counts in files that were read.
    pub(crate) fn choose_from(
        &self,
        kubeconfig: &Kubeconfig,
        environment: &dyn Environment,
    ) -> Result<Chosen, KubeFailure> {
        let selection = self.select(kubeconfig)?;
        let mut config = kubeconfig.client_config(&self.overrides)?;
        let kuberc = match Kuberc::load(self.kuberc.as_deref(), environment) {
            Ok(kuberc) => kuberc,
            // Nothing will be run, so nobody needs to know what may be.
            Err(_) if config.exec.is_none() && self.kuberc.is_none() => None,
            Err(error) => return Err(error.into()),
        };
        if let (Some(exec), Some(kuberc)) = (&mut config.exec, &kuberc) {
            exec.policy = kuberc.policy().clone();
        }
        Ok(Chosen { selection, config, kuberc })
    }

    /// The context, its cluster and its user. Whatever has a name must be there.
    pub(super) fn select(&self, kubeconfig: &Kubeconfig) -> Result<Selection, KubeFailure> {
        let selection = kubeconfig.select(&self.overrides).map_err(|error| match error {
            NotFound::Cluster(name) => missing(kubeconfig, "cluster", &name, &kubeconfig.clusters),
            NotFound::User(name) => missing(kubeconfig, "user", &name, &kubeconfig.users),
            NotFound::Context(name) => missing(kubeconfig, "context", &name, &kubeconfig.contexts),
            // No other is known.
            other => KubeFailure::Config(other.into()),
        })?;
        let has_server = !selection.cluster.server.is_empty();
        let Selection { context_name, cluster_name, user_name, .. } = &selection;
        if context_name.is_empty() && !has_server {
            let (files, known) = (files(kubeconfig), names(&kubeconfig.contexts));
            return Err(KubeFailure::NoContext { files, known });
        }
        if is_missing(context_name, &kubeconfig.contexts) {
            return Err(missing(kubeconfig, "context", context_name, &kubeconfig.contexts));
        }
        if is_missing(cluster_name, &kubeconfig.clusters) && !has_server {
            return Err(missing(kubeconfig, "cluster", cluster_name, &kubeconfig.clusters));
        }
        if is_missing(user_name, &kubeconfig.users) {
            return Err(missing(kubeconfig, "user", user_name, &kubeconfig.users));
        }
        Ok(selection)
    }
}

fn is_missing<T>(name: &str, entries: &BTreeMap<String, T>) -> bool {
    !name.is_empty() && !entries.contains_key(name)
}

fn missing<T>(
    kubeconfig: &Kubeconfig,
    what: &'static str,
    name: &str,
    entries: &BTreeMap<String, T>,
) -> KubeFailure {
    let (files, name) = (files(kubeconfig), name.to_owned());
    KubeFailure::Missing { files, what, name, known: names(entries) }
}

/// The first of them, if there are many.
fn names<T>(entries: &BTreeMap<String, T>) -> String {
    const MOST: usize = 20;
    let names = entries.keys().take(MOST).map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    match entries.len().checked_sub(MOST) {
        None | Some(0) if names.is_empty() => "none".into(),
        None | Some(0) => names,
        Some(more) => names + &format!(" and {more} more"),
    }
}

fn sources(kubeconfig: &Kubeconfig) -> impl Iterator<Item = &Path> {
    kubeconfig.sources.iter().filter_map(|source| source.path.as_deref())
}

/// As they would be written into `$KUBECONFIG`.
fn files(kubeconfig: &Kubeconfig) -> String {
    sources(kubeconfig).map(named).collect::<Vec<_>>().join(":")
}

pub(super) fn named(path: &Path) -> String {
    shown(&path.to_string_lossy()).into_owned()
}

impl Chosen {
    /// Tells at once what stands in the kuberc and means nothing, before a plugin is run that it was perhaps to forbid.
    pub(crate) fn warn(&self) {
        let Some(kuberc) = self.kuberc.as_ref().filter(|_| self.config.exec.is_some()) else {
            return;
        };
        let path = named(kuberc.path());
        let line = |warning: &String| format!("keyfob: warning: kuberc {path}: {warning}\n");
        let warnings: String = kuberc.warnings().iter().map(line).collect();
        // There is nowhere left to complain to.
        io::stderr().write_all(printable(&warnings).as_bytes()).unwrap_or_default();
    }
}

/// A cluster, and somebody who asks it.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) chosen: Chosen,
    clients: Clients,
}

impl Cluster {
    pub(crate) fn new(chosen: Chosen, authenticators: Authenticators) -> Self {
        Self { chosen, clients: Clients::new(authenticators, Arc::new(SystemEnvironment)) }
    }

    /// Who gets the user's credential, if that comes from a plugin.
    pub(crate) fn authenticator(&self) -> Result<Option<Authenticator>, KubeFailure> {
        self.clients.authenticator(&self.chosen.config).map_err(|error| self.failure(error))
    }

    /// What the server has been shown so far; it may repeat it.
    pub(crate) fn secrets(&self) -> &SecretSet {
        self.clients.secrets()
    }

    /// A client, and the address that it asks. It tells what the server says, and asks nothing twice by itself.
    pub(crate) fn connect(&self) -> Result<(Client, String), KubeFailure> {
        let mut server = String::new();
        let client = self.clients.connect_with(&self.chosen.config, |config| {
            // How long an answer may take is for whoever asks.
            config.connect_timeout = Some(Duration::from_secs(5));
            config.default_retry = false;
            server = config.cluster_url.to_string();
        });
        Ok((client.map_err(|error| self.failure(error))?, server))
    }

    /// Why there is no client, and for whom.
    fn failure(&self, error: ClientError) -> KubeFailure {
        match error {
            ClientError::Config(UnusableConfig::AuthProvider(provider)) => {
                let unsupported = UnsupportedAuthProvider::new(&self.chosen.selection, provider);
                KubeFailure::AuthProvider(Box::new(unsupported))
            }
            other => other.into(),
        }
    }
}
