//! `keyfob get`, `explain` and `validate` agree with the kubelet.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::{
    containerd::Runtime,
    node::{Node, NodeOptions},
    registry::{Access, Registry, Visit},
    shell::{output, stdout},
    world::World,
};

/// The node's own logins.
const DOCKER_CONFIG: &str = "/var/lib/kubelet/config.json";
const CONFIG: &str = "/etc/kubernetes/credential-providers.yaml";
const PLUGINS: &str = "/usr/local/lib/kubelet-plugins";

/// All credentials that match the image. The last one is right, so that each of them is tried.
///
/// The keys of both pull secrets are sorted together, and so are those of all providers: longer keys first, patterns last. For the
/// same key, the order is that of the pod's secrets or of the configuration's providers.
const ORDER: [&str; 9] = [
    "secret-2-path",
    "secret-1-host",
    "secret-2-host",
    "secret-1-pattern",
    "node",
    "provider-2-path",
    "provider-1-host",
    "provider-2-host",
    "provider-1-pattern",
];

pub(crate) fn get_prints_the_order_in_which_the_kubelet_tries_credentials(world: &mut World) {
    let access = Access::password(ORDER[8], "password");
    let registry = Registry::start(world, "registry.example.com", access);
    let open = Registry::start(world, "open.example.org", Access::Everybody);
    let [image, public] = [&registry, &open].map(|registry| registry.push("team/app:v1"));
    let secrets = [
        secret(
            world,
            "secret-1",
            &[["registry.example.com", "host"], ["*.example.com", "pattern"]],
        ),
        secret(
            world,
            "secret-2",
            &[["registry.example.com/team", "path"], ["registry.example.com", "host"]],
        ),
    ];
    configure_providers();
    let start_and_pull = |runtime| {
        let node = Node::start(world, &options(runtime));
        write_docker_config();
        let (before, names) =
            (registry.visits().len(), json!([{"name": "secret-1"}, {"name": "secret-2"}]));
        let pod = world.pod("app", &image).with(|pod| pod["spec"]["imagePullSecrets"] = names);
        pod.create().wait_until_running();
        assert_eq!(tried(&registry.visits()[before..]), ORDER, "by the kubelet with {runtime:?}");
        world.pod("public", &public).create().wait_until_running();
        assert_eq!(tried(&open.visits()), [""; 0], "nothing matches, so that it pulls anonymously");
        node
    };
    drop(start_and_pull(Runtime::Containerd16));
    let node = start_and_pull(Runtime::Containerd21);

    let flags = [
        &secrets.each_ref().map(|file| ["--pull-secret", file]).concat()[..],
        &["--docker-config", DOCKER_CONFIG, "--config", CONFIG, "--bin-dir", PLUGINS],
    ]
    .concat();
    let keyfob = |command: &str, image: &str| {
        let args = [&[command, image, "-o", "json"], &flags[..]].concat();
        let output = output(&mut world.keyfob(&args));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), answer)
    };
    let (code, got) = keyfob("get", &image.reference);
    assert_eq!((code, usernames(&got)), (Some(0), ORDER.to_vec()), "by keyfob get");
    let (code, explained) = keyfob("explain", &image.reference);
    assert_eq!((code, usernames(&explained)), (Some(0), ORDER.to_vec()), "by keyfob explain");
    assert_failures_are_the_same(&node, &got, &explained);

    let (code, got) = keyfob("get", &public.reference);
    assert_eq!((code, usernames(&got)), (Some(3), vec![]));
    let (code, explained) = keyfob("explain", &public.reference);
    assert_eq!((code, &explained["anonymous"]), (Some(3), &json!(true)));
}

/// Writes what kubectl prints of a pull secret with these keys to a file, and returns its path.
fn secret(world: &World, name: &str, keys: &[[&str; 2]]) -> String {
    let users = keys.iter().map(|[key, what]| (*key, format!("{name}-{what}")));
    let users: Vec<_> = users.collect();
    let users: Vec<_> = users.iter().map(|(key, user)| [*key, user.as_str()]).collect();
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": world.namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json!({"auths": logins(&users)}).to_string()},
    });
    world.cluster.apply(&manifest.to_string());
    let get = ["get", "secret", name, "-o", "yaml", "-n", &world.namespace];
    let path = world.directory.join(format!("{name}.yaml"));
    fs::write(&path, stdout(&mut world.cluster.kubectl(&get))).unwrap();
    path.display().to_string()
}

/// Users by the keys of a docker configuration or of a plugin's answer.
fn logins(keys: &[[&str; 2]]) -> Value {
    let login = |user: &str| json!({"username": user, "password": "password"});
    keys.iter().map(|[key, user]| ((*key).to_owned(), login(user))).collect()
}

fn write_docker_config() {
    let logins = logins(&[["registry.example.com", "node"], ["registry.example.com/other", "x"]]);
    fs::write(DOCKER_CONFIG, json!({"auths": logins}).to_string()).unwrap();
}

/// Two providers that answer, one that fails, and one for another registry.
fn configure_providers() {
    let answers = [
        (
            "first",
            logins(&[
                ["registry.example.com", "provider-1-host"],
                ["*.example.com", "provider-1-pattern"],
            ]),
        ),
        (
            "second",
            logins(&[
                ["registry.example.com", "provider-2-host"],
                ["registry.example.com/team", "provider-2-path"],
            ]),
        ),
        ("elsewhere", logins(&[["registry.example.com", "x"]])),
    ];
    for (name, auth) in &answers {
        let answer = json!({
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "kind": "CredentialProviderResponse",
            "cacheKeyType": "Image",
            "auth": auth,
        });
        write_plugin(name, &format!("cat <<'END'\n{answer}\nEND"));
    }
    write_plugin("broken", "echo 'no login' >&2; exit 3");
    let provider = |name: &str| {
        let host = if name == "elsewhere" { "registry.example.net" } else { "*.example.com" };
        json!({
            "name": name,
            "matchImages": [host],
            "defaultCacheDuration": "1m",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        })
    };
    let providers = ["first", "broken", "elsewhere", "second"].map(provider);
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": providers,
    });
    fs::create_dir_all(Path::new(CONFIG).parent().unwrap()).unwrap();
    fs::write(CONFIG, config.to_string()).unwrap();
}

/// A shell script in the plugin directory.
fn write_plugin(name: &str, script: &str) {
    let path = Path::new(PLUGINS).join(name);
    fs::create_dir_all(PLUGINS).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn options(runtime: Runtime) -> NodeOptions {
    NodeOptions::new(runtime).flags(&[
        format!("--image-credential-provider-config={CONFIG}"),
        format!("--image-credential-provider-bin-dir={PLUGINS}"),
    ])
}

/// The users of a registry's log, without repetitions by the same one.
fn tried(visits: &[Visit]) -> Vec<&str> {
    let logins = visits.iter().filter_map(|visit| visit.login.as_ref());
    let mut users: Vec<_> = logins.map(|(user, _)| user.as_str()).collect();
    users.dedup();
    users
}

fn usernames(answer: &Value) -> Vec<&str> {
    let credentials = answer["credentials"].as_array().unwrap();
    credentials.iter().map(|credential| credential["username"].as_str().unwrap()).collect()
}

/// The kubelet ran and logged the same failure that keyfob tells.
fn assert_failures_are_the_same(node: &Node, got: &Value, explained: &Value) {
    let log = node.kubelet.log();
    let failures: Vec<_> = log.split("\"Failed to provide credentials for image\"").collect();
    let [_, failure] = failures[..] else { panic!("one failure: {failures:#?}") };
    let cause = "error execing credential provider plugin broken for image registry.example.com/team/app: exit status 3: no login";
    assert!(failure.contains(cause), "{failure}");
    let errors = got["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(errors[0]["provider"], "broken");
    let error = errors[0]["error"].as_str().unwrap();
    assert!(error.contains("exit code 3; it said: no login"), "{error}");
    // Each provider that the kubelet ran, and how often.
    let runs: BTreeMap<_, _> = ["first", "broken", "elsewhere", "second"]
        .map(|name| {
            let metric = format!(
                "kubelet_credential_provider_plugin_duration_count{{plugin_name=\"{name}\"}}"
            );
            (name, node.metric(&metric).is_some())
        })
        .into();
    let explained = explained["providers"].as_array().unwrap().iter();
    let explained: BTreeMap<_, _> = explained
        .map(|provider| (provider["name"].as_str().unwrap(), provider["matches"] == true))
        .collect();
    assert_eq!(runs, explained);
}
