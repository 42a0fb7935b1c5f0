//! Pods that pull as their service accounts (KEP-4412), with the configuration and the commands of `docs/identity.md`.

mod annotations;
mod role;
mod sharing;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

pub(crate) use self::{
    annotations::{
        a_pod_without_an_account_is_asked_about_without_a_token,
        annotations_decide_whether_a_plugin_runs_and_what_it_reads,
    },
    role::a_node_gets_no_token_of_its_pod_without_our_role,
    sharing::{
        a_token_as_a_password_is_not_for_other_pods_of_its_account,
        each_pod_has_a_login_of_its_own_if_logins_are_kept_by_token,
        pods_of_an_account_share_a_login_and_accounts_share_none,
    },
};
use crate::{
    api::Api,
    containerd::Runtime,
    node::{NODE, NodeOptions},
    registry::Access,
    shell::{output, stdout},
    world::World,
};

const KEYFOB: &str = env!("CARGO_BIN_EXE_keyfob");
const PLUGINS: &str = "/opt/plugins";

/// Links plugins into the directory that the page names.
pub(crate) fn install(plugins: &[&str]) {
    fs::create_dir_all(PLUGINS).unwrap();
    for plugin in plugins {
        let link = Path::new(PLUGINS).join(plugin);
        fs::remove_file(&link).unwrap_or_default();
        symlink(KEYFOB, link).unwrap();
    }
}

/// A node whose kubelet reads this configuration of providers.
pub(crate) fn node_with_providers(runtime: Runtime, config: &Path) -> NodeOptions {
    NodeOptions::new(runtime).flags(&[
        format!("--image-credential-provider-config={}", config.display()),
        format!("--image-credential-provider-bin-dir={PLUGINS}"),
    ])
}

/// Writes a configuration with one provider, and returns its path.
pub(crate) fn write_config(world: &World, provider: &Value) -> PathBuf {
    let path = world.files.join("credential-providers.yaml");
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [provider],
    });
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Allows all nodes to request tokens for an audience.
fn allow_audience(world: &World, audience: &str) {
    let role = stdout(&mut world.keyfob(&["audience", "rbac", "--audience", audience]));
    world.cluster.apply(&role);
}

/// Why providers failed, as the kubelet's log has it. Each reason is there once: a kubelet asks the providers even when it does not
/// pull because it waits.
pub(crate) fn provider_errors(log: &str) -> Vec<String> {
    let lines =
        log.lines().filter(|line| line.contains("\"Failed to provide credentials for image\""));
    let error = |line: &str| {
        let (_, rest) = line.split_once("err=").unwrap();
        let (error, _) = rest.split_once(" provider=").unwrap();
        serde_json::from_str(error).unwrap()
    };
    let errors: BTreeSet<String> = lines.map(error).collect();
    errors.into_iter().collect()
}

/// `keyfob get` for a pod, as the administrator or with another kubeconfig: its answer in JSON.
fn get(world: &World, image: &str, config: &Path, pod: &[&str]) -> Value {
    let mut keyfob = world.keyfob(&["get", image, "--output=json", "--show-secrets"]);
    keyfob.arg("--config").arg(config).args(["--bin-dir", PLUGINS]).args(pod);
    let output = output(&mut keyfob);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A registry that takes service account tokens as passwords, if the API server says that they are valid for its audience.
pub(crate) fn access_by_token_review(api: &Api, audience: &'static str) -> (Access, Reviews) {
    let (api, reviews) = (api.clone(), Reviews::default());
    let seen = reviews.clone();
    let access = Access::Tokens(Box::new(move |login| {
        let review = api.review_token(&login.password, audience);
        seen.0.lock().unwrap().push(review.clone());
        review["authenticated"] == true
    }));
    (access, reviews)
}

/// What the API server said of the tokens that reached a registry.
#[derive(Clone, Default)]
pub(crate) struct Reviews(Arc<Mutex<Vec<Value>>>);

impl Reviews {
    /// The subjects of all tokens, each once, in order.
    pub(crate) fn subjects(&self) -> Vec<Value> {
        let mut subjects = Vec::new();
        for review in self.0.lock().unwrap().iter() {
            let subject = subject(review);
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        subjects
    }
}

/// Who a token is for, and which pod and node it is bound to.
fn subject(review: &Value) -> Value {
    let extra = |name: &str| {
        review["user"]["extra"][format!("authentication.kubernetes.io/{name}")][0].clone()
    };
    json!({
        "authenticated": review["authenticated"],
        "audiences": review["audiences"],
        "user": review["user"]["username"],
        "pod": extra("pod-name"),
        "pod uid": extra("pod-uid"),
        "node": extra("node-name"),
    })
}

/// The subject of a token that is bound to a pod of this node.
pub(crate) fn bound_to(pod: &crate::pod::Pod, account: &str, audience: &str) -> Value {
    json!({
        "authenticated": true,
        "audiences": [audience],
        "user": format!("system:serviceaccount:{}:{account}", pod.namespace),
        "pod": pod.name,
        "pod uid": pod.uid,
        "node": NODE,
    })
}
