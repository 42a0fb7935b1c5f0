//! An API server, real or embedded, and those who ask it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use http::Request;
use keyfob_api::Secret;
use kube::{
    Client, Config, Error,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

/// Who may do everything.
pub(crate) const ADMIN: &str = "admin";

/// The group of roles and their bindings.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// A server and its users: an administrator, and nodes by their names.
pub(crate) struct Api {
    kubeconfigs: PathBuf,
    clients: BTreeMap<String, Client>,
    patience: Duration,
    /// How a refusal of an audience begins, if a webhook speaks it.
    pub(crate) prefix: String,
}

/// What a server says instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Api {
    /// The folder has a kubeconfig for every user, under the user's name. Patience is for a server that learns of new objects
    /// a little later.
    pub(crate) async fn open(kubeconfigs: &Path, patience: Duration) -> Self {
        let mut clients = BTreeMap::new();
        for entry in fs::read_dir(kubeconfigs).unwrap() {
            let path = entry.unwrap().path();
            let user = path.file_name().unwrap().to_str().unwrap().to_owned();
            clients.insert(user, client(&path).await);
        }
        Self { kubeconfigs: kubeconfigs.to_owned(), clients, patience, prefix: String::new() }
    }

    pub(crate) fn kubeconfig(&self, user: &str) -> String {
        self.kubeconfigs.join(user).to_str().unwrap().to_owned()
    }

    pub(crate) fn client(&self, user: &str) -> Client {
        self.clients.get(user).unwrap_or_else(|| unreachable!("no user {user}")).clone()
    }

    /// Asks until the answer is the expected one; when patience ends, whatever it is.
    pub(crate) async fn until<T, F: Future<Output = T>>(
        &self,
        ask: impl Fn() -> F,
        expected: impl Fn(&T) -> bool,
    ) -> T {
        let started = Instant::now();
        loop {
            let answer = ask().await;
            if expected(&answer) || started.elapsed() >= self.patience {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the server made of an object that was given to it.
    pub(crate) async fn create(&self, object: &Value) -> Value {
        match self.post(ADMIN, &collection(object), object).await {
            Ok(created) => created,
            Err(refusal) => unreachable!("{refusal:?} for {object}"),
        }
    }

    pub(crate) async fn get(&self, user: &str, path: &str) -> Result<Value, Refusal> {
        let request = Request::get(path).body(Vec::new()).unwrap();
        self.client(user).request(request).await.map_err(refusal)
    }

    pub(crate) async fn post(
        &self,
        user: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, Refusal> {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).unwrap();
        self.client(user).request(request).await.map_err(refusal)
    }

    /// A token of a service account.
    pub(crate) async fn token(
        &self,
        user: &str,
        namespace: &str,
        account: &str,
        request: &Value,
    ) -> Result<Secret<String>, Refusal> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = self.post(user, &path, request).await?;
        Ok(Secret::new(answer["status"]["token"].as_str().unwrap().to_owned()))
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

/// The path under which objects of this kind are created.
fn collection(object: &Value) -> String {
    let group = match object["apiVersion"].as_str().unwrap() {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{kind}s"),
        None => format!("{group}/{kind}s"),
    }
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Api(status) => Refusal { code: status.code, message: status.message },
        error => Refusal { code: 0, message: error.to_string() },
    }
}

/// An object with one field beside its name; no namespace if that is empty.
pub(crate) fn object(kind: &str, namespace: &str, name: &str, field: &str, value: &Value) -> Value {
    let version = match kind {
        "CSIDriver" => "storage.k8s.io/v1".to_owned(),
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => format!("{RBAC}/v1"),
        _ => "v1".to_owned(),
    };
    let mut object =
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, field: value});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// A pod that runs on a node as a service account, whose token it does not mount.
pub(crate) fn pod(
    namespace: &str,
    name: &str,
    node: &str,
    account: &str,
    volumes: &Value,
) -> Value {
    let spec = json!({
        "serviceAccountName": account,
        "automountServiceAccountToken": false,
        "nodeName": node,
        "containers": [{"name": "app", "image": "registry.example/app"}],
        "volumes": volumes,
    });
    object("Pod", namespace, name, "spec", &spec)
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}
