//! Feature gates of the API server: `keyfob apiserver --feature-gates`, and of the embedded one.

use crate::{
    POD,
    account_plugin::asked,
    node,
    node::keyfob,
    node_check::{OBJECTS, World},
    run,
};

const RESTRICTION_OFF: [&str; 2] =
    ["--feature-gates", "ServiceAccountNodeAudienceRestriction=false"];
const REFUSED: &str = "node n1 may not request tokens for audience \"registry.example\"\n";

#[test]
fn a_node_gets_any_audience_of_a_server_whose_restriction_is_off() {
    let [on, off] =
        [&["--feature-gates", "ServiceAccountNodeAudienceRestriction=true"], &RESTRICTION_OFF]
            .map(|gates| World::with(OBJECTS, gates));

    let refused = on.run("get", "n1", "--pod cart-1");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains(REFUSED), "{}", refused.stderr);

    let allowed = off.run("get", "n1", "--pod cart-1");
    assert_eq!((allowed.code, allowed.stderr.as_str()), (0, ""));
    assert!(asked(&off.node).unwrap()["serviceAccountToken"].is_string());
}

#[test]
fn nodes_read_no_accounts_of_a_server_that_has_both_of_their_gates_off() {
    let gates =
        "KubeletServiceAccountTokenForCredentialProviders=false,kube:PodCertificateRequest=false";
    let world = World::with(OBJECTS, &["--feature-gates", gates]);

    let said = world.run("get", "n1", "--pod cart-1");

    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("not allowed to get service accounts"), "{}", said.stderr);
}

#[test]
fn the_embedded_server_has_the_gates_of_the_command() {
    let node = node();
    let objects = node.file("objects.yaml", OBJECTS);
    let flags = ["--api", "embedded", "--objects", &objects];

    let refused = run(&node, "get", &[&POD, &flags]);
    assert!(refused.stderr.contains(REFUSED), "{}", refused.stderr);

    let allowed = run(&node, "get", &[&POD, &flags, &RESTRICTION_OFF, &["-v"]]);
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);
    assert!(!allowed.stderr.contains("decides nothing here"), "{}", allowed.stderr);
}

/// Else an administrator's answer would be another than the node's.
#[test]
fn a_clusters_gates_are_not_those_of_the_command() {
    let world = World::with(OBJECTS, &[]);

    let flags = format!("--pod cart-1 -v {}", RESTRICTION_OFF.join(" "));
    let said = world.run("get", "admin", &flags);

    assert_eq!(said.code, 1);
    assert!(said.stderr.contains(REFUSED), "{}", said.stderr);
    let unread =
        "a feature gate that decides nothing here gate=\"ServiceAccountNodeAudienceRestriction\"";
    assert!(said.stderr.contains(unread), "{}", said.stderr);
}

#[test]
fn a_server_does_not_start_with_a_gate_that_kubernetes_has_removed() {
    let said = keyfob(&["apiserver", "--feature-gates", "KubeletCredentialProviders=true"]);

    let words = "\
keyfob: the feature gate KubeletCredentialProviders was removed in Kubernetes 1.28
keyfob: remove KubeletCredentialProviders from the feature gates; credential providers are always on since 1.26
";
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (2, "", words));
}
