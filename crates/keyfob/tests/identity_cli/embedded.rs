//! The embedded API server: no cluster at all.

use crate::{POD, node, request, run};

const OBJECTS: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata: {name: cart, namespace: shop, annotations: {example.com/role: puller}}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop}
spec: {nodeName: n1, serviceAccountName: cart, containers: [{name: a, image: r.example/team/app}]}
";

#[test]
fn a_node_gets_the_audience_once_the_advice_is_followed() {
    let node = node();
    let objects = node.file("objects.yaml", OBJECTS);
    let flags = ["--api", "embedded", "--objects", &objects];

    let refused = run(&node, "explain", &[&POD, &flags, &["-o", "json"]]);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    let identity = refused.json()["providers"][0]["identity"].clone();
    assert_eq!(refused.json()["identity"]["source"], "embedded");
    let grant = node.file("grant.yaml", identity["grant"]["yaml"].as_str().unwrap());

    let granted = run(&node, "explain", &[&POD, &flags, &["--objects", &grant, "-o", "json"]]);
    assert_eq!(granted.code, 0, "{}{}", granted.stdout, granted.stderr);
    let claims = granted.json()["providers"][0]["identity"]["claims"].clone();
    assert_eq!(claims["subject"], "system:serviceaccount:shop:cart");
    assert_eq!(claims["pod"]["name"], "cart-1");
    let token = request(&node)["serviceAccountToken"].as_str().unwrap().to_owned();
    assert!(!granted.stdout.contains(&token), "the token stands in the report");
}

#[test]
fn a_list_of_allowed_audiences_will_do_too() {
    let node = node();
    let objects = node.file("objects.yaml", OBJECTS);
    let allowed = ["--allowed-kubelet-audiences", "other.example,registry.example"];

    let said = run(&node, "get", &[&POD, &["--api", "embedded", "--objects", &objects], &allowed]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
}

#[test]
fn without_a_pod_a_role_must_allow_the_audience_or_somebody_insist() {
    let node = node();
    let objects = node.file("objects.yaml", OBJECTS);
    let flags = ["--service-account", "shop/cart", "--api", "embedded", "--objects", &objects];

    let refused = run(&node, "get", &[&flags]);
    assert_eq!(refused.code, 1);
    let words = "no node may request tokens for audience \"registry.example\": no role allows it";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);

    let allowed =
        run(&node, "get", &[&flags, &["--allowed-kubelet-audiences", "registry.example"]]);
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);

    let insisting = run(&node, "get", &[&flags, &["--as-me"]]);
    assert_eq!(insisting.code, 0, "{}", insisting.stderr);
    assert!(insisting.stderr.contains("requested as admin, not as a node"), "{}", insisting.stderr);
}

#[test]
fn another_node_than_the_pods_is_refused_and_an_administrator_may_insist() {
    let node = node();
    let objects = node.file("objects.yaml", OBJECTS);
    let flags = ["--api", "embedded", "--objects", &objects];

    let other = run(&node, "get", &[&POD, &flags, &["--node", "n2"]]);
    let words = "keyfob: --node n2 contradicts --objects, where pod shop/cart-1 runs on n1\n";
    assert_eq!((other.code, other.stdout.as_str()), (2, ""), "{}", other.stderr);
    assert!(other.stderr.starts_with(words), "{}", other.stderr);

    let own = run(&node, "get", &[&POD, &flags, &["--node", "n1"]]);
    assert_eq!(own.code, 1, "{}", own.stderr);
    let fix =
        "keyfob: to allow it, add --objects role.yaml after: keyfob audience rbac --audience ";
    assert!(own.stderr.lines().nth(1).unwrap().starts_with(fix), "{}", own.stderr);

    let insisting = run(&node, "get", &[&POD, &flags, &["--as-me"]]);
    assert_eq!(insisting.code, 0, "{}", insisting.stderr);
    assert!(insisting.stderr.contains("requested as admin, not as a node"), "{}", insisting.stderr);
}

#[test]
fn what_the_objects_do_not_hold_is_said() {
    let node = node();
    let objects = node.file("objects.yaml", OBJECTS);
    let flags = ["--api", "embedded", "--objects", &objects];
    let refusal = |args: &[&str]| {
        let said = run(&node, "get", &[args, &flags]);
        (said.code, said.stderr)
    };

    let (code, words) = refusal(&["--service-account", "shop/cart", "--pod", "cart-2"]);
    assert_eq!(code, 2);
    assert!(words.contains("--objects holds no pod shop/cart-2; correct --pod"), "{words}");

    let (code, words) = refusal(&["--service-account", "shop/till"]);
    assert_eq!(code, 1);
    assert!(words.contains("serviceaccounts \"till\" not found"), "{words}");

    let said = run(&node, "get", &[&POD, &["--api", "embedded", "--objects", "/no/such"]]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("/no/such"), "{}", said.stderr);
}

#[test]
fn an_annotation_that_the_objects_lack_is_to_be_added_to_them() {
    let node = node();
    let bare = OBJECTS.replace(", annotations: {example.com/role: puller}", "");
    let objects = node.file("objects.yaml", &bare);

    let said = run(&node, "explain", &[&POD, &["--api", "embedded", "--objects", &objects]]);

    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(
        said.stdout.contains("do         add it to the account in --objects\n"),
        "{}",
        said.stdout
    );
}
