//! Providers that match and give nothing, or something else than in a kubelet.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    ADA, FAILING, IMAGE, explain,
    node::{Node, answer},
    report,
};

/// What is wrong with the only provider, and what to do about it.
fn problem(node: &Node, image: &str) -> (String, String) {
    let report = report(node, image);
    let text = |name: &str| {
        let path = format!("/providers/0/problems/0/{name}");
        report.pointer(&path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    (text("problem"), text("do"))
}

#[test]
fn a_plugin_that_is_not_there_is_explained() {
    let node = Node::new().answering("gone", &["r.example"], &[]);
    fs::remove_file(node.path("plugins/gone")).unwrap();

    let said = explain(&node, &[IMAGE]);

    assert_eq!(said.code, 1);
    assert!(said.stdout.starts_with("no credentials: every provider that matches failed; "));
    assert!(
        said.stdout.contains("a kubelet would not start with this configuration: no plugin at")
    );
    assert!(
        said.stdout
            .contains("install the plugin there, or correct the provider's name or --bin-dir")
    );
}

#[test]
fn a_plugin_that_cannot_be_run_or_fails_is_explained() {
    let plain = Node::new().answering("plain", &["r.example"], &[]);
    fs::remove_file(plain.path("plugins/plain")).unwrap();
    plain.file("plugins/plain", "");
    let (text, remedy) = problem(&plain, IMAGE);
    assert!(text.contains("permission denied"), "{text}");
    assert!(remedy.contains("chmod +x "), "{remedy}");

    let directory = Node::new().answering("directory", &["r.example"], &[]);
    fs::remove_file(directory.path("plugins/directory")).unwrap();
    fs::create_dir(directory.path("plugins/directory")).unwrap();
    let (text, remedy) = problem(&directory, IMAGE);
    assert!(text.ends_with("it is a directory"), "{text}");
    assert!(remedy.starts_with("put the plugin itself there"), "{remedy}");

    let failing = Node::new().with("bad", &["r.example"], FAILING);
    let (text, remedy) = problem(&failing, IMAGE);
    assert!(text.ends_with("exit code 3; it said: no [redacted]"), "{text}");
    assert!(remedy.contains("| PLUGIN_TOKEN=… "), "{remedy}");
}

#[test]
fn a_plugin_that_hangs_is_explained() {
    let node = Node::new().with("stuck", &["r.example"], "while :; do sleep 600; done\n");

    let said = explain(&node, &[IMAGE, "--timeout", "200ms"]);

    assert_eq!(said.code, 1);
    assert!(
        said.stdout.contains("provider stuck: matches, and failed after 200.0 ms"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("was killed after 0.2 s without an answer"), "{}", said.stdout);
    assert!(said.stdout.contains("find out what it waits for"), "{}", said.stdout);
}

#[test]
fn an_answer_that_is_none_or_of_no_use_is_explained() {
    let with = |script: &str| Node::new().with("odd", &["r.example"], script);
    let odd = |script: &str| problem(&with(script), IMAGE);
    let foreign = answer(&[["x.example", "ada", "hunter2"]]);

    let (_, remedy) = odd("cat >/dev/null; echo hello\n");
    assert!(remedy.contains("it must print one JSON object and nothing else"), "{remedy}");
    let (_, remedy) = odd(&foreign.replace("k8s.io/v1", "k8s.io/v1beta1"));
    assert!(remedy.contains("set the provider's apiVersion"), "{remedy}");
    let (_, remedy) = odd(&foreign.replace("\"Registry\"", "\"registry\""));
    assert!(remedy.contains("must be Image, Registry or Global"), "{remedy}");
    let (text, remedy) = odd(&foreign);
    assert_eq!(text, "its answer is only for other images");
    assert!(remedy.ends_with("such as \"r.example\""), "{remedy}");
    let (text, _) = odd(&answer(&[]));
    assert_eq!(text, "its answer has no credentials");
    let malformed = report(&with(&answer(&[["r.example:x", "ada", "hunter2"]])), IMAGE);
    let second = &malformed["providers"][0]["problems"][1]["problem"];
    assert_eq!(second, "every key of its answer is malformed");
    let report = report(&with(&foreign.replace("\"Registry\"", "\"Global\"")), IMAGE);
    let second = report["providers"][0]["problems"][1]["do"].as_str().unwrap();
    assert!(second.contains("Registry or Image"), "{second}");
}

#[test]
fn a_provider_that_wants_a_service_account_is_explained() {
    let node = Node::new().answering("tokens", &["r.example"], &[ADA]).having(
        "tokenAttributes",
        json!({
            "serviceAccountTokenAudience": "r.example",
            "cacheType": "ServiceAccount",
            "requireServiceAccount": true,
        }),
    );

    let said = explain(&node, &[IMAGE]);

    assert_eq!(said.code, 3, "{}", said.stderr);
    let first = "unknown here: provider tokens is asked with the pod's service account, which was not given\n";
    assert!(said.stdout.starts_with(first), "{}", said.stdout);
    assert!(said.stdout.ends_with("  none that this command can find out\n"), "{}", said.stdout);
    assert!(!said.stdout.contains("anonymous") && !said.stdout.contains("requireServiceAccount"));
    let report = report(&node, IMAGE);
    assert_eq!(report.get("anonymous"), None);
    assert_eq!(report["providers"][0]["notes"], json!([]));
}

#[test]
fn a_provider_that_can_do_without_a_token_may_answer_otherwise_in_a_kubelet() {
    let node = Node::new().answering("tokens", &["r.example"], &[ADA]).having(
        "tokenAttributes",
        json!({
            "serviceAccountTokenAudience": "r.example",
            "cacheType": "ServiceAccount",
            "requireServiceAccount": false,
        }),
    );

    let said = explain(&node, &[IMAGE]);

    assert_eq!(said.code, 0);
    let told = "  note         it was asked without a token; a kubelet hands it the pod's when the pod has a service account";
    assert!(said.stdout.contains(told), "{}", said.stdout);
    assert_eq!(report(&node, IMAGE)["providers"][0]["notes"].as_array().unwrap().len(), 1);
}

#[test]
fn that_some_failed_is_said_where_the_others_gave_nothing() {
    let node =
        Node::new().answering("empty", &["r.example"], &[]).with("bad", &["r.example"], FAILING);

    assert_eq!(
        report(&node, IMAGE)["verdict"],
        "no credentials: no answer of a provider is for this image; the pull would be anonymous; 1 provider failed"
    );
}

#[test]
fn a_plugin_that_somebody_else_could_replace_is_a_problem() {
    let node = Node::new().answering("good", &["r.example"], &[ADA]);
    fs::set_permissions(node.path("plugins"), fs::Permissions::from_mode(0o777)).unwrap();

    let problems = report(&node, IMAGE)["providers"][0]["problems"].clone();

    let texts: Vec<&str> =
        problems.as_array().unwrap().iter().map(|each| each["problem"].as_str().unwrap()).collect();
    let plugins = node.path("plugins").display().to_string();
    let expected =
        format!("somebody else could replace the plugin: {plugins} is writable by everybody");
    assert!(texts.contains(&expected.as_str()), "{texts:?}");
}
