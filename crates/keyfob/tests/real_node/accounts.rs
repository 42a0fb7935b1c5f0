//! What a kubelet keeps of a plugin's answer for each service account, and what it says of an account that is gone.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    containerd::Runtime,
    identity::{node_with_providers, provider_errors, write_config},
    node::{NODE, Node},
    registry::{Access, Registry},
    shell::{output, stdout},
    world::World,
};

const PLUGIN: &str = "/opt/plugins/global-credential-provider";
/// The requests that the plugin has read, one in a line.
const REQUESTS: &str = "/run/real-node/global-requests";
const HOSTS: [&str; 2] = ["one.example", "two.example"];
const AUDIENCE: &str = "all.example";

pub(crate) fn an_answer_for_every_image_is_kept_for_each_account(world: &mut World) {
    let config = install_plugin(world);
    let registries =
        HOSTS.map(|host| Registry::start(world, host, Access::password("ada", "password")));
    let [one, two] = registries.each_ref().map(|registry| registry.push("team/app:v1"));
    let _node = Node::start(world, &node_with_providers(Runtime::Containerd21, &config));
    for account in ["blue", "green"] {
        world.cluster.create_service_account(&world.namespace, account, &[]);
    }
    for (name, account, image, asked) in [
        ("blue-1", "blue", &one, &["one.example/team/app"][..]),
        // The answer for the first image is that for all, to pods of the same account.
        ("blue-2", "blue", &two, &[]),
        ("green-1", "green", &two, &["two.example/team/app"]),
    ] {
        let pod = world.pod(name, image).service_account(account).pull_policy("Always").create();
        pod.wait_until_running();
        assert_eq!(take_images(), asked, "{name}");
    }
}

pub(crate) fn an_account_that_is_gone_is_named_in_the_same_words(world: &mut World) {
    let config = install_plugin(world);
    let registry = Registry::start(world, HOSTS[0], Access::password("ada", "password"));
    let image = registry.push("team/app:v1");
    let node = Node::start(world, &node_with_providers(Runtime::Containerd21, &config));
    // The pod is bound to its node when its account has gone.
    world.cluster.create_service_account(&world.namespace, "gone", &[]);
    let pod = world.pod("app", &image).service_account("gone");
    let pod =
        pod.with(|pod| drop(pod["spec"].as_object_mut().unwrap().remove("nodeName"))).create();
    let (api, namespace) = (&world.cluster.api, format!("/api/v1/namespaces/{}", world.namespace));
    api.delete(&format!("{namespace}/serviceaccounts/gone"), 0).unwrap();
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "app"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    });
    api.post(&format!("{namespace}/pods/app/binding"), &binding).unwrap();
    pod.wait_until_waiting("ErrImagePull");
    let [error] = provider_errors(&node.kubelet.log()).try_into().unwrap();
    assert!(error.contains("serviceaccounts \"gone\" not found"), "{error}");

    let kubeconfig = world.cluster.kubeconfig(&format!("system:node:{NODE}"), "system:nodes");
    let mut keyfob = world.keyfob(&["get", &image.reference, "--output=json"]);
    keyfob.arg("--config").arg(config).args(["--bin-dir", "/opt/plugins", "--pod=app"]);
    keyfob.arg(format!("--service-account={}/gone", world.namespace));
    keyfob.arg("--kubeconfig").arg(kubeconfig);
    let answer: Value = serde_json::from_slice(&output(&mut keyfob).stdout).unwrap();
    assert_eq!(answer["errors"][0]["error"], error, "{answer}");
    assert_eq!(take_images(), [""; 0]);
}

/// Installs a plugin whose answer is for all images, allows it its audience, and returns its configuration.
fn install_plugin(world: &World) -> std::path::PathBuf {
    let login = json!({"username": "ada", "password": "password"});
    let answer = json!({
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Global",
        "cacheDuration": "10m",
        "auth": {HOSTS[0]: login, HOSTS[1]: login},
    });
    let script = format!("#!/bin/sh\n{{ cat; echo; }} >>{REQUESTS}\ncat <<'END'\n{answer}\nEND\n");
    fs::create_dir_all("/opt/plugins").unwrap();
    fs::write(PLUGIN, script).unwrap();
    fs::set_permissions(PLUGIN, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(REQUESTS, "").unwrap();
    let role = stdout(&mut world.keyfob(&["audience", "rbac", "--audience", AUDIENCE]));
    world.cluster.apply(&role);
    let provider = json!({
        "name": "global-credential-provider",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": HOSTS,
        "defaultCacheDuration": "10m",
        "tokenAttributes": {
            "serviceAccountTokenAudience": AUDIENCE,
            "cacheType": "ServiceAccount",
            "requireServiceAccount": true,
        },
    });
    write_config(world, &provider)
}

/// The images that the plugin was asked about since the last call.
fn take_images() -> Vec<String> {
    let text = fs::read_to_string(REQUESTS).unwrap();
    fs::write(REQUESTS, "").unwrap();
    let requests = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    requests.map(|request| request.unwrap()["image"].as_str().unwrap().to_owned()).collect()
}
