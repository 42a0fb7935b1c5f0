//! What every API server must do with a node that asks for a pod's tokens, real or embedded.
//!
//! Each scenario has a namespace of its own. A real server learns of new objects a little later, so a scenario asks until
//! it gets the answer it expects, or patience ends.

use keyfob_api::Secret;
use keyfob_testkit::LeakCheck;
use serde_json::{Value, json};

use crate::{
    api::{ADMIN, Api, RBAC, Refusal, object, pod, uid},
    jwt::verified,
};

/// Names every scenario to a macro.
macro_rules! every_scenario {
    ($each:ident $(, $api:expr)?) => {
        $each! { $($api =>)?
            a_granted_audience_is_given,
            an_audience_that_nobody_granted_is_refused,
            an_audience_of_a_projected_volume_is_given,
            an_audience_of_a_driver_is_given,
            the_servers_own_audience_must_be_allowed_too,
            two_audiences_are_refused,
            a_token_that_is_bound_to_no_pod_is_refused,
            a_pod_of_another_node_is_refused,
            a_pod_of_another_account_is_refused,
            a_pod_that_was_made_anew_is_refused,
            a_pod_that_is_gone_is_not_found,
            a_service_account_that_was_made_anew_is_refused,
            a_node_without_a_pod_of_the_account_is_refused,
            a_node_reads_the_accounts_of_its_pods_alone,
            a_token_says_whose_it_is_and_verifies,
            a_review_knows_a_token_for_its_audience_alone,
            a_plugin_is_given_the_pods_own_token,
            an_audience_is_given_once_the_advice_is_followed,
            an_account_without_the_annotation_is_passed_over,
        }
    };
}
pub(crate) use every_scenario;

pub(crate) use crate::pulls::{
    a_plugin_is_given_the_pods_own_token, an_account_without_the_annotation_is_passed_over,
    an_audience_is_given_once_the_advice_is_followed,
};

pub(crate) const AUDIENCE: &str = "https://registry.example/v2";
pub(crate) const NODE: &str = "node-a";
const OTHER: &str = "node-b";
const VERB: &str = "request-serviceaccounts-token-audience";

pub(crate) async fn a_granted_audience_is_given(api: &Api) {
    let scene = Scene::new(api, "granted", &json!([])).await;
    scene.grant(AUDIENCE).await;

    scene.gets(NODE, &scene.request(&[AUDIENCE])).await;

    scene.forbids_audience("another", &scene.request(&["another"])).await;
}

pub(crate) async fn an_audience_that_nobody_granted_is_refused(api: &Api) {
    let scene = Scene::new(api, "not-granted", &json!([])).await;

    scene.forbids_audience(AUDIENCE, &scene.request(&[AUDIENCE])).await;
}

pub(crate) async fn an_audience_of_a_projected_volume_is_given(api: &Api) {
    let source = json!({"serviceAccountToken": {"audience": AUDIENCE, "path": "token"}});
    let volumes = json!([{"name": "token", "projected": {"sources": [source]}}]);
    let scene = Scene::new(api, "projected", &volumes).await;

    scene.gets(NODE, &scene.request(&[AUDIENCE])).await;
}

pub(crate) async fn an_audience_of_a_driver_is_given(api: &Api) {
    let driver = "identity.csi.example";
    let spec = json!({"attachRequired": false, "tokenRequests": [{"audience": AUDIENCE}]});
    api.create(&object("CSIDriver", "", driver, "spec", &spec)).await;
    let volumes = json!([{"name": "data", "csi": {"driver": driver}}]);
    let scene = Scene::new(api, "driver", &volumes).await;

    scene.gets(NODE, &scene.request(&[AUDIENCE])).await;
}

pub(crate) async fn the_servers_own_audience_must_be_allowed_too(api: &Api) {
    let scene = Scene::new(api, "default-audience", &json!([])).await;
    scene.forbids_audience("", &scene.request(&[])).await;

    let mut mounts = pod("default-audience", "mounts", NODE, "app", &json!([]));
    mounts["spec"]["automountServiceAccountToken"] = json!(true);
    let mounts = api.create(&mounts).await;
    let mut request = scene.request(&[]);
    request["spec"]["boundObjectRef"]["name"] = json!("mounts");
    request["spec"]["boundObjectRef"]["uid"] = json!(uid(&mounts));
    scene.gets(NODE, &request).await;
}

pub(crate) async fn two_audiences_are_refused(api: &Api) {
    let scene = Scene::new(api, "two-audiences", &json!([])).await;
    scene.grant("*").await;

    let refused = forbidden("node may only request 0 or 1 audiences");
    let message = format!("{}{}", api.prefix, refused.message);
    scene.refuses(NODE, &scene.request(&[AUDIENCE, AUDIENCE]), refused.code, &message).await;
}

pub(crate) async fn a_token_that_is_bound_to_no_pod_is_refused(api: &Api) {
    let scene = Scene::new(api, "unbound", &json!([])).await;
    scene.grant("*").await;
    let mut request = scene.request(&[AUDIENCE]);

    request["spec"]["boundObjectRef"]["uid"] = Value::Null;
    let why = "node requested token with a pod binding without a uid";
    scene.forbids(NODE, &request, why).await;

    let why = "node requested token not bound to a pod";
    request["spec"]["boundObjectRef"]["kind"] = json!("Secret");
    scene.forbids(NODE, &request, why).await;
    request["spec"]["boundObjectRef"] = Value::Null;
    scene.forbids(NODE, &request, why).await;
}

pub(crate) async fn a_pod_of_another_node_is_refused(api: &Api) {
    let scene = Scene::new(api, "another-node", &json!([])).await;
    scene.grant("*").await;
    scene.pod("other", OTHER, &json!([])).await;

    let why = "node requested token bound to a pod scheduled on a different node";
    scene.forbids(OTHER, &scene.request(&[AUDIENCE]), why).await;
    scene.gets(NODE, &scene.request(&[AUDIENCE])).await;
}

pub(crate) async fn a_pod_of_another_account_is_refused(api: &Api) {
    let namespace = "others-pod";
    let scene = Scene::new(api, namespace, &json!([])).await;
    scene.grant("*").await;
    api.create(&object("ServiceAccount", namespace, "other", "secrets", &json!([]))).await;
    let other = api.create(&pod(namespace, "other", NODE, "other", &json!([]))).await;
    let mut request = scene.request(&[AUDIENCE]);
    request["spec"]["boundObjectRef"]["name"] = json!("other");
    request["spec"]["boundObjectRef"]["uid"] = json!(uid(&other));

    let why = "cannot bind token for serviceaccount \"app\" to pod running with different serviceaccount name.";
    scene.refuses(NODE, &request, 400, why).await;
}

pub(crate) async fn a_pod_that_was_made_anew_is_refused(api: &Api) {
    let scene = Scene::new(api, "another-pod", &json!([])).await;
    scene.grant("*").await;
    let mut request = scene.request(&[AUDIENCE]);
    request["spec"]["boundObjectRef"]["uid"] = json!("0b1c");

    let why = "the UID in the bound object reference (0b1c) does not match the UID in record. The object might have been \
               deleted and then recreated";
    scene.forbids(NODE, &request, why).await;
}

pub(crate) async fn a_pod_that_is_gone_is_not_found(api: &Api) {
    let scene = Scene::new(api, "no-pod", &json!([])).await;
    scene.grant("*").await;
    let mut request = scene.request(&[AUDIENCE]);
    request["spec"]["boundObjectRef"]["name"] = json!("gone");

    scene.refuses(NODE, &request, 404, "pod \"gone\" not found").await;
}

pub(crate) async fn a_service_account_that_was_made_anew_is_refused(api: &Api) {
    let scene = Scene::new(api, "another-account", &json!([])).await;
    scene.grant("*").await;
    let mut request = scene.request(&[AUDIENCE]);
    request["metadata"]["uid"] = json!("0b1c");

    let why = format!(
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"app\": the UID in the token request (0b1c) \
         does not match the UID of the service account ({})",
        uid(&scene.account)
    );
    scene.refuses(NODE, &request, 409, &why).await;

    request["metadata"]["uid"] = scene.account["metadata"]["uid"].clone();
    scene.gets(NODE, &request).await;
}

pub(crate) async fn a_node_without_a_pod_of_the_account_is_refused(api: &Api) {
    let scene = Scene::new(api, "no-relationship", &json!([])).await;
    scene.grant("*").await;

    let why = "User \"system:node:node-b\" cannot create resource \"serviceaccounts/token\" in API group \"\" in the namespace \
               \"no-relationship\": node: no relationship found between node 'node-b' and this object";
    scene.forbids(OTHER, &scene.request(&[AUDIENCE]), why).await;
}

pub(crate) async fn a_node_reads_the_accounts_of_its_pods_alone(api: &Api) {
    let scene = Scene::new(api, "reading", &json!([])).await;
    let path = "/api/v1/namespaces/reading/serviceaccounts/app";

    let read = api.until(|| api.get(NODE, path), Result::is_ok).await.unwrap();
    assert_eq!(read["metadata"]["uid"], scene.account["metadata"]["uid"]);
    assert_eq!(read["metadata"]["annotations"], json!({"registry.example/role": "puller"}));

    let refused = api.get(OTHER, path).await.unwrap_err();
    let why = "User \"system:node:node-b\" cannot get resource \"serviceaccounts\" in API group \"\" in the namespace \
               \"reading\": node: no relationship found between node 'node-b' and this object";
    assert_eq!(refused, forbidden(why));
}

pub(crate) async fn a_token_says_whose_it_is_and_verifies(api: &Api) {
    let node = api.create(&object("Node", "", NODE, "spec", &json!({}))).await;
    let scene = Scene::new(api, "claims", &json!([])).await;
    scene.grant(AUDIENCE).await;
    let token = scene.gets(NODE, &scene.request(&[AUDIENCE])).await;

    let discovery = api.get(ADMIN, "/.well-known/openid-configuration").await.unwrap();
    let keys = api.get(ADMIN, "/openid/v1/jwks").await.unwrap();
    let claims = verified(token.expose(), &keys);

    assert_eq!(claims["iss"], discovery["issuer"]);
    assert_eq!(claims["sub"], "system:serviceaccount:claims:app");
    assert_eq!(claims["aud"], json!([AUDIENCE]));
    let about = &claims["kubernetes.io"];
    assert_eq!(about["namespace"], "claims");
    assert_eq!(about["pod"], json!({"name": "app", "uid": uid(&scene.pod)}));
    assert_eq!(about["serviceaccount"], json!({"name": "app", "uid": uid(&scene.account)}));
    assert_eq!(about["node"], json!({"name": NODE, "uid": uid(&node)}));
    let times = ["iat", "nbf", "exp"].map(|name| claims[name].as_i64().unwrap());
    assert_eq!((times[1] - times[0], times[2] - times[0]), (0, 3600), "{times:?}");
    assert!(claims["jti"].as_str().is_some_and(|id| id.len() == 36), "{}", claims["jti"]);
}

pub(crate) async fn a_review_knows_a_token_for_its_audience_alone(api: &Api) {
    let scene = Scene::new(api, "review", &json!([])).await;
    scene.grant(AUDIENCE).await;
    let token = scene.gets(NODE, &scene.request(&[AUDIENCE])).await;

    let status = scene.review(&token, &[AUDIENCE, "another"]).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!([AUDIENCE]));
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:review:app");
    assert_eq!(user["uid"], scene.account["metadata"]["uid"]);
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:review", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["app"]));
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-uid"], json!([uid(&scene.pod)]));
    assert_eq!(user["extra"]["authentication.kubernetes.io/node-name"], json!([NODE]));

    for (token, audiences) in
        [(&token, &["another"]), (&Secret::new("x.y.z".to_owned()), &[AUDIENCE])]
    {
        let status = scene.review(token, audiences).await;
        assert_ne!(status["authenticated"], true, "{status}");
        LeakCheck::new([token.expose()]).text("a review's status", &status.to_string());
    }
}

/// A namespace with a service account and a pod that runs as it on the first node.
pub(crate) struct Scene<'a> {
    api: &'a Api,
    namespace: &'static str,
    account: Value,
    pub(crate) pod: Value,
}

impl<'a> Scene<'a> {
    pub(crate) async fn new(api: &'a Api, namespace: &'static str, volumes: &Value) -> Self {
        api.create(&object("Namespace", "", namespace, "spec", &json!({}))).await;
        let annotations = json!({"registry.example/role": "puller"});
        let mut account = object("ServiceAccount", namespace, "app", "secrets", &json!([]));
        account["metadata"]["annotations"] = annotations;
        let account = api.create(&account).await;
        let mut scene = Self { api, namespace, account, pod: Value::Null };
        scene.pod = scene.pod("app", NODE, volumes).await;
        scene
    }

    async fn pod(&self, name: &str, node: &str, volumes: &Value) -> Value {
        self.api.create(&pod(self.namespace, name, node, "app", volumes)).await
    }

    /// Lets both nodes ask for tokens for an audience.
    pub(crate) async fn grant(&self, audience: &str) {
        let rules = json!([{"apiGroups": [""], "resources": [audience], "verbs": [VERB]}]);
        self.api.create(&object("Role", self.namespace, "audience", "rules", &rules)).await;
        let subject = json!({"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"});
        let mut binding =
            object("RoleBinding", self.namespace, "audience", "subjects", &json!([subject]));
        binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "Role", "name": "audience"});
        self.api.create(&binding).await;
    }

    /// What a kubelet would ask for.
    pub(crate) fn request(&self, audiences: &[&str]) -> Value {
        let bound =
            json!({"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": uid(&self.pod)});
        json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": audiences, "boundObjectRef": bound},
        })
    }

    pub(crate) async fn gets(&self, user: &str, request: &Value) -> Secret<String> {
        let ask = || self.api.token(user, self.namespace, "app", request);
        self.api.until(ask, Result::is_ok).await.unwrap()
    }

    pub(crate) async fn forbids_audience(&self, audience: &str, request: &Value) {
        let why = format!(
            "system:node:{NODE} is not authorized to request tokens for audience {audience:?}"
        );
        let refused = forbidden(&why);
        let message = format!("{}{}", self.api.prefix, refused.message);
        self.refuses(NODE, request, refused.code, &message).await;
    }

    async fn forbids(&self, user: &str, request: &Value, why: &str) {
        let expected = forbidden(why);
        self.refuses(user, request, expected.code, &expected.message).await;
    }

    async fn refuses(&self, user: &str, request: &Value, code: u16, message: &str) {
        let ask = || self.api.token(user, self.namespace, "app", request);
        let expected = Refusal { code, message: message.to_owned() };
        let refusal = self.api.until(ask, |answer| answer.as_ref().err() == Some(&expected)).await;
        assert_eq!(refusal.unwrap_err(), expected);
    }

    async fn review(&self, token: &Secret<String>, audiences: &[&str]) -> Value {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token.expose(), "audiences": audiences},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        self.api.post(ADMIN, path, &review).await.unwrap()["status"].take()
    }
}

fn forbidden(why: &str) -> Refusal {
    Refusal { code: 403, message: format!("serviceaccounts \"app\" is forbidden: {why}") }
}
