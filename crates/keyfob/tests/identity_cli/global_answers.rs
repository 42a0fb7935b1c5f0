//! Answers for every image, which KEP-4412 forbids to providers that use service accounts.

use serde_json::{Value, json};

use crate::{
    AUDIENCE, PASSWORD, POD, answer,
    cluster::Cluster,
    node::{Node, Said},
    run,
};

/// A node whose plugin answers for every image, with these attributes beside the audience.
fn node(attributes: &Value) -> Node {
    let script = answer(&[["r.example", "ada", PASSWORD]]).replace("Registry", "Global");
    let mut all = json!({"serviceAccountTokenAudience": AUDIENCE});
    all.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    Node::new().with("tokens", &["r.example"], &script).having("tokenAttributes", all)
}

fn as_in_the_kep() -> Node {
    node(&json!({"serviceAccountAnnotationKeys": ["example.com/role"]}))
}

fn as_for_a_kubelet() -> Node {
    node(&json!({"cacheType": "ServiceAccount", "requireServiceAccount": true}))
}

fn asked(node: &Node, command: &str, flags: &[&str]) -> Said {
    let cluster = Cluster::start();
    let kubeconfig = cluster.kubeconfig(node);
    run(node, command, &[&POD, &["--kubeconfig", &kubeconfig], flags])
}

#[test]
fn they_are_refused_where_the_configuration_is_written_as_in_the_kep() {
    let refused = asked(&as_in_the_kep(), "get", &[]);

    let told = "\
keyfob: provider tokens failed: the plugin's answer is for every image (cacheKeyType Global), which KEP-4412 forbids to a provider \
with tokenAttributes
keyfob: add --global-answers allow to use it, as a kubelet does, or let the plugin answer with cacheKeyType Registry or Image
";
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.starts_with(told), "{}", refused.stderr);

    let allowed = asked(&as_in_the_kep(), "get", &["--global-answers", "allow"]);
    assert_eq!((allowed.code, allowed.stderr.as_str()), (0, ""));
}

#[test]
fn they_are_allowed_elsewhere_unless_refused() {
    let allowed = asked(&as_for_a_kubelet(), "get", &[]);
    assert_eq!((allowed.code, allowed.stderr.as_str()), (0, ""));

    let refused = asked(&as_for_a_kubelet(), "get", &["--global-answers", "refuse"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
}

#[test]
fn explain_says_whether_and_why() {
    for (node, flags, line, allowed) in [
        (
            as_in_the_kep(),
            &[][..],
            "refused, as KEP-4412 has it, in whose dialect the provider is written",
            false,
        ),
        (
            as_in_the_kep(),
            &["--global-answers", "allow"],
            "allowed, by --global-answers allow",
            true,
        ),
        (as_for_a_kubelet(), &[], "allowed, as by a kubelet", true),
        (
            as_for_a_kubelet(),
            &["--global-answers", "refuse"],
            "refused, by --global-answers refuse",
            false,
        ),
    ] {
        let text = asked(&node, "explain", flags).stdout;
        let line = format!("  global       answers for every image are {line}\n");
        assert!(text.contains(&line), "{line}{text}");
        let fix = "    do         add --global-answers allow to use it";
        assert_eq!(text.contains(fix), !allowed, "{text}");

        let report = asked(&node, "explain", &[flags, &["-o", "json"]].concat()).json();
        assert_eq!(report["providers"][0]["globalAnswers"]["allowed"], allowed, "{report}");
    }
    let plain = Node::new().answering("plain", &["r.example"], &[["r.example", "ada", PASSWORD]]);
    let report = run(&plain, "explain", &[&["-o", "json"]]).json();
    assert_eq!(report["providers"][0]["globalAnswers"], Value::Null, "{report}");
}
