//! What `keyfob get` and `explain` do with an API server, real or embedded, as the kubelet of a node.

use std::sync::Arc;

use keyfob_control::objects::{Kind, Objects};
use keyfob_testkit::LeakCheck;
use serde_json::{Value, json};

use crate::{
    account_plugin::{IMAGE, PASSWORD, asked, with_plugin},
    api::{ADMIN, Api, uid},
    identity::{AUDIENCE, NODE, Scene},
    jwt::verified,
    node::{Node, Said},
};

/// What the service accounts of the scenes have.
const ANNOTATION: &str = "registry.example/role";

pub(crate) async fn a_plugin_is_given_the_pods_own_token(api: &Api) {
    let scene = Scene::new(api, "pull", &json!([])).await;
    scene.grant(AUDIENCE).await;
    scene.gets(NODE, &scene.request(&[AUDIENCE])).await;
    let puller = Puller::new(api, "pull", ANNOTATION);

    let said = puller.run("get").await;

    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let asked = asked(&puller.node).unwrap();
    assert_eq!(asked["serviceAccountAnnotations"], json!({ANNOTATION: "puller"}));
    let keys = api.get(ADMIN, "/openid/v1/jwks").await.unwrap();
    let claims = verified(asked["serviceAccountToken"].as_str().unwrap(), &keys);
    assert_eq!(claims["sub"], "system:serviceaccount:pull:app");
    assert_eq!(claims["aud"], json!([AUDIENCE]));
    assert_eq!(claims["kubernetes.io"]["pod"], json!({"name": "app", "uid": uid(&scene.pod)}));
}

pub(crate) async fn an_audience_is_given_once_the_advice_is_followed(api: &Api) {
    let scene = Scene::new(api, "advice", &json!([])).await;
    scene.forbids_audience(AUDIENCE, &scene.request(&[AUDIENCE])).await;
    let puller = Puller::new(api, "advice", ANNOTATION);

    let refused = puller.run("explain").await;
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    let report = refused.json();
    let problem = &report["providers"][0]["problems"][0]["problem"];
    let why = format!("is not authorized to request tokens for audience {AUDIENCE:?}");
    assert!(problem.as_str().unwrap().contains(&why), "{problem}");
    let advice = report["providers"][0]["identity"]["grant"]["yaml"].as_str().unwrap();
    for object in objects(advice) {
        api.create(&object).await;
    }

    let granted = api.until(|| puller.run("explain"), |said| said.code == 0).await;
    assert_eq!((granted.code, granted.stderr.as_str()), (0, ""), "{}", granted.stdout);
    let claims = &granted.json()["providers"][0]["identity"]["claims"];
    assert_eq!(claims["subject"], "system:serviceaccount:advice:app", "{claims}");
}

pub(crate) async fn an_account_without_the_annotation_is_passed_over(api: &Api) {
    let scene = Scene::new(api, "annotation", &json!([])).await;
    scene.grant(AUDIENCE).await;
    scene.gets(NODE, &scene.request(&[AUDIENCE])).await;
    let puller = Puller::new(api, "annotation", "registry.example/absent");

    let said = puller.run("explain").await;

    assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
    let provider = &said.json()["providers"][0];
    assert_eq!(provider["result"], "skipped");
    let why =
        "required annotation registry.example/absent not found on service account annotation/app";
    assert_eq!(provider["problems"][0]["problem"], why);
    assert_eq!(asked(&puller.node), None);
}

/// A node with one plugin.
struct Puller {
    node: Arc<Node>,
    account: String,
    kubeconfig: String,
}

impl Puller {
    fn new(api: &Api, namespace: &str, annotation: &str) -> Self {
        let attributes = json!({
            "serviceAccountTokenAudience": AUDIENCE,
            "cacheType": "ServiceAccount",
            "requireServiceAccount": true,
            "requiredServiceAccountAnnotationKeys": [annotation],
        });
        let node = with_plugin(Node::new(), "tokens", attributes);
        let account = format!("{namespace}/app");
        Self { node: Arc::new(node), account, kubeconfig: api.kubeconfig(NODE) }
    }

    /// Runs a command, in whose output no secret stands.
    async fn run(&self, command: &'static str) -> Said {
        let (node, account) = (Arc::clone(&self.node), self.account.clone());
        let kubeconfig = self.kubeconfig.clone();
        // On another thread: the embedded server may be on this one.
        let ran = tokio::task::spawn_blocking(move || {
            let pod = ["--service-account", &account, "--pod", "app", "--kubeconfig", &kubeconfig];
            node.run(command, &[&[IMAGE, "-o", "json"], &pod[..]].concat())
        });
        let said = ran.await.unwrap();
        let token = asked(&self.node)
            .map(|asked| asked["serviceAccountToken"].as_str().unwrap().to_owned());
        let password = (command == "explain").then(|| PASSWORD.to_owned());
        LeakCheck::new(token.into_iter().chain(password))
            .text("stdout", &said.stdout)
            .text("stderr", &said.stderr);
        said
    }
}

/// The roles and bindings of a manifest.
fn objects(yaml: &str) -> Vec<Value> {
    let objects = Objects::read_text(yaml, "the advice").unwrap();
    let kinds = [Kind::ClusterRole, Kind::ClusterRoleBinding, Kind::Role, Kind::RoleBinding];
    let found = kinds.iter().flat_map(|kind| objects.list(*kind).map(|(_, _, object)| object));
    let without_uid = found.cloned().map(|mut object| {
        // The server gives its own.
        object["metadata"]["uid"] = Value::Null;
        object
    });
    without_uid.collect()
}
