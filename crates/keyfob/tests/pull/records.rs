//! Who may use what is here, by secrets, policies and lists.

use std::fs;

use serde_json::{Value, json};

use crate::{
    machine::Machine,
    registry::{PASSWORD, Served, layer},
};

fn private() -> (Machine, Served, String, String) {
    let (machine, served) = (Machine::new(), Served::private());
    served.push("team/app", "v1", &[layer(1, 1000)]);
    let (image, host) = (served.image("team/app:v1"), served.registry.address().to_string());
    (machine, served, image, host)
}

fn result(machine: &Machine, image: &str, args: &[&str]) -> (i32, Value) {
    let (code, mut said) = machine.pull_json(image, args);
    (code, said["result"].take())
}

fn present() -> (i32, Value) {
    (0, json!("present"))
}

#[test]
fn whoever_has_the_same_secret_has_the_image() {
    let (machine, _served, image, host) = private();
    let [one, same] =
        ["one.json", "same.json"].map(|name| machine.login(name, &host, "ada", PASSWORD));
    let other = machine.login("other.json", &host, "eve", "hunter2-wrong");
    assert_eq!(result(&machine, &image, &["--pull-secret", &one]), (0, json!("pulled")));

    assert_eq!(result(&machine, &image, &["--pull-secret", &same]), present());
    assert_eq!(result(&machine, &image, &["--pull-secret", &other]), (1, json!("failed")));
    assert_eq!(result(&machine, &image, &[]), (1, json!("failed")));
    // Another secret in the same file is another secret.
    let changed = machine.login("one.json", &host, "eve", "hunter2-wrong");
    assert_eq!(result(&machine, &image, &["--pull-secret", &changed]), (1, json!("failed")));
}

#[test]
fn a_secret_of_a_cluster_may_be_rotated() {
    let (machine, served, image, host) = private();
    let secret = |password: &str| {
        let auths =
            json!({"auths": {&host: {"username": "ada", "password": password}}}).to_string();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "regcred", "namespace": "team", "uid": "u-regcred"},
            "stringData": {".dockerconfigjson": auths},
        });
        machine.file("secret.json", &secret.to_string())
    };
    assert_eq!(result(&machine, &image, &["--pull-secret", &secret(PASSWORD)]).0, 0);
    served.registry.set_password("ada", "hunter2-new");
    served.registry.forget_requests();

    assert_eq!(result(&machine, &image, &["--pull-secret", &secret("hunter2-new")]), present());
    assert_eq!(served.registry.requests(), [], "nobody was asked");
}

#[test]
fn without_records_everybody_may_use_what_is_here() {
    let (machine, _served, image, host) = private();
    let docker = machine.login("secret.json", &host, "ada", PASSWORD);
    assert_eq!(result(&machine, &image, &["--pull-secret", &docker, "--no-records"]).0, 0);
    assert!(!machine.dest().join("image_manager").exists());

    assert_eq!(result(&machine, &image, &["--no-records"]), present());
    assert_eq!(result(&machine, &image, &[]), present(), "it counts as preloaded");
    let gate = ["--feature-gates", "KubeletEnsureSecretPulledImages=false"];
    assert_eq!(result(&machine, &image, &gate), present());
    assert!(machine.dest().join("image_manager").exists());
}

#[test]
fn a_policy_says_whose_access_is_verified() {
    let (machine, _served, image, host) = private();
    let secret = machine.login("secret.json", &host, "ada", PASSWORD);
    assert_eq!(result(&machine, &image, &["--pull-secret", &secret, "--no-records"]).0, 0);
    let with = |args: &[&str]| result(&machine, &image, args);
    let failed = (1, json!("failed"));
    let name = image.trim_end_matches(":v1");
    let below = name.replace("team/app", "team/*");
    let listed = ["--verification-policy", "NeverVerifyAllowlistedImages", "--preloaded-image"];

    assert_eq!(with(&["--verification-policy", "AlwaysVerify"]), failed);
    assert_eq!(with(&[&listed[..], &[name]].concat()), present());
    assert_eq!(with(&[&listed[..], &[&below]].concat()), present());
    assert_eq!(with(&[&listed[..], &["r.example/other"]].concat()), failed);

    assert_eq!(with(&["--pull-secret", &secret, "--pull-policy", "Always"]), (0, json!("pulled")));
    assert_eq!(with(&[]), failed, "now it is recorded");
    assert_eq!(with(&["--verification-policy", "NeverVerify"]), present());
}

#[test]
fn a_kubelets_configuration_says_it_too() {
    let (machine, _served, image, host) = private();
    let secret = machine.login("secret.json", &host, "ada", PASSWORD);
    assert_eq!(result(&machine, &image, &["--pull-secret", &secret]).0, 0);
    let config = |policy: &str| {
        let text = format!(
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 7\n\
             imagePullCredentialsVerificationPolicy: {policy}\n"
        );
        machine.file("kubelet.yaml", &text)
    };

    assert_eq!(result(&machine, &image, &["--kubelet-config", &config("NeverVerify")]), present());
    let verified = result(&machine, &image, &["--kubelet-config", &config("AlwaysVerify")]);
    assert_eq!(verified, (1, json!("failed")));
    let said = machine.pull(&image, &["--kubelet-config", &config("Sometimes")]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("a kubelet would not start with "), "{}", said.stderr);
    assert!(said.stderr.contains("option \"Sometimes\" specified"), "{}", said.stderr);
}

#[test]
fn records_are_a_kubelets_wherever_they_are() {
    let (machine, _served, image, host) = private();
    let kubelet = tempfile::tempdir().unwrap();
    let root = kubelet.path().to_str().unwrap();
    let secret = machine.login("secret.json", &host, "ada", PASSWORD);
    let flags = ["--records-dir", root];

    let (code, said) =
        machine.pull_json(&image, &[&flags[..], &["--pull-secret", &secret]].concat());

    assert_eq!((code, &said["records"]), (0, &json!(root)));
    assert!(!machine.dest().join("image_manager").exists());
    let mut entries = fs::read_dir(kubelet.path().join("image_manager/pulled")).unwrap();
    let file = entries.next().unwrap().unwrap();
    assert!(file.file_name().to_str().unwrap().starts_with("sha256-"));
    let record: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
    assert_eq!(
        (&record["kind"], &record["imageRef"]),
        (&json!("ImagePulledRecord"), &said["imageId"])
    );
    let name = image.trim_end_matches(":v1");
    let known = &record["credentialMapping"][name]["kubernetesSecrets"][0];
    assert_eq!(known["name"], json!(secret), "{record}");
    assert_eq!(result(&machine, &image, &flags), (1, json!("failed")));
}
