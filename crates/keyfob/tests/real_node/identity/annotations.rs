//! Annotations of service accounts, and pods that have no service account.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use serde_json::{Value, json};

use super::{
    PLUGINS, access_by_token_review, allow_audience, bound_to, get, install, node_with_providers,
    provider_errors, subject, write_config,
};
use crate::{
    containerd::Runtime,
    node::{NODE, Node},
    registry::{Pushed, Registry},
    wait::wait_for,
    world::World,
};

const AUDIENCE: &str = "notes.example";
const REQUESTS: &str = "/run/real-node/requests";

pub(crate) fn annotations_decide_whether_a_plugin_runs_and_what_it_reads(world: &mut World) {
    let (access, reviews) = access_by_token_review(&world.cluster.api, AUDIENCE);
    let registry = Registry::start(world, AUDIENCE, access);
    let image = registry.push("app:v1");
    let (namespace, both) = (world.namespace.clone(), "has-both");
    let [role, tenant] = ["notes.example/role", "notes.example/tenant"];
    let accounts = [
        ("has-none", vec![("notes.example/other", "x")]),
        ("has-required", vec![(role, "reader"), ("notes.example/other", "x")]),
        (both, vec![(role, "reader"), (tenant, "acme")]),
    ];
    for (account, annotations) in &accounts {
        world.cluster.create_service_account(&namespace, account, annotations);
    }
    let attributes = json!({
        "serviceAccountTokenAudience": AUDIENCE,
        "cacheType": "Token",
        "requireServiceAccount": true,
        "requiredServiceAccountAnnotationKeys": [role],
        "optionalServiceAccountAnnotationKeys": [tenant],
    });
    let config = write_config(world, &recording_provider(&attributes));
    allow_audience(world, AUDIENCE);
    let node = Node::start(world, &node_with_providers(Runtime::Containerd21, &config));
    let create = |account| world.pod(account, &image).service_account(account).create();
    let flags =
        |account| [format!("--service-account={namespace}/{account}"), format!("--pod={account}")];
    let get = |account| {
        let [account, pod] = flags(account);
        get(world, &image.reference, &config, &[&account, &pod])
    };

    // Without the required annotation neither a kubelet nor Keyfob runs the plugin, and neither calls it an error.
    create("has-none").wait_until_waiting("ErrImagePull");
    assert_eq!(get("has-none"), json!({"image": image.reference, "credentials": [], "errors": []}));
    assert_eq!(recorded_requests(), [] as [Value; 0]);
    assert_eq!(provider_errors(&node.kubelet.log()), [] as [String; 0]);

    // With it, the plugin reads the annotations that the configuration names and no others.
    let expected = [
        ("has-required", json!({role: "reader"})),
        (both, json!({role: "reader", tenant: "acme"})),
    ];
    for (account, annotations) in expected {
        let pod = create(account);
        pod.wait_until_running();
        assert_eq!(reviews.subjects().last(), Some(&bound_to(&pod, account, AUDIENCE)));
        let answer = get(account);
        assert_eq!(answer["errors"], json!([]), "{answer}");
        let [from_kubelet, from_keyfob] = take_requests().try_into().unwrap();
        assert_eq!(from_kubelet["serviceAccountAnnotations"], annotations);
        assert_eq!(without_token(&from_keyfob), without_token(&from_kubelet));
        for request in [from_kubelet, from_keyfob] {
            let token = request["serviceAccountToken"].as_str().unwrap();
            let review = world.cluster.api.review_token(token, AUDIENCE);
            assert_eq!(subject(&review), bound_to(&pod, account, AUDIENCE));
        }
    }
}

/// Static pods are the only ones without a service account.
pub(crate) fn a_pod_without_an_account_is_asked_about_without_a_token(world: &mut World) {
    let (access, _) = access_by_token_review(&world.cluster.api, AUDIENCE);
    let registry = Registry::start(world, "static.example", access);
    let image = registry.push("app:v1");
    let pods = world.files.join("static-pods");
    fs::create_dir_all(&pods).unwrap();
    for (name, required, requests) in [
        ("required", true, vec![]),
        (
            "optional",
            false,
            vec![json!({
                "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
                "kind": "CredentialProviderRequest",
                "image": "static.example/app",
            })],
        ),
    ] {
        let attributes = json!({
            "serviceAccountTokenAudience": AUDIENCE,
            "cacheType": "Token",
            "requireServiceAccount": required,
        });
        let config = write_config(world, &recording_provider(&attributes));
        write_static_pod(&pods, name, &image);
        let options = node_with_providers(Runtime::Containerd21, &config);
        let options = options.config("staticPodPath", json!(pods));
        let _node = Node::start(world, &options);
        wait_until_refused(world, &format!("{name}-{NODE}"));
        let mut seen = take_requests();
        // A kubelet asks again when the pod waits for its next try.
        seen.dedup();
        assert_eq!(seen, requests, "{name}");
    }
}

/// The echo plugin, behind a script that keeps the requests.
fn recording_provider(attributes: &Value) -> Value {
    let name = "recording-credential-provider";
    install(&["echo-credential-provider"]);
    fs::write(REQUESTS, "").unwrap();
    let path = Path::new(PLUGINS).join(name);
    let script = format!("#!/bin/sh\ntee -a {REQUESTS} | {PLUGINS}/echo-credential-provider\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    json!({
        "name": name,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": [AUDIENCE, "static.example"],
        "defaultCacheDuration": "10m",
        "tokenAttributes": attributes,
    })
}

/// All requests that plugins have read.
fn recorded_requests() -> Vec<Value> {
    let text = fs::read_to_string(REQUESTS).unwrap();
    let requests = serde_json::Deserializer::from_str(&text).into_iter();
    requests.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// All requests since the last call.
fn take_requests() -> Vec<Value> {
    let requests = recorded_requests();
    fs::write(REQUESTS, "").unwrap();
    requests
}

fn without_token(request: &Value) -> Value {
    let mut request = request.clone();
    request.as_object_mut().unwrap().remove("serviceAccountToken");
    request
}

fn write_static_pod(directory: &Path, name: &str, image: &Pushed) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"hostNetwork": true, "containers": [{"name": "app", "image": image.reference}]},
    });
    fs::write(directory.join("pod.json"), pod.to_string()).unwrap();
}

/// Waits until the kubelet says that it could not pull the image of a static pod.
fn wait_until_refused(world: &World, mirror: &str) {
    wait_for(mirror, Duration::from_mins(1), || {
        let pod = world.cluster.api.get(&format!("/api/v1/namespaces/default/pods/{mirror}"));
        let pod = pod.map_err(|refusal| refusal.message)?;
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        if waiting == "ErrImagePull" || waiting == "ImagePullBackOff" {
            assert!(pod["spec"]["serviceAccountName"].is_null(), "{pod}");
            return Ok(());
        }
        Err(pod["status"].to_string())
    });
}
