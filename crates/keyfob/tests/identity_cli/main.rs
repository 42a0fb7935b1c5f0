//! `keyfob get` and `explain` as a pod's service account, with real plugins and an API server on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "../support/account_plugin.rs"]
mod account_plugin;
#[path = "../support/api_server.rs"]
mod api_server;
#[path = "../support/node.rs"]
mod node;

mod cluster;
mod embedded;
mod faults;
mod feature_gates;
mod global_answers;
mod node_check;
mod refusals;
mod token_directory;

use account_plugin::{IMAGE, PASSWORD, asked, with_plugin};
use cluster::{AUDIENCE, Cluster, SECRETS};
use keyfob_testkit::LeakCheck;
use node::{Node, Said, answer, keyfob};
use serde_json::{Value, json};

const POD: [&str; 4] = ["--service-account", "shop/cart", "--pod", "cart-1"];

/// A node whose plugin is asked as a service account.
fn node() -> Node {
    with_tokens(Node::new(), "tokens")
}

fn with_tokens(node: Node, name: &str) -> Node {
    let attributes = json!({
        "serviceAccountTokenAudience": AUDIENCE,
        "cacheType": "ServiceAccount",
        "requireServiceAccount": true,
        "requiredServiceAccountAnnotationKeys": ["example.com/role"],
        "optionalServiceAccountAnnotationKeys": ["example.com/zone", "example.com/none"],
    });
    with_plugin(node, name, attributes)
}

/// What the plugin was told.
fn request(node: &Node) -> Value {
    asked(node).unwrap()
}

/// Runs a command, in whose output no secret stands.
fn run(node: &Node, command: &str, args: &[&[&str]]) -> Said {
    let said = node.run(command, &[&[IMAGE], args.concat().as_slice()].concat());
    let leaks = LeakCheck::new(SECRETS.into_iter().chain([PASSWORD]));
    leaks.text("stdout", &said.stdout).text("stderr", &said.stderr);
    said
}

#[test]
fn a_plugin_is_asked_with_the_pods_token_and_annotations() {
    let (node, cluster) = (node(), Cluster::start());
    let kubeconfig = cluster.kubeconfig(&node);

    let said = run(&node, "get", &[&POD, &["--pod-uid", "u-pod", "--kubeconfig", &kubeconfig]]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{}", said.stdout);
    let request = request(&node);
    assert_eq!(request["serviceAccountToken"], cluster::pod_token());
    let annotations = json!({"example.com/role": "puller", "example.com/zone": "eu"});
    assert_eq!(request["serviceAccountAnnotations"], annotations);
    assert_eq!(
        cluster.asked(),
        [
            "GET /api/v1/namespaces/shop/serviceaccounts/cart",
            "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
            "POST /api/v1/namespaces/shop/serviceaccounts/cart/token",
        ]
    );
    assert_eq!(cluster.wanted()["spec"]["boundObjectRef"]["uid"], "u-pod");
}

#[test]
fn a_pods_uid_is_looked_up_if_nobody_gives_it() {
    let (node, cluster) = (node(), Cluster::start());
    let kubeconfig = cluster.kubeconfig(&node);

    let said = run(&node, "get", &[&POD, &["--kubeconfig", &kubeconfig]]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(cluster.asked()[2], "GET /api/v1/namespaces/shop/pods/cart-1");
    assert_eq!(cluster.wanted()["spec"]["boundObjectRef"]["uid"], "u-pod");
}

#[test]
fn explain_says_as_whom_and_what_the_token_claims() {
    let (node, cluster) = (node(), Cluster::start());
    let kubeconfig = cluster.kubeconfig(&node);

    let said = run(&node, "explain", &[&POD, &["--kubeconfig", &kubeconfig]]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    let pulled_by = format!(
        "  pulled by    shop/cart, pod cart-1; its account is known to {}/\n",
        cluster.url()
    );
    for line in [
        pulled_by.as_str(),
        "  account      shop/cart (uid u-sa), for audience registry.example\n",
        "  annotation   example.com/role=puller\n               example.com/zone=eu\n",
        "  token        says it is of system:serviceaccount:shop:cart, for registry.example, issued by \
         https://cluster.example, bound to pod cart-1 (u-pod) on node n1; it ends in ",
        ", at 2130-01-01T00:00:00Z\n",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
    assert!(!said.stdout.contains("asked without a token"), "{}", said.stdout);
}

#[test]
fn explain_in_json_has_the_documented_identity() {
    let (node, cluster) = (node(), Cluster::start());
    let kubeconfig = cluster.kubeconfig(&node);

    let said = run(&node, "explain", &[&POD, &["--kubeconfig", &kubeconfig, "-o", "json"]]).json();

    let source = format!("{}/", cluster.url());
    assert_eq!(
        said["identity"],
        json!({"serviceAccount": "shop/cart", "pod": "cart-1", "source": source})
    );
    let mut identity = said["providers"][0]["identity"].clone();
    assert!(identity["for"].take().is_string());
    assert_eq!(
        identity,
        json!({
            "serviceAccount": "shop/cart",
            "uid": "u-sa",
            "audience": "registry.example",
            "annotations": {"example.com/role": "puller", "example.com/zone": "eu"},
            "claims": {
                "issuer": "https://cluster.example",
                "subject": "system:serviceaccount:shop:cart",
                "audiences": ["registry.example"],
                "pod": {"name": "cart-1", "uid": "u-pod"},
                "node": {"name": "n1", "uid": "u-node"},
            },
            "expires": "2130-01-01T00:00:00Z",
            "for": null,
            "grant": null,
        })
    );
}

#[test]
fn a_token_that_is_the_password_is_shown_only_if_asked_for() {
    let token = cluster::pod_token();
    let script = answer(&[["r.example", "jwt", &token]]);
    let attributes = json!({
        "serviceAccountTokenAudience": AUDIENCE, "cacheType": "Token", "requireServiceAccount": true,
    });
    let node = Node::new().with("echo", &["r.example"], &script);
    let node = node.having("tokenAttributes", attributes);
    let cluster = Cluster::start();
    let kubeconfig = cluster.kubeconfig(&node);
    let flags = ["--service-account", "shop/cart", "--kubeconfig", &kubeconfig];

    let hidden = run(&node, "get", &[&flags]);
    assert!(hidden.stdout.ends_with("jwt       ***\n"), "{}{}", hidden.stdout, hidden.stderr);
    run(&node, "explain", &[&flags, &["-vvv"]]);

    let shown = node.run("get", &[&[IMAGE, "--show-secrets"], &flags[..]].concat());
    assert!(shown.stdout.contains(&token));
    LeakCheck::new(SECRETS).text("stderr", &shown.stderr);
}

#[test]
fn nothing_is_asked_of_a_cluster_without_an_account() {
    let (node, cluster) = (node().answering("plain", &["r.example"], &[]), Cluster::start());
    let kubeconfig = cluster.kubeconfig(&node);

    let said = run(&node, "get", &[&["--kubeconfig", &kubeconfig]]);
    assert_eq!(said.code, 2);
    assert_eq!(said.stderr, "keyfob: --kubeconfig needs --service-account NAMESPACE/NAME\n");

    let said = run(&node, "explain", &[]);
    let remedy = "    do         say whose pull it is, with --service-account NAMESPACE/NAME";
    assert!(said.stdout.contains(remedy), "{}", said.stdout);
    assert_eq!(cluster.asked().len(), 0);
}

#[test]
fn an_account_without_providers_is_refused() {
    let node = node();
    let secret = node.file("secret.json", "{}");

    let said = keyfob(&["get", IMAGE, "--pull-secret", &secret, "--service-account", "shop/cart"]);

    let told = "keyfob: --service-account is for providers: add --config and --bin-dir\n";
    assert_eq!((said.code, said.stderr.as_str()), (2, told));
}
