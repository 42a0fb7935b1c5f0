//! A webhook that is asked without a network, and the facts that it learns.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use keyfob_control::{
    facts::FactSource,
    rule::{Facts, Found, Opinion, Question},
    webhook::{Health, Options, router},
};
use keyfob_exec::BoxFuture;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::pki::Pki;

/// In every object that is sent, and to be seen nowhere.
pub(crate) const TOKEN: &str = "hunter2-token";

/// What the API server puts in the place of no audience.
pub(crate) const API: &str = "https://api.example";

/// A cluster with one pod `app` on the node `n`, whose volumes project a token for `vault`, and one for no audience.
#[derive(Clone, Default)]
pub(crate) struct World {
    /// What the authorizer says; nothing means no.
    pub(crate) opinion: Opinion,
    /// Why it cannot be asked, if it cannot.
    pub(crate) down: Option<&'static str>,
    /// How long each answer takes.
    pub(crate) delay: Duration,
}

impl FactSource for World {
    fn learn<'a>(&'a self, question: Question, facts: &'a mut Facts) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            match (self.down, question) {
                (Some(why), question) => facts.give_up(question, why),
                (None, Question::Pod(namespace, name)) => {
                    let found = pods().remove(&name).map_or(Found::No, |pod| {
                        Found::Yes(Box::new(serde_json::from_value(pod).unwrap()))
                    });
                    facts.pods.insert((namespace, name), found);
                }
                (None, Question::Authorizer(access)) => {
                    facts.authorizer.insert(access.audience, self.opinion.clone());
                }
                (None, other) => panic!("nobody should ask for {other:?}"),
            }
        })
    }
}

fn pods() -> BTreeMap<String, Value> {
    let sources = json!([
        {"serviceAccountToken": {"audience": "vault", "path": "token"}},
        {"serviceAccountToken": {"path": "mounted"}},
    ]);
    let pod = json!({
        "metadata": {"name": "app", "namespace": "team", "uid": "u1"},
        "spec": {
            "nodeName": "n",
            "containers": [],
            "volumes": [{"name": "tokens", "projected": {"sources": sources}}],
        },
    });
    BTreeMap::from([("app".to_owned(), pod)])
}

/// The webhook of a world.
pub(crate) struct Webhook {
    pub(crate) router: Router,
    pub(crate) health: Arc<Health>,
    pub(crate) pki: Pki,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Webhook {
    /// It knows the audience of its API server.
    pub(crate) fn new(world: World, mut options: Options) -> Self {
        options.policy.api_audiences = vec![API.to_owned()];
        Self::ignorant(world, options)
    }

    /// It has yet to learn the audience of its API server.
    pub(crate) fn ignorant(world: World, options: Options) -> Self {
        let pki = Pki::new();
        let health = Health::new(pki.load(), Duration::from_secs(30));
        let router = router(Arc::new(world), options, Arc::clone(&health));
        Self { router, health, pki }
    }

    /// The `response` to a review.
    pub(crate) async fn review(&self, review: &Value) -> Value {
        self.review_at("/validate", review).await
    }

    pub(crate) async fn review_at(&self, path: &str, review: &Value) -> Value {
        let said = self.post(path, "application/json", review.to_string()).await;
        assert_eq!(said.status, StatusCode::OK, "{}", said.text);
        let mut answer: Value = serde_json::from_str(&said.text).unwrap();
        let response = answer.as_object_mut().unwrap().remove("response").unwrap();
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"});
        assert_eq!(answer, review);
        response
    }

    pub(crate) async fn post(&self, path: &str, content_type: &str, body: String) -> Said {
        let request = Request::post(path).header("content-type", content_type);
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Said {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    async fn send(&self, request: Request<Body>) -> Said {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Said { status, text: String::from_utf8(body.to_vec()).unwrap() }
    }
}

/// The node `n` asks for a token of `team/builder` for the pod `app`.
pub(crate) fn asking_for(audience: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-1",
            "kind": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
            "resource": {"group": "", "version": "v1", "resource": "serviceaccounts"},
            "subResource": "token",
            "name": "builder",
            "namespace": "team",
            "operation": "CREATE",
            "userInfo": {"username": "system:node:n", "groups": ["system:nodes"]},
            "object": {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "metadata": {},
                "spec": {
                    "audiences": [audience],
                    "expirationSeconds": 3600,
                    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": "u1"},
                },
                "status": {"token": TOKEN, "expirationTimestamp": null},
            },
            "oldObject": null,
            "dryRun": false,
        },
    })
}
