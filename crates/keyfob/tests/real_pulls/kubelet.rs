//! Records of a real registry's image, in the directory of a kubelet that runs and of one that is stopped.

use std::{fs, os::unix::net::UnixListener, path::Path};

use serde_json::json;

use crate::{
    docker_registry::{PASSWORD, Registry, USER},
    is_wanted, login,
    node::{Node, Said, keyfob},
};

fn pull(node: &Node, registry: &Registry, records: &Path) -> Said {
    let (image, dest) = (format!("{}/private/a:v1", registry.address), node.path("oci"));
    let login = json!({"auths": {&registry.address: {"username": USER, "password": PASSWORD}}});
    let secret = node.file("secret.json", &login.to_string());
    keyfob(&[
        "pull",
        "--quiet",
        &image,
        dest.to_str().unwrap(),
        "--pull-secret",
        &secret,
        "--records-dir",
        records.to_str().unwrap(),
    ])
}

#[test]
fn an_image_is_recorded_only_while_the_kubelet_is_stopped() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start_for(&[USER]);
    registry.push("private/a:v1", Some(&login()), &[1_000]);
    let (node, kubelet) = (Node::new(), tempfile::tempdir().unwrap());
    fs::create_dir(kubelet.path().join("pod-resources")).unwrap();
    let socket = kubelet.path().join("pod-resources/kubelet.sock");
    let listener = UnixListener::bind(&socket).unwrap();

    let refused = pull(&node, &registry, kubelet.path());

    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("a kubelet runs on "), "{}", refused.stderr);
    assert!(!kubelet.path().join("image_manager").exists());

    // Its socket stays when it is stopped.
    drop(listener);
    let said = pull(&node, &registry, kubelet.path());
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let listed = keyfob(&["records", "list", "--records-dir", kubelet.path().to_str().unwrap()]);
    assert!(listed.stdout.contains("/private/a"), "{}{}", listed.stdout, listed.stderr);
}
