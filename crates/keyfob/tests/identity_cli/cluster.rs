//! An API server that knows one pod and its service account, or fails as it is told to.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};

use crate::{
    api_server::{self, API_TOKEN, refusal},
    node::Node,
};

pub(crate) const AUDIENCE: &str = "registry.example";
/// The signature of the pod's token, and the token of the kubeconfig.
pub(crate) const SECRETS: [&str; 2] = ["hunter2-signature", API_TOKEN];
/// The first second of 2130.
const END: u64 = 5_049_129_600;

pub(crate) struct Cluster {
    internet: Internet,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        Self::answering(answer)
    }

    pub(crate) fn answering(
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Self {
        Self { internet: Internet::start(handler) }
    }

    pub(crate) fn url(&self) -> String {
        self.internet.url()
    }

    pub(crate) fn port(&self) -> u16 {
        self.internet.address().port()
    }

    /// The certificate to trust, in PEM, if it is asked over TLS.
    pub(crate) fn ca_pem(&self) -> &str {
        self.internet.ca_pem()
    }

    /// What the last request has shown.
    pub(crate) fn shown(&self) -> Option<String> {
        self.internet.requests().last().unwrap().header("authorization").map(str::to_owned)
    }

    /// Method and path of every request.
    pub(crate) fn asked(&self) -> Vec<String> {
        let requests = self.internet.requests().into_iter();
        requests.map(|request| format!("{} {}", request.method, request.path())).collect()
    }

    /// The last request's body.
    pub(crate) fn wanted(&self) -> Value {
        serde_json::from_str(&self.internet.requests().last().unwrap().body).unwrap()
    }

    /// Writes a kubeconfig, and says where.
    pub(crate) fn kubeconfig(&self, node: &Node) -> String {
        kubeconfig(node, &self.url())
    }
}

pub(crate) fn kubeconfig(node: &Node, server: &str) -> String {
    node.file("kubeconfig.json", &api_server::kubeconfig(server))
}

/// Where an API server says who asks.
pub(crate) const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// What an API server answers, to the node.
pub(crate) fn answer(request: &Request) -> Response {
    let answer = match request.path() {
        "/api/v1/namespaces/shop/serviceaccounts/cart" => account(),
        "/api/v1/namespaces/shop/serviceaccounts/cart/token" => json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": 3600},
            "status": {"token": pod_token(), "expirationTimestamp": "2130-01-01T00:00:00Z"},
        }),
        "/api/v1/namespaces/shop/pods/cart-1" => json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "cart-1", "namespace": "shop", "uid": "u-pod"},
            "spec": {"nodeName": "n1", "serviceAccountName": "cart", "containers": []},
        }),
        WHOAMI => json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
            "status": {"userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]}},
        }),
        path => return refusal(404, &format!("there is no {path}")),
    };
    Response::json(answer.to_string())
}

fn account() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {
            "name": "cart", "namespace": "shop", "uid": "u-sa",
            "annotations": {"example.com/role": "puller", "example.com/zone": "eu", "example.com/other": "x"},
        },
    })
}

/// The token of the pod, as a cluster would sign it.
pub(crate) fn pod_token() -> String {
    let claims = json!({
        "aud": [AUDIENCE], "exp": END, "iat": END - 3600, "iss": "https://cluster.example",
        "kubernetes.io": {
            "namespace": "shop",
            "node": {"name": "n1", "uid": "u-node"},
            "pod": {"name": "cart-1", "uid": "u-pod"},
            "serviceaccount": {"name": "cart", "uid": "u-sa"},
        },
        "sub": "system:serviceaccount:shop:cart",
    });
    format!("e30.{}.hunter2-signature", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}
