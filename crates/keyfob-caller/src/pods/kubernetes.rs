//! Pods from the API server, as a kubelet sees them.
//!
//! A pod's uid never gets another name or service account, so what was listed once stays right. An unknown uid causes a new
//! listing, at most one a second, and callers that come meanwhile wait for it. A listing that began before a caller asked may be older
//! than the caller's pod. If the pod is not in it, the caller waits for the next one, and no longer than that. Answers are read here and not by `kube`, which reads them
//! without a bound and logs those that it cannot decode: of a pod, only its name and service account are of interest, and its
//! environment may have secrets.
//!
//! Static pods are not recognised. Their cgroups have the hash of their manifest and not the uid of their mirror pod, which only names it in
//! the annotation `kubernetes.io/config.hash`. Whoever may create pods with a `spec.nodeName` can set that annotation,
//! `kubernetes.io/config.mirror` and an owner of kind `Node` too: none of them proves that a kubelet wrote it. And a static pod has no
//! service account under which anything could be decided or requested.

mod listing;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use keyfob_api::SecretSet;
use keyfob_exec::{BoxFuture, single_flight::Group};
use kube::Client;
use tokio::time::{Instant, sleep_until, timeout};

use self::listing::{ListingError, list};
use super::{NodePod, NodePods, PodsUnavailable};

/// The least time between two listings.
const LISTING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a listing may take.
const LISTING_TIMEOUT: Duration = Duration::from_secs(10);

type PodsByUid = HashMap<String, Arc<NodePod>>;
type Listed = Result<Listing, PodsUnavailable>;

/// When a listing that succeeded began and ended.
#[derive(Clone, Copy, Debug)]
struct Listing {
    began: Instant,
    ended: Instant,
}

/// The pods of a node, from the API server.
pub struct KubernetesPods {
    listings: Group<Listed>,
    node: Arc<Node>,
}

/// What a listing needs that goes on although nobody waits for it any more.
struct Node {
    client: Client,
    name: String,
    /// What the server was shown: it must not come back in an error.
    secrets: SecretSet,
    known: RwLock<PodsByUid>,
    /// When the last listing ended, and how.
    last: Mutex<Option<(Instant, Listed)>>,
}

impl KubernetesPods {
    /// Lists the pods of this node with this client.
    pub fn new(client: Client, node: impl Into<String>, secrets: SecretSet) -> Self {
        let (known, last) = (RwLock::default(), Mutex::default());
        let node = Node { client, name: node.into(), secrets, known, last };
        Self { listings: Group::default(), node: Arc::new(node) }
    }

    /// The pod with this uid. A pod that is new may be missing in a listing that began before this was called, so that is followed by one
    /// more. Between two listings nothing else is listed, so the second one began after this was called.
    async fn find(&self, uid: &str) -> Result<Option<Arc<NodePod>>, PodsUnavailable> {
        if is_of_static_pod(uid) {
            return Ok(None);
        }
        let asked = Instant::now();
        if let Some(pod) = self.node.known(uid) {
            return Ok(Some(pod));
        }
        let listing = self.listed().await?;
        let found = self.node.known(uid);
        if found.is_some() || listing.began >= asked {
            return Ok(found);
        }
        sleep_until(listing.ended + LISTING_INTERVAL).await;
        self.listed().await?;
        Ok(self.node.known(uid))
    }

    /// Lists the pods, waits for the listing that is under way, or has the outcome of one that has just ended.
    async fn listed(&self) -> Listed {
        let (waiter, leader) = self.listings.join(b"");
        if let Some(leader) = leader {
            // One may have ended since the caller looked.
            if let Some(recent) = self.node.recent() {
                leader.finish(recent);
            } else {
                let node = self.node.clone();
                tokio::spawn(async move { leader.finish(node.list().await) });
            }
        }
        let lost = || Err(PodsUnavailable::new(ListingError::Lost));
        waiter.outcome().await.unwrap_or_else(lost)
    }
}

impl Node {
    fn known(&self, uid: &str) -> Option<Arc<NodePod>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// How the last listing ended, if it is too early for another one.
    fn recent(&self) -> Option<Listed> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, outcome) = last.as_ref()?;
        (at.elapsed() < LISTING_INTERVAL).then(|| outcome.clone())
    }

    /// What is learnt is stored before anybody is told.
    async fn list(&self) -> Listed {
        let began = Instant::now();
        let listed = timeout(LISTING_TIMEOUT, list(&self.client, &self.name, &self.secrets)).await;
        let listed = listed.unwrap_or(Err(ListingError::Late(LISTING_TIMEOUT)));
        let ended = Instant::now();
        let outcome = listed.map_err(PodsUnavailable::new).map(|pods| {
            let pods = pods.into_iter().map(|pod| (pod.uid.clone(), Arc::new(pod))).collect();
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = pods;
            Listing { began, ended }
        });
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((ended, outcome.clone()));
        outcome
    }
}

impl NodePods for KubernetesPods {
    fn pod<'a>(
        &'a self,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<NodePod>>, PodsUnavailable>> {
        Box::pin(self.find(uid))
    }
}

/// Whether a uid is the hash of a manifest. The API server gives every pod a UUID, so no listing has such a uid, and nobody waits for one.
fn is_of_static_pod(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Debug for KubernetesPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesPods").field("node", &self.node.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
