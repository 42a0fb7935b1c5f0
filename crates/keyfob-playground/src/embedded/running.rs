//! A server that runs, for whoever started it.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use keyfob_api::Secret;
use keyfob_control::objects::Kind;
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle};

use super::{Api, kubeconfig::kubeconfig, users::User};

/// A running API server. It stops when it is dropped.
#[derive(Debug)]
pub struct Running {
    pub(super) api: Arc<Api>,
    pub(super) authority: String,
    pub(super) stop: watch::Sender<bool>,
    pub(super) task: JoinHandle<()>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.api.address
    }

    /// Whose tokens it signs, and the audience that stands for the server itself.
    pub fn issuer(&self) -> &str {
        &self.api.issuer
    }

    /// The certificate of the authority that its clients are to trust, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A kubeconfig of somebody who may do everything.
    pub fn admin_kubeconfig(&self) -> Option<Secret<String>> {
        self.kubeconfig(User::admin())
    }

    /// A kubeconfig of a node's kubelet.
    pub fn node_kubeconfig(&self, node: &str) -> Option<Secret<String>> {
        self.kubeconfig(User::node(node))
    }

    /// From now on a token of one of its kubeconfigs is refused. Says whether there was one.
    pub fn revoke(&self, token: &Secret<String>) -> bool {
        self.api.tokens.revoke(token)
    }

    /// Every node that is there, or that a pod is on.
    pub fn nodes(&self) -> BTreeSet<String> {
        let objects = self.api.store.snapshot().objects;
        let nodes = objects.list(Kind::Node).map(|(_, name, _)| name.to_owned());
        let pods = objects.list(Kind::Pod).filter_map(|(_, _, pod)| {
            pod.pointer("/spec/nodeName").and_then(Value::as_str).map(str::to_owned)
        });
        nodes.chain(pods).filter(|name| !name.is_empty()).collect()
    }

    /// Ends it, and waits until it has ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // A task that panicked has ended, too.
        self.task.await.unwrap_or_default();
    }

    /// Nothing, if the system gives no random numbers.
    fn kubeconfig(&self, user: User) -> Option<Secret<String>> {
        let name = user.name.clone();
        let token = self.api.tokens.issue(user).ok()?;
        Some(kubeconfig(self.api.host, &self.authority, &name, &token))
    }
}
