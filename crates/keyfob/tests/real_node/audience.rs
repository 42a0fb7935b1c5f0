//! `keyfob audience serve` as a pod of its Deployment, called by the API server through its Service, installed as
//! `docs/audiences.md` says.

mod load;
mod webhook;

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};

use self::{
    load::under_load,
    webhook::{Webhook, register_as, served_certificate},
};
use crate::{
    api::{Api, Refusal},
    containerd::Runtime,
    documented::Page,
    identity::{
        access_by_token_review, bound_to, install, node_with_providers, provider_errors,
        write_config,
    },
    node::{NODE, Node},
    pod::Pod,
    registry::{Access, Registry},
    shell::{output, stdout},
    wait::wait_for,
    world::World,
};

/// Without kube-proxy the API server has to find the Service's pods itself.
const ROUTING: &str = "--enable-aggregator-routing=true";
const GATE_OFF: &str = "--feature-gates=ServiceAccountNodeAudienceRestriction=false";
/// The audience of a volume of every pod here.
const MOUNTED: &str = "vault.example";
/// The audience of the credential provider.
const REGISTRY: &str = "private.example";
/// How the API server introduces a refusal of the webhook.
const DENIED: &str = "admission webhook \"audience.keyfob.internal\" denied the request: ";

pub(crate) fn the_webhook_replaces_the_restriction_of_audiences(world: &mut World) {
    let audit_log = world.directory.join("audit.log");
    let audit = audit_flags(world, &audit_log);
    world.cluster.restart_api_server(&[ROUTING, GATE_OFF, &audit[0], &audit[1]]);
    let (access, reviews) = access_by_token_review(&world.cluster.api, REGISTRY);
    let registry = Registry::start(world, REGISTRY, access);
    let image = registry.push("app:v1");
    let Stage { page, images, node, tokens } = Stage::start(world);
    // Without the gate a node gets any token of its pod.
    tokens.request("unnamed.example").unwrap();

    let mut webhook = Webhook::install(world, &images, &page);
    let refused = wait_for("a refusal", Duration::from_secs(30), || {
        tokens.request("unnamed.example").err().ok_or_else(|| "a token".to_owned())
    });
    let message = format!("{DENIED}{}", refusal("unnamed.example"));
    assert_eq!(refused, Refusal { code: 403, message });
    let says_why = |line: &str| line.contains("not-authorized") && line.contains("unnamed.example");
    assert!(webhook.log().lines().any(says_why), "{}", webhook.log());
    let audited = "\"audience.keyfob.internal/clause\":\"not-authorized\"";
    assert!(fs::read_to_string(audit_log).unwrap().contains(audited));
    tokens.request(MOUNTED).unwrap();

    // The kubelet logs the refusal, `audience check` foresees it, and the role helps.
    let pod = world.pod("refused", &image).create();
    pod.wait_until_waiting("ErrImagePull");
    let error = "failed to get service account token: failed to fetch token: ";
    let refused = format!("{error}{DENIED}{}", refusal(REGISTRY));
    assert_eq!(provider_errors(&node.kubelet.log()), [refused]);
    assert_eq!(check(world, &pod), Some(1));
    pod.delete();
    world.cluster.apply(&stdout(&mut world.keyfob(&["audience", "rbac", "--audience", REGISTRY])));
    let pod = world.pod("allowed", &image).create();
    pod.wait_until_running();
    assert_eq!(check(world, &pod), Some(0));
    assert_eq!(reviews.subjects(), [bound_to(&pod, "default", REGISTRY)]);

    // Without the webhook no node gets a token, and new pods wait. The webhook's own pod gets one, and so it can come back.
    webhook.stop();
    let failed = "failed calling webhook \"audience.keyfob.internal\"";
    let refused = tokens.request(MOUNTED).unwrap_err();
    assert!(refused.code == 500 && refused.message.contains(failed), "{refused:?}");
    let waiting = create_holder(world, "waiting", &images);
    waiting.wait_for_event("FailedMount", failed);
    webhook.start();
    waiting.wait_until_running();
    world.run_documented(&page.command(&["kubectl delete validatingwebhookconfiguration"]));
    wait_for("a token that the webhook refuses", Duration::from_secs(30), || {
        tokens.request("unnamed.example").map_err(|refusal| refusal.message)
    });
}

/// Flags for an audit log with the metadata of all requests.
fn audit_flags(world: &World, log: &Path) -> [String; 2] {
    let policy = world.files.join("audit-policy.json");
    let rules = json!([{"level": "Metadata"}]);
    let text = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
    fs::write(&policy, text.to_string()).unwrap();
    let (policy, log) = (policy.display(), log.display());
    [format!("--audit-policy-file={policy}"), format!("--audit-log-path={log}")]
}

/// The exit code of `keyfob audience check` for a pod and the provider's audience.
fn check(world: &World, pod: &Pod) -> Option<i32> {
    let pod = format!("{}/{}", pod.namespace, pod.name);
    let check = ["audience", "check", "--audience", REGISTRY, "--pod", &pod];
    output(&mut world.keyfob(&check)).status.code()
}

pub(crate) fn the_webhook_works_beside_the_restriction_of_audiences(world: &mut World) {
    world.cluster.restart_api_server(&[ROUTING]);
    let Stage { page, images, node: _node, tokens } = Stage::start(world);
    let refused = Refusal { code: 403, message: refusal("unnamed.example") };
    assert_eq!(tokens.request("unnamed.example").unwrap_err(), refused);

    let webhook = Webhook::install(world, &images, &page);
    let allowed =
        "keyfob_audience_decisions_total{clause=\"projected-volume\",outcome=\"allowed\"}";
    wait_for("the webhook's permission", Duration::from_secs(30), || {
        tokens.request(MOUNTED).unwrap();
        webhook.metric(allowed).ok_or_else(|| webhook.metrics())
    });

    // What the API server's own plugin refuses, it refuses in its own words, and the webhook never hears of it.
    assert_eq!(tokens.request("unnamed.example").unwrap_err(), refused);
    assert!(!webhook.metrics().contains("outcome=\"refused\""), "{}", webhook.metrics());
}

pub(crate) fn a_certificate_is_renewed_without_a_failed_token_request(world: &mut World) {
    world.cluster.restart_api_server(&[ROUTING, GATE_OFF]);
    let Stage { page, images, node: _node, tokens } = Stage::start(world);
    let webhook = Webhook::install(world, &images, &page);
    let first = served_certificate();

    let outcomes = under_load(&tokens, MOUNTED, || {
        webhook.renew_certificate(world, &page);
        // For authorities that it has not trusted before, the API server connects anew; the name shows that it has.
        let (new, _) = webhook.authorities();
        register_as(world, "renewed.keyfob.internal", &new);
        wait_for("a refusal by that name", Duration::from_secs(30), || {
            match tokens.request("unnamed.example") {
                Err(refusal) if refusal.message.contains("\"renewed.keyfob.internal\" denied") => {
                    Ok(())
                }
                answer => Err(format!("{answer:?}")),
            }
        });
    });

    assert_eq!(outcomes.refusals, [] as [Refusal; 0]);
    assert!(outcomes.tokens > 100, "only {} tokens were requested", outcomes.tokens);
    let allowed =
        "keyfob_audience_decisions_total{clause=\"projected-volume\",outcome=\"allowed\"}";
    assert!(webhook.metric(allowed).unwrap() >= f64::from(outcomes.tokens));
    let reloads = "keyfob_audience_certificate_reloads_total{result=\"ok\"}";
    assert_eq!(webhook.metric(reloads), Some(1.0));
    assert_ne!(served_certificate(), first);

    // With the old authority alone it cannot connect anew. The blank line makes these authorities new to it.
    let (_, old) = webhook.authorities();
    register_as(world, "old.keyfob.internal", &format!("{old}\n"));
    wait_for("a failed handshake", Duration::from_secs(30), || match tokens.request(MOUNTED) {
        Err(refusal) if refusal.message.contains("certificate signed by unknown authority") => {
            Ok(())
        }
        answer => Err(format!("{answer:?}")),
    });
}

/// A node with a pod, before there is a webhook.
struct Stage {
    page: Page,
    /// A registry for everybody.
    images: Registry,
    node: Node,
    /// Those of the pod.
    tokens: NodeTokens,
}

impl Stage {
    fn start(world: &World) -> Self {
        // containerd reads the names of hosts once in five seconds, so all are there before it starts.
        let images = Registry::start(world, "images.example", Access::Everybody);
        let node = start_node(world);
        publish_authority(world, &world.namespace);
        let holder = create_holder(world, "holder", &images);
        holder.wait_until_running();
        let tokens = NodeTokens::of(world, &holder);
        Self { page: Page::read("docs/audiences.md"), images, node, tokens }
    }
}

/// A node with a credential provider for [`REGISTRY`], which looks at its pods often.
fn start_node(world: &World) -> Node {
    install(&["echo-credential-provider"]);
    let config = write_config(
        world,
        &json!({
            "name": "echo-credential-provider",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [REGISTRY],
            "defaultCacheDuration": "10m",
            "tokenAttributes": {
                "serviceAccountTokenAudience": REGISTRY,
                "cacheType": "Token",
                "requireServiceAccount": true,
            },
        }),
    );
    // It also decides how soon a pod sees a new certificate in a Secret: within a minute or two if nobody sets it.
    let options = node_with_providers(Runtime::Containerd21, &config);
    Node::start(world, &options.config("syncFrequency", json!("1s")))
}

/// A pod that mounts a token for the API server and one for [`MOUNTED`].
fn create_holder(world: &World, name: &str, images: &Registry) -> Pod {
    let image = images.push("holder:v1");
    let source = json!({"serviceAccountToken": {"path": "token", "audience": MOUNTED}});
    let pod = world.pod(name, &image).with(|manifest| {
        manifest["spec"]["automountServiceAccountToken"] = json!(true);
        manifest["spec"]["volumes"] =
            json!([{"name": "vault", "projected": {"sources": [source]}}]);
    });
    pod.create()
}

/// Writes the `ConfigMap` that a mounted token comes with, as a controller does elsewhere.
fn publish_authority(world: &World, namespace: &str) {
    let authority = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": "kube-root-ca.crt"},
        "data": {"ca.crt": world.cluster.authority.pem()},
    });
    world.cluster.apply(&authority.to_string());
}

/// What the rule says of an audience that nothing names.
fn refusal(audience: &str) -> String {
    format!(
        "serviceaccounts \"default\" is forbidden: system:node:{NODE} is not authorized to request tokens for audience \
         {audience:?}"
    )
}

/// Requests tokens of a pod's account as the pod's node does.
#[derive(Clone)]
struct NodeTokens {
    api: Api,
    path: String,
    bound_to: Value,
}

impl NodeTokens {
    fn of(world: &World, pod: &Pod) -> Self {
        let kubeconfig = world.cluster.kubeconfig(&format!("system:node:{NODE}"), "system:nodes");
        Self {
            api: Api::new(&fs::read_to_string(kubeconfig).unwrap()),
            path: format!("/api/v1/namespaces/{}/serviceaccounts/default/token", pod.namespace),
            bound_to: json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}),
        }
    }

    fn request(&self, audience: &str) -> Result<Value, Refusal> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "boundObjectRef": self.bound_to},
        });
        self.api.post(&self.path, &request)
    }
}
