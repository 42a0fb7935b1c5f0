//! The pods of this node, by uid.

#[cfg(feature = "kube")]
mod kubernetes;

use std::{error::Error, fmt, sync::Arc};

use keyfob_exec::BoxFuture;

#[cfg(feature = "kube")]
pub use self::kubernetes::KubernetesPods;

/// A pod of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "whoever lists pods fills it in")]
pub struct NodePod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its service account.
    pub service_account: String,
}

/// Finds the pods of this node.
pub trait NodePods: fmt::Debug + Send + Sync {
    /// The pod with this uid; `Ok(None)` if no such pod is on this node.
    fn pod<'a>(
        &'a self,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<NodePod>>, PodsUnavailable>>;
}

/// The pods of this node cannot be listed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the pods of this node cannot be listed")]
pub struct PodsUnavailable {
    source: Arc<dyn Error + Send + Sync>,
}

impl PodsUnavailable {
    /// For this reason, in whose text and sources nothing is secret: callers are told.
    pub fn new(source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Arc::new(source) }
    }
}

/// The pods of a server without a cluster: none.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to know")]
pub struct NoPods;

impl NodePods for NoPods {
    fn pod<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<NodePod>>, PodsUnavailable>> {
        Box::pin(async { Ok(None) })
    }
}
