//! `keyfob audience serve`, registered in a real API server whose own restriction of audiences is off.

use std::{fs, path::Path, process::Command};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    agreement::all_agree,
    api::{ADMIN, Api, Refusal},
    authority::{Authority, write},
    cluster::{Cluster, Process, free_ports},
    every_scenario_holds,
    identity::{AUDIENCE, NODE, Scene},
    node::program,
};

const RESTRICTION_OFF: &str = "--feature-gates=ServiceAccountNodeAudienceRestriction=false";
/// How a refusal by the webhook of `deploy/webhook` begins.
const DENIED: &str = "admission webhook \"audience.keyfob.internal\" denied the request: ";

#[tokio::test]
async fn the_webhook_takes_the_place_of_the_built_in_restriction() {
    let Some(program) = Cluster::wanted() else { return };
    // With several audiences of its own, none is told apart from one, and all is said as the plugin says it.
    let several = "--api-audiences=https://a.example,https://b.example";
    let mut cluster = Cluster::start(&program, &[RESTRICTION_OFF, several]).await;
    let authority = Authority::new();
    let webhook = Webhook::start(&cluster.api, &authority, Held::InAFile).await;
    webhook.register(&cluster.api, &authority);
    DENIED.clone_into(&mut cluster.api.prefix);

    every_scenario_holds(&cluster.api).await;
    all_agree(&cluster.api, 300).await;
}

#[tokio::test]
async fn the_servers_one_audience_is_what_a_pod_mounts() {
    let Some(program) = Cluster::wanted() else { return };
    let mut cluster = Cluster::start(&program, &[RESTRICTION_OFF]).await;
    DENIED.clone_into(&mut cluster.api.prefix);
    let (api, authority) = (&cluster.api, Authority::new());
    let discovery = api.get(ADMIN, "/.well-known/openid-configuration").await.unwrap();
    let own = discovery["issuer"].as_str().unwrap();
    let source = json!({"serviceAccountToken": {"path": "token"}});
    let mounted = json!([{"name": "mounted", "projected": {"sources": [source]}}]);
    let mounts = Scene::new(api, "mounts", &mounted).await;
    let bare = Scene::new(api, "bare", &json!([])).await;
    let webhook = Webhook::start(api, &authority, Held::Inline).await;
    webhook.register(api, &authority);

    for audiences in [&[][..], &[own]] {
        bare.forbids_audience(own, &bare.request(audiences)).await;
        mounts.gets(NODE, &mounts.request(audiences)).await;
    }

    bare.grant(own).await;
    for audiences in [&[][..], &[own]] {
        bare.gets(NODE, &bare.request(audiences)).await;
    }
}

#[tokio::test]
async fn without_the_webhook_no_node_gets_a_token() {
    let Some(program) = Cluster::wanted() else { return };
    let cluster = Cluster::start(&program, &[RESTRICTION_OFF]).await;
    let source = json!({"serviceAccountToken": {"audience": AUDIENCE, "path": "token"}});
    let volumes = json!([{"name": "token", "projected": {"sources": [source]}}]);
    let scene = Scene::new(&cluster.api, "webhook", &volumes).await;
    let (ours, others) = (scene.request(&[AUDIENCE]), scene.request(&["another"]));
    scene.gets(NODE, &others).await;

    can_be_without_conditions(&cluster.api);
    let (trusted, stranger) = (Authority::new(), Authority::new());
    let webhook = Webhook::start(&cluster.api, &stranger, Held::Inline).await;
    webhook.register(&cluster.api, &trusted);
    fails(&cluster.api, &ours, "certificate signed by unknown authority").await;

    webhook.certify(&trusted);
    scene.gets(NODE, &ours).await;
    fails(&cluster.api, &others, DENIED).await;

    // A review that is too large for the webhook is a failed call. With another policy the node gets what the rule forbids.
    let large = scene.request(&[&"a".repeat(300_000)]);
    fails(&cluster.api, &large, "failed calling webhook").await;
    set_failure_policy(&cluster.api, "Ignore");
    scene.gets(NODE, &large).await;
    fails(&cluster.api, &others, DENIED).await;
    set_failure_policy(&cluster.api, "Fail");
    fails(&cluster.api, &large, "failed calling webhook").await;

    drop(webhook);
    fails(&cluster.api, &ours, "connection refused").await;
    scene.gets(ADMIN, &others).await;
}

/// What API servers before 1.28 are given is known to this one, too.
fn can_be_without_conditions(api: &Api) {
    let part = deploy("webhook-before-1.28");
    let made =
        kubectl(api, &["apply", "--server-side", "--dry-run=server", "--output=json", "-k", &part]);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["webhooks"][0]["failurePolicy"], "Fail");
    assert!(made["webhooks"][0]["matchConditions"].is_null(), "{made}");
}

/// Decides what the API server does when it cannot call the webhook.
fn set_failure_policy(api: &Api, policy: &str) {
    let change = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy}]);
    let configuration = ["validatingwebhookconfiguration", "keyfob-audience"];
    let patch = ["patch", "--type", "json", "--patch", &change.to_string()];
    kubectl(api, &[&patch[..], &configuration].concat());
}

/// Asks until the server refuses in words that hold these.
async fn fails(api: &Api, request: &Value, words: &str) {
    let ask = || api.token(NODE, "webhook", "app", request);
    let holds = |refusal: &Refusal| refusal.message.contains(words);
    let refusal = api.until(ask, |answer| answer.as_ref().is_err_and(holds)).await.unwrap_err();
    assert!(holds(&refusal), "{refusal:?}");
}

/// Where the webhook finds its own token: in a file as in a pod, or in its kubeconfig.
#[derive(Clone, Copy)]
enum Held {
    InAFile,
    Inline,
}

/// The program of `deploy/`, with the rights that it gives.
struct Webhook {
    _process: Process,
    url: String,
    folder: TempDir,
}

impl Webhook {
    async fn start(api: &Api, authority: &Authority, token: Held) -> Self {
        let folder = tempfile::tempdir().unwrap();
        certify(&folder, authority);
        let kubeconfig = install(api, folder.path(), token).await;
        let [port] = free_ports();
        let address = format!("127.0.0.1:{port}");
        let mut command = program();
        command.args(["audience", "serve", "--listen", &address, "--kubeconfig", &kubeconfig]);
        command.arg("--tls-cert").arg(folder.path().join("tls.crt"));
        command.arg("--tls-key").arg(folder.path().join("tls.key"));
        let process = Process::start("keyfob", command, folder.path());
        Self { _process: process, url: format!("https://{address}/validate"), folder }
    }

    /// Serves with a certificate of this authority from now on, or soon.
    fn certify(&self, authority: &Authority) {
        certify(&self.folder, authority);
    }

    /// Has the API server ask it, here and not behind a service, if it proves itself by this authority.
    fn register(&self, api: &Api, authority: &Authority) {
        apply(api, "webhook");
        let bundle = BASE64_STANDARD.encode(authority.pem());
        let here = json!([{
            "op": "replace",
            "path": "/webhooks/0/clientConfig",
            "value": {"url": self.url, "caBundle": bundle},
        }]);
        let configuration = ["validatingwebhookconfiguration", "keyfob-audience"];
        let patch = ["patch", "--type", "json", "--patch", &here.to_string()];
        kubectl(api, &[&patch[..], &configuration].concat());
    }
}

/// Makes what `deploy/base` has, and a kubeconfig of the service account in it.
async fn install(api: &Api, folder: &Path, held: Held) -> String {
    apply(api, "base");
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = api.token(ADMIN, "keyfob-system", "keyfob-audience", &request).await.unwrap();
    let kubeconfig = fs::read_to_string(api.kubeconfig(ADMIN)).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    write(&folder.join("token"), token.expose());
    kubeconfig["users"][0]["user"] = match held {
        Held::InAFile => json!({"tokenFile": "token"}),
        Held::Inline => json!({"token": token.expose()}),
    };
    let file = folder.join("kubeconfig");
    write(&file, &kubeconfig.to_string());
    file.to_str().unwrap().to_owned()
}

fn apply(api: &Api, part: &str) {
    kubectl(api, &["apply", "--server-side", "-k", &deploy(part)]);
}

fn deploy(part: &str) -> String {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(part);
    deploy.to_str().unwrap().to_owned()
}

/// What it printed.
fn kubectl(api: &Api, args: &[&str]) -> String {
    let mut kubectl = Command::new("kubectl");
    let ended = kubectl.args(["--kubeconfig", &api.kubeconfig(ADMIN)]).args(args).output().unwrap();
    assert!(ended.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

/// Writes a certificate and its key.
fn certify(folder: &TempDir, authority: &Authority) {
    let [certificate, key] = authority.server();
    write(&folder.path().join("tls.crt"), &certificate);
    write(&folder.path().join("tls.key"), &key);
}
