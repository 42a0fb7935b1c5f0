//! The manifests of `deploy/` say what they should, and agree with each other and with the program.
#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers; and it runs the program"
)]

use std::{fs, path::Path, process::Command};

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    apps::v1::Deployment,
    core::v1::{Namespace, Service, ServiceAccount},
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use keyfob_api::document::{Document, Node, Value as Tree, documents};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

fn read(file: &str) -> Vec<Value> {
    let text = fs::read(Path::new(DEPLOY).join(file)).unwrap();
    let read = |text| json(&Document::read(text).unwrap().root);
    documents(&text).into_iter().map(read).collect()
}

fn json(node: &Node) -> Value {
    match &node.value {
        Tree::Bool(value) => (*value).into(),
        Tree::Number(text) => serde_json::from_str(text).unwrap(),
        Tree::String(text) => text.expose().as_str().into(),
        Tree::List(items) => items.iter().map(json).collect(),
        Tree::Map(fields) => {
            fields.iter().map(|field| (field.name.expose().clone(), json(&field.node))).collect()
        }
        Tree::Null => Value::Null,
    }
}

fn only(file: &str, kind: &str) -> Value {
    let mut found = read(file).into_iter().filter(|object| object["kind"] == kind);
    found.next().unwrap_or_else(|| panic!("{file} has no {kind}"))
}

/// Fails if the API does not know a field, or knows it otherwise.
fn known<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(typed).unwrap(), object);
}

#[test]
fn every_field_is_one_of_the_api() {
    let mut kinds = Vec::new();
    for file in ["namespace", "rbac", "deployment", "service"] {
        for object in read(&format!("base/{file}.yaml")) {
            let kind = object["kind"].as_str().unwrap().to_owned();
            match kind.as_str() {
                "ClusterRole" => known::<ClusterRole>(&object),
                "ClusterRoleBinding" => known::<ClusterRoleBinding>(&object),
                "Deployment" => known::<Deployment>(&object),
                "Namespace" => known::<Namespace>(&object),
                "PodDisruptionBudget" => known::<PodDisruptionBudget>(&object),
                "Service" => known::<Service>(&object),
                "ServiceAccount" => known::<ServiceAccount>(&object),
                other => panic!("what is a {other}?"),
            }
            kinds.push(kind);
        }
    }
    assert_eq!(kinds.len(), 7);
    known::<ValidatingWebhookConfiguration>(&only(
        "webhook/webhook.yaml",
        "ValidatingWebhookConfiguration",
    ));
}

#[test]
fn the_names_in_one_manifest_are_those_of_another() {
    let webhook = &only("webhook/webhook.yaml", "ValidatingWebhookConfiguration")["webhooks"][0];
    let service = only("base/service.yaml", "Service");
    let deployment = only("base/deployment.yaml", "Deployment");
    let certificate = only("cert-manager/certificate.yaml", "Certificate");
    let pod = &deployment["spec"]["template"];

    let called = &webhook["clientConfig"]["service"];
    let name = |object: &Value| object["metadata"]["name"].clone();
    let namespace = only("base/namespace.yaml", "Namespace");
    assert_eq!(called["name"], name(&service));
    assert_eq!(called["namespace"], name(&namespace));
    assert_eq!(called["path"], "/validate");
    assert_eq!(called["port"], service["spec"]["ports"][0]["port"]);
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]);
    let account = only("base/rbac.yaml", "ServiceAccount");
    assert_eq!(pod["spec"]["serviceAccountName"], name(&account));
    let host = format!(
        "{}.{}.svc",
        called["name"].as_str().unwrap(),
        called["namespace"].as_str().unwrap()
    );
    assert_eq!(certificate["spec"]["dnsNames"][0], host.as_str());
    assert_eq!(
        certificate["spec"]["secretName"],
        pod["spec"]["volumes"][0]["secret"]["secretName"]
    );
    let script = fs::read_to_string(Path::new(DEPLOY).join("certificate.sh")).unwrap();
    assert!(script.contains(&format!("name={host}\n")));
    let left_out = &webhook["namespaceSelector"]["matchExpressions"][0]["values"];
    assert!(left_out.as_array().unwrap().contains(&name(&namespace)));
    let version = format!("keyfob:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(pod["spec"]["containers"][0]["image"], version.as_str());
}

/// The program reads them all, and then misses the certificate.
#[test]
fn the_flags_in_the_deployment_are_ours() {
    let deployment = only("base/deployment.yaml", "Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();

    let output = Command::new(env!("CARGO_BIN_EXE_keyfob")).args(&args).output().unwrap();

    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        "keyfob: cannot read /tls/tls.crt: No such file or directory (os error 2)\n"
    );
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/tls");
    assert!(args.contains(&"--timeout=4s".to_owned()));
    let webhook = &only("webhook/webhook.yaml", "ValidatingWebhookConfiguration")["webhooks"][0];
    assert_eq!(webhook["timeoutSeconds"], 5);
    assert_eq!(container["ports"][0]["containerPort"], 8443);
}

#[test]
fn the_kustomizations_name_files_that_are_there() {
    for folder in ["base", "cert-manager", "webhook", "webhook-before-1.28"] {
        let kustomization = only(&format!("{folder}/kustomization.yaml"), "Kustomization");
        for resource in kustomization["resources"].as_array().unwrap() {
            let path = Path::new(DEPLOY).join(folder).join(resource.as_str().unwrap());
            assert!(path.exists(), "{}", path.display());
        }
    }
}
