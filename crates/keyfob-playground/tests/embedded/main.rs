//! The embedded API server, asked by `kube` and by clients who mean it ill.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod access;
mod hostile;
mod objects;
mod tokens;

use std::sync::Arc;

use axum::http::{Method, Request};
use keyfob_control::objects::Objects;
use keyfob_playground::embedded::{ApiServer, Options, Running};
use keyfob_testkit::{LeakCheck, LogCapture, ManualClock};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1, uid: node-1}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: puller, namespace: team, uid: sa-1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: team, uid: pod-1, labels: {app: web}}
spec:
  nodeName: n1
  serviceAccountName: puller
  containers: [{name: web, image: web}]
  volumes:
    - {name: vault, projected: {sources: [{serviceAccountToken: {path: t, audience: vault}}]}}
    - {name: data, persistentVolumeClaim: {claimName: data}}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: team, uid: pod-2}
spec: {nodeName: n2, serviceAccountName: puller, containers: [{name: c, image: c}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: team}
spec: {volumeName: pv1}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv1}
spec: {csi: {driver: secrets.example, volumeHandle: x}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv2}
spec: {csi: {driver: secrets.example, volumeHandle: z}}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: secrets.example}
spec: {tokenRequests: [{audience: csi}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: registry-audience}
rules:
  - {apiGroups: [""], resources: [registry.example], verbs: [request-serviceaccounts-token-audience]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: registry-audience}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: registry-audience}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods, namespace: team}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pods}
subjects: [{kind: ServiceAccount, name: puller, namespace: team}]
"#;

/// A server, and what was logged while it ran.
struct Cluster {
    server: Running,
    clock: ManualClock,
    admin: Client,
    secrets: Vec<String>,
    logs: LogCapture,
}

impl Cluster {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let logs = LogCapture::start();
        let clock = ManualClock::default();
        let objects = Objects::read_text(CLUSTER, "cluster.yaml").unwrap();
        let options = Options { objects, clock: Arc::new(clock.clone()), ..options };
        let server = ApiServer::start(options).await.unwrap();
        let config = server.admin_kubeconfig().unwrap();
        let admin = client(config.expose()).await;
        let secrets = vec![token_of(config.expose())];
        Self { server, clock, admin, secrets, logs }
    }

    async fn node(&mut self, name: &str) -> Client {
        let config = self.server.node_kubeconfig(name).unwrap();
        self.secrets.push(token_of(config.expose()));
        client(config.expose()).await
    }

    /// Somebody who has only this token.
    async fn bearer(&mut self, token: &str) -> Client {
        let config = self.server.admin_kubeconfig().unwrap();
        let theirs = config.expose().replace(&token_of(config.expose()), token);
        client(&theirs).await
    }

    /// A token of `team/puller` bound to `web`.
    async fn token(&mut self, audience: &str) -> String {
        let request = token_request(&[audience]);
        let answer = post(&self.admin, &token_path("puller"), &request).await.unwrap();
        let token = answer["status"]["token"].as_str().unwrap().to_owned();
        self.secrets.push(token.clone());
        token
    }

    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        post(&self.admin, path, &review).await.unwrap()["status"].clone()
    }

    /// Nothing of what must not be seen was seen.
    async fn end(self) {
        let leaks = LeakCheck::new(self.secrets);
        leaks.text("the log", &self.logs.text()).debug("the server", &self.server);
        self.server.stop().await;
    }
}

async fn client(kubeconfig: &str) -> Client {
    let config = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

fn token_of(kubeconfig: &str) -> String {
    let config: Value = serde_json::from_str(kubeconfig).unwrap();
    config["users"][0]["user"]["token"].as_str().unwrap().to_owned()
}

fn token_path(account: &str) -> String {
    format!("/api/v1/namespaces/team/serviceaccounts/{account}/token")
}

fn token_request(audiences: &[&str]) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": audiences,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "pod-1"},
        },
    })
}

async fn call(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, String> {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    client.request(request.body(body).unwrap()).await.map_err(|error| match error {
        kube::Error::Api(status) => {
            format!("{} {}: {}", status.code, status.reason, status.message)
        }
        other => panic!("not a Status: {other}"),
    })
}

async fn get(client: &Client, path: &str) -> Result<Value, String> {
    call(client, Method::GET, path, &Value::Null).await
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<Value, String> {
    call(client, Method::POST, path, body).await
}

async fn delete(client: &Client, path: &str) -> Value {
    call(client, Method::DELETE, path, &Value::Null).await.unwrap()
}
