//! Which context, cluster and user count.
//!
//! Upstream: `getContext`, `getAuthInfo` and `getCluster` of `DirectClientConfig` in `clientcmd/client_config.go`.

use std::collections::BTreeMap;

use keyfob_api::Quoted;
use thiserror::Error;

use super::{Cluster, Context, Kubeconfig, User};

/// What a program says against its kubeconfig. Empty fields say nothing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Overrides {
    /// Another context than the current one (`--context`). It must exist.
    pub context_name: String,
    /// Another cluster (`--cluster`), user (`--user`) or namespace (`--namespace`) than the context's. They must exist.
    pub context: Context,
    /// Other settings than the cluster's: `--server`, `--certificate-authority`, `--insecure-skip-tls-verify` and so on.
    pub cluster: Cluster,
    /// Other settings than the user's: `--token`, `--as` and so on. A plugin is replaced as a whole.
    pub user: User,
}

/// What counts of a kubeconfig. Each part knows the file it comes from.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Selection {
    /// The context's name.
    pub context_name: String,
    /// The context; an empty one if there is none.
    pub context: Context,
    /// The cluster's name.
    pub cluster_name: String,
    /// The cluster; an empty one if there is none.
    pub cluster: Cluster,
    /// The user's name.
    pub user_name: String,
    /// The user; an empty one if there is none.
    pub user: User,
}

/// A name that a program gave, and nothing has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotFound {
    /// No context has it.
    #[error("context {} does not exist", Quoted(.0))]
    Context(String),
    /// No cluster has it.
    #[error("cluster {} does not exist", Quoted(.0))]
    Cluster(String),
    /// No user has it.
    #[error("auth info {} does not exist", Quoted(.0))]
    User(String),
}

impl Kubeconfig {
    /// The context with its cluster and user. Only a name that a program gave must exist; whether the rest can be used is not
    /// asked here.
    pub fn select(&self, overrides: &Overrides) -> Result<Selection, NotFound> {
        let context_name = or(&overrides.context_name, &self.current_context);
        let context = self.contexts.get(context_name).cloned().unwrap_or_default();
        let context = context.overridden(&overrides.context);
        // The names are in it already. Upstream misses the user first, then the context, then the cluster.
        let user = named(&self.users, &context.user, &overrides.context.user);
        let user = user.map_err(NotFound::User)?.overridden(&overrides.user);
        named(&self.contexts, context_name, &overrides.context_name).map_err(NotFound::Context)?;
        let cluster = named(&self.clusters, &context.cluster, &overrides.context.cluster);
        let cluster = cluster.map_err(NotFound::Cluster)?.overridden(&overrides.cluster);
        Ok(Selection {
            context_name: context_name.to_owned(),
            cluster_name: context.cluster.clone(),
            user_name: context.user.clone(),
            context,
            cluster,
            user,
        })
    }
}

fn or<'a>(name: &'a str, default: &'a str) -> &'a str {
    if name.is_empty() { default } else { name }
}

/// The entry of a name, an empty one if there is none; its name if a program asked for it.
fn named<T: Clone + Default>(
    entries: &BTreeMap<String, T>,
    name: &str,
    required: &str,
) -> Result<T, String> {
    match entries.get(name) {
        Some(entry) => Ok(entry.clone()),
        None if required.is_empty() => Ok(T::default()),
        None => Err(name.to_owned()),
    }
}
