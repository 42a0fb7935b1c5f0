//! A cluster of one node, three pods and the roles that let the node pull for two of them.

use keyfob_control::{grant::Grant, objects::Objects};
use keyfob_host::{PodIdentity, PodReference};
use keyfob_playground::embedded::{ApiServer, Options, Running};

use super::node::told;

/// For whom pods' tokens are that the registry takes.
pub(super) const AUDIENCE: &str = "registry.demo";
/// Where the pods run.
pub(super) const NODE: &str = "node-1";

/// A pod, and the service account of the same name that it runs as.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pod {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
}

/// Its team's images are in the registry.
pub(super) const WEB: Pod = Pod { namespace: "team-a", name: "web" };
/// It has no business with other teams' images.
pub(super) const BATCH: Pod = Pod { namespace: "team-b", name: "batch" };
/// It is new, and nobody has allowed the node to ask for its tokens.
pub(super) const REPORT: Pod = Pod { namespace: "team-c", name: "report" };

pub(super) const PODS: [Pod; 3] = [WEB, BATCH, REPORT];

impl Pod {
    /// As whom it pulls.
    pub(super) fn identity(self) -> PodIdentity {
        PodIdentity {
            namespace: self.namespace.to_owned(),
            service_account: self.name.to_owned(),
            pod: Some(PodReference { name: self.name.to_owned(), uid: self.uid() }),
        }
    }

    /// Its service account, as people write it.
    pub(super) fn account(self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The role that allows nodes to ask for its tokens, as `keyfob audience rbac` prints it.
    pub(super) fn role(self) -> Result<String, String> {
        let grant = Grant {
            node: None,
            namespace: Some(self.namespace.to_owned()),
            service_account: Some(self.name.to_owned()),
            audience: AUDIENCE.to_owned(),
        };
        grant.yaml().map_err(told)
    }

    pub(super) fn uid(self) -> String {
        format!("uid-of-{}", self.name)
    }

    /// Pod and service account.
    fn manifest(self) -> String {
        let Self { namespace, name } = self;
        let uid = self.uid();
        format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: {namespace}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, uid: {uid}}}\n\
             spec: {{nodeName: {NODE}, serviceAccountName: {name}, containers: []}}\n---\n"
        )
    }
}

/// An API server that knows the pods.
pub(super) async fn start() -> Result<Running, String> {
    let manifests: String = PODS.iter().map(|pod| pod.manifest()).collect();
    let text = format!("{manifests}{}---\n{}", WEB.role()?, BATCH.role()?);
    let objects = Objects::read_text(text, "the demo's").map_err(told)?;
    let server = ApiServer::start(Options { objects, ..Options::default() }).await;
    server.map_err(told)
}
