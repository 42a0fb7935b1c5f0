//! The role that a node needs, from the refusal to the pull.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::json;

use super::{
    access_by_token_review, bound_to, get, install, node_with_providers, provider_errors, subject,
};
use crate::{
    containerd::Runtime,
    documented::Page,
    node::{NODE, Node},
    registry::Registry,
    world::World,
};

const AUDIENCE: &str = "registry.example";
const REFUSED: &str = "serviceaccounts \"builder\" is forbidden: system:node:node-1 is not authorized to request tokens for \
                       audience \"registry.example\"";

pub(crate) fn a_node_gets_no_token_of_its_pod_without_our_role(world: &mut World) {
    let page = Page::read("docs/identity.md");
    let (access, reviews) = access_by_token_review(&world.cluster.api, AUDIENCE);
    let registry = Registry::start(world, "registry.example", access);
    let image = registry.push("team/app:latest");
    let config = prepare_checkout(world, &page);
    world.cluster.create_namespace("team");
    world.cluster.create_service_account("team", "builder", &[("registry.example/role", "reader")]);
    let node = Node::start(world, &node_with_providers(Runtime::Containerd21, &config));

    // The kubelet asks the registry without credentials, and only its log says why.
    let create =
        || world.pod("app", &image).in_namespace("team").service_account("builder").create();
    let pod = create();
    let message = pod.wait_until_waiting("ErrImagePull");
    assert!(!message.contains("audience") && message.contains("registry.example"), "{message}");
    assert_eq!(
        provider_errors(&node.kubelet.log()),
        [format!("failed to get service account token: failed to fetch token: {REFUSED}")]
    );
    let documented = page.block("text", &["Failed to provide credentials"]);
    let documented = documented.split(" …").next().unwrap();
    assert!(node.kubelet.log().contains(documented), "{documented}");
    assert_eq!(registry.logins(), [(None, 401)]);

    // With the node's kubeconfig, Keyfob is refused in the same words by the same server.
    let kubeconfig = world.cluster.kubeconfig(&format!("system:node:{NODE}"), "system:nodes");
    let flags = ["--service-account=team/builder", "--pod=app"];
    let as_node = [&flags[..], &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat();
    let answer = get(world, &image.reference, &config, &as_node);
    let errors = json!([{
        "provider": "echo-credential-provider",
        "error": format!("failed to get service account token: {REFUSED}"),
    }]);
    assert_eq!((&answer["credentials"], &answer["errors"]), (&json!([]), &errors));

    // With an administrator's, it knows what the node would be told, and the command that helps.
    let answer = get(world, &image.reference, &config, &flags);
    assert_eq!((&answer["credentials"], &answer["errors"]), (&json!([]), &errors));
    let explain = page.command(&["keyfob explain", "--kubeconfig admin.kubeconfig"]);
    let explained = world.try_documented(&explain);
    assert_eq!(explained.status.code(), Some(1));
    let explained = String::from_utf8(explained.stdout).unwrap();
    let documented = page.block("console", &["--kubeconfig admin.kubeconfig", "…"]);
    let verdict = documented.lines().find(|line| line.starts_with("no credentials: ")).unwrap();
    assert_eq!(explained.lines().next(), Some(verdict), "{explained}");
    let allow = page.command(&["keyfob audience rbac", "kubectl --kubeconfig admin.kubeconfig"]);
    let advice = world.try_documented(&explain.replace("keyfob explain", "keyfob get")).stderr;
    let advice = String::from_utf8(advice).unwrap();
    assert!(advice.contains(&format!("to allow it: {allow}\n")), "{advice}");

    world.run_documented(&allow);
    // A new pod is pulled for at once; this one only after ten seconds.
    pod.delete_at_once();
    let pod = create();
    pod.wait_until_running();
    assert_eq!(reviews.subjects(), [bound_to(&pod, "builder", AUDIENCE)]);

    // Both ways, Keyfob now gets a token that is bound to the same pod.
    for flags in [&flags[..], &as_node] {
        let answer = get(world, &image.reference, &config, flags);
        let token = answer["credentials"][0]["password"].as_str().unwrap_or_default();
        let review = world.cluster.api.review_token(token, AUDIENCE);
        assert_eq!(subject(&review), bound_to(&pod, "builder", AUDIENCE), "{answer}");
    }

    // The other runtime brings the pod's token to the registry too.
    drop(node);
    let _node = Node::start(world, &node_with_providers(Runtime::Containerd16, &config));
    let pod = create();
    pod.wait_until_running();
    assert_eq!(reviews.subjects().last(), Some(&bound_to(&pod, "builder", AUDIENCE)));
}

/// Puts everything where the page's commands find it, and returns the path of the page's configuration.
fn prepare_checkout(world: &World, page: &Page) -> PathBuf {
    let checkout = world.checkout();
    fs::create_dir_all(&checkout).unwrap();
    let config = checkout.join("providers.yaml");
    fs::write(&config, page.block("yaml", &["echo-credential-provider"])).unwrap();
    fs::copy(world.cluster.admin(), checkout.join("admin.kubeconfig")).unwrap();
    install(&["echo-credential-provider"]);
    fs::remove_file("/usr/local/bin/keyfob").unwrap_or_default();
    symlink(super::KEYFOB, "/usr/local/bin/keyfob").unwrap();
    config
}
