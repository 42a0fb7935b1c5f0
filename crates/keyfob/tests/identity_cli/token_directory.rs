//! Tokens from a directory: no API server, no network.

use crate::{POD, cluster, node, request, run};

const MANIFEST: &str = "\
kind: ServiceAccount
metadata: {name: cart, namespace: shop, uid: u-sa, annotations: {example.com/role: puller}}
";

#[test]
fn a_plugin_is_asked_with_the_token_that_fits() {
    let node = node();
    std::fs::create_dir(node.path("tokens-here")).unwrap();
    node.file("tokens-here/any name", &cluster::pod_token());
    node.file("tokens-here/cart.yaml", MANIFEST);
    let directory = node.path("tokens-here").display().to_string();

    let said = run(&node, "get", &[&POD, &["--token-dir", &directory]]);

    let unchecked = format!(
        "keyfob: whether a node may request such tokens was not checked: they are from {directory}, and no API server was asked\n"
    );
    assert_eq!((said.code, said.stderr.as_str()), (0, unchecked.as_str()));
    assert_eq!(request(&node)["serviceAccountToken"], cluster::pod_token());
    assert_eq!(request(&node)["serviceAccountAnnotations"]["example.com/role"], "puller");
    let explained = run(&node, "explain", &[&POD, &["--token-dir", &directory]]);
    let known = format!("its account is known to {directory}\n");
    assert!(explained.stdout.contains(&known), "{}", explained.stdout);
}

#[test]
fn why_no_file_fits_is_told_with_the_way_to_get_one() {
    let node = node();
    std::fs::create_dir(node.path("tokens-here")).unwrap();
    node.file("tokens-here/cart.yaml", MANIFEST);
    node.file("tokens-here/token", "hunter2-signature");
    let directory = node.path("tokens-here").display().to_string();

    let said = run(&node, "explain", &[&POD, &["--token-dir", &directory, "-o", "json"]]);

    assert_eq!(said.code, 1);
    let problem = &said.json()["providers"][0]["problems"][0];
    let text = |name: &str| problem[name].as_str().unwrap().replace(&directory, "DIR");
    assert!(
        text("problem")
            .contains("for audience registry.example in DIR: token is no JSON web token")
    );
    assert_eq!(
        text("do"),
        "put one there: kubectl create token cart --namespace shop --audience registry.example > \
         DIR/cart-registry-example"
    );
}

#[test]
fn an_annotation_that_no_manifest_has_is_to_be_put_into_one() {
    let node = node();
    std::fs::create_dir(node.path("tokens-here")).unwrap();
    node.file("tokens-here/token", &cluster::pod_token());
    let directory = node.path("tokens-here").display().to_string();

    let said = run(&node, "explain", &[&POD, &["--token-dir", &directory]]);

    assert_eq!(said.code, 3, "{}", said.stderr);
    let remedy = "kubectl get serviceaccount cart --namespace shop -o yaml > ";
    assert!(said.stdout.contains(&format!("{remedy}{directory}/cart.yaml\n")), "{}", said.stdout);
}
