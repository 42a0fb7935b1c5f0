//! What makes two authenticators the same.

use std::hash::{Hash, Hasher};

use keyfob_api::ExecCluster;

use crate::ExecConfig;

/// A user's plugin, with everything that is said about it, and the cluster that it is told about.
///
/// As upstream: two clusters with the same user share an authenticator, unless the plugin is told about the cluster, or the
/// cluster has an extension for it.
#[derive(PartialEq, Eq)]
pub(super) struct Key {
    config: ExecConfig,
    cluster: Option<ExecCluster>,
}

impl Key {
    pub(super) fn new(config: &ExecConfig, cluster: Option<&ExecCluster>) -> Self {
        Self { config: config.clone(), cluster: cluster.cloned() }
    }
}

/// Equal ones hash alike; what usually differs is enough.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.config.hash(state);
        self.cluster.as_ref().map(|cluster| &cluster.server).hash(state);
    }
}
