//! What is told when a provider cannot be asked as the pod, and what to do then.

use serde_json::{Value, json};

use crate::{
    IMAGE, POD,
    api_server::refusal,
    cluster::{Cluster, answer},
    node, run,
};

const ACCOUNT: &str = "/api/v1/namespaces/shop/serviceaccounts/cart";
const REFUSED: &str = "serviceaccounts \"cart\" is forbidden: system:node:n1 is not authorized to request tokens for \
                       audience \"registry.example\"";

/// A cluster that refuses whatever has this path.
fn refusing(path: &'static str, code: u16, message: &'static str) -> Cluster {
    Cluster::answering(move |request| {
        if request.path() == path { refusal(code, message) } else { answer(request) }
    })
}

/// What explain calls the problem, and says to do.
fn told(cluster: &Cluster) -> (String, String) {
    let node = node();
    let kubeconfig = cluster.kubeconfig(&node);
    let said = run(&node, "explain", &[&POD, &["--kubeconfig", &kubeconfig, "-o", "json"]]);
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    let json = said.json();
    let problem = json.pointer("/providers/0/problems/0").unwrap();
    let text = |name: &str| {
        problem.get(name).and_then(Value::as_str).unwrap().replace(&cluster.url(), "SERVER")
    };
    (text("problem"), text("do"))
}

#[test]
fn a_refused_audience_names_the_rule_that_is_missing_and_the_yaml_that_grants_it() {
    let cluster = refusing("/api/v1/namespaces/shop/serviceaccounts/cart/token", 403, REFUSED);
    let node = node();
    let kubeconfig = cluster.kubeconfig(&node);
    let flags = ["--kubeconfig", &kubeconfig];

    let said = run(&node, "explain", &[&POD, &flags]);
    assert_eq!(said.code, 1);
    for line in [
        format!("problem      failed to get service account token: {REFUSED}\n"),
        "no role grants the verb request-serviceaccounts-token-audience on the resource registry.example".into(),
        "\n    kind: Role\n".into(),
        "\n      resources: [\"registry.example\"]\n".into(),
        "\n      verbs: [request-serviceaccounts-token-audience]\n".into(),
        "\n      name: \"system:nodes\"\n".into(),
    ] {
        assert!(said.stdout.contains(&line), "{line}\n{}", said.stdout);
    }

    let said = run(&node, "explain", &[&POD, &flags, &["-o", "json"]]).json();
    let identity = &said["providers"][0]["identity"];
    assert_eq!(identity["serviceAccount"], "shop/cart");
    assert_eq!(identity["grant"]["clause"], "not-authorized");
    assert_eq!(identity["grant"]["verb"], "request-serviceaccounts-token-audience");
    assert!(identity["grant"]["yaml"].as_str().unwrap().contains("kind: RoleBinding\n"));

    let said = run(&node, "get", &[&POD, &flags, &["-o", "json"]]);
    assert_eq!((said.code, said.stderr.as_str()), (1, ""));
    assert_eq!(
        said.json(),
        json!({
            "image": IMAGE, "credentials": [],
            "errors": [{"provider": "tokens", "error": format!("failed to get service account token: {REFUSED}")}],
        })
    );
}

#[test]
fn a_verb_that_is_missing_is_named() {
    let (problem, remedy) =
        told(&refusing(ACCOUNT, 403, "serviceaccounts \"cart\" is forbidden: no"));
    assert_eq!(problem, "failed to get service account: serviceaccounts \"cart\" is forbidden: no");
    assert!(remedy.contains("the verb get on serviceaccounts in namespace shop"), "{remedy}");
    assert!(remedy.ends_with("kubectl auth can-i get serviceaccounts/cart --namespace shop"));

    let token = "/api/v1/namespaces/shop/serviceaccounts/cart/token";
    let (_, remedy) = told(&refusing(token, 403, "serviceaccounts \"cart\" is forbidden: no"));
    assert!(remedy.contains("the verb create on serviceaccounts/token"), "{remedy}");

    let pod = "/api/v1/namespaces/shop/pods/cart-1";
    let (_, remedy) = told(&refusing(pod, 403, "pods \"cart-1\" is forbidden: no"));
    assert!(remedy.contains("the verb get on pods"), "{remedy}");
    assert!(remedy.contains("or give --pod-uid"), "{remedy}");

    let (_, remedy) = told(&refusing(token, 422, "it is too long"));
    assert_eq!(remedy, "correct what it refuses");
}

#[test]
fn what_is_not_there_can_be_made() {
    let (problem, remedy) = told(&refusing(ACCOUNT, 404, "serviceaccounts \"cart\" not found"));
    assert_eq!(problem, "failed to get service account: serviceaccounts \"cart\" not found");
    assert!(remedy.contains("kubectl create serviceaccount cart --namespace shop"), "{remedy}");

    let pod = "/api/v1/namespaces/shop/pods/cart-1";
    let (_, remedy) = told(&refusing(pod, 404, "pods \"cart-1\" not found"));
    assert!(remedy.starts_with("correct --pod;"), "{remedy}");

    let token = "/api/v1/namespaces/shop/serviceaccounts/cart/token";
    let (_, remedy) = told(&refusing(token, 409, "the UID does not match"));
    assert!(remedy.starts_with("try again: "), "{remedy}");
}

#[test]
fn a_node_is_told_what_nodes_may_not() {
    let token = "/api/v1/namespaces/shop/serviceaccounts/cart/token";
    for (code, words, remedy) in [
        (403, "node requested token not bound to a pod", "name the pod with --pod"),
        (
            403,
            "node requested token bound to a pod scheduled on a different node",
            "ask as the pod's own node",
        ),
        (
            403,
            "no relationship found between node 'n1' and this object",
            "ask as the pod's own node, and",
        ),
        (
            400,
            "cannot bind token for serviceaccount \"cart\" to pod running with different serviceaccount name.",
            "correct --service-account",
        ),
        (403, "error validating audience \"x\": no claim", "mend the pod's volumes"),
        (
            403,
            "serviceaccounts \"cart\" is forbidden: the UID in the bound object reference (x) does not match the UID in record.",
            "try again: the account or the pod was deleted and made anew; correct --pod-uid",
        ),
    ] {
        let (_, told) = told(&refusing(token, code, words));
        assert!(told.starts_with(remedy), "{told}");
    }
}

#[test]
fn a_missing_annotation_passes_the_provider_over_and_says_which() {
    let cluster = Cluster::answering(|request| match request.path() {
        ACCOUNT => keyfob_testkit::Response::json(
            r#"{"metadata":{"name":"cart","namespace":"shop","uid":"u-sa","annotations":{"example.com/zone":"eu"}}}"#,
        ),
        _ => answer(request),
    });
    let node = node();
    let kubeconfig = cluster.kubeconfig(&node);
    let flags = ["--kubeconfig", &kubeconfig];

    let said = run(&node, "explain", &[&POD, &flags]);

    assert_eq!(said.code, 3);
    for line in [
        "no credentials: every provider that matches is passed over; the pull would be anonymous\n",
        "  problem      required annotation example.com/role not found on service account shop/cart\n",
        "kubectl annotate serviceaccount cart --namespace shop example.com/role=VALUE\n",
    ] {
        assert!(said.stdout.contains(line), "{line}\n{}", said.stdout);
    }
    assert_eq!(run(&node, "get", &[&POD, &flags]).code, 3);
}
