//! Who may use what is here, by secrets, policies and lists.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::{Command, Stdio},
};

use aws_lc_rs::digest::{SHA256, digest};
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

/// The file of the record of an image.
fn record_of(root: &Path, image_id: &str) -> std::path::PathBuf {
    let hash = digest(&SHA256, image_id.as_bytes());
    let two_digits = |byte: &u8| format!("{byte:02x}");
    let hex: String = hash.as_ref().iter().map(two_digits).collect();
    root.join("image_manager/pulled").join(format!("sha256-{hex}"))
}

#[test]
fn a_lost_record_is_no_success() {
    let (machine, _served, image, host) = private();
    let secret = machine.login("secret.json", &host, "ada", PASSWORD);
    let with_secret = ["--pull-secret", &secret];
    let (_, before) = Machine::new().pull_json(&image, &with_secret);
    let no_room_in = |machine: &Machine| {
        assert_eq!(result(machine, &image, &["--pull-policy", "Never"]).0, 3, "it has records now");
        let in_its_way = record_of(&machine.dest(), before["imageId"].as_str().unwrap());
        fs::create_dir(&in_its_way).unwrap();
        in_its_way
    };
    let in_its_way = no_room_in(&machine);

    let said = machine.pull(&image, &[&with_secret[..], &["-q"]].concat());

    assert_eq!(said.code, 4, "{}", said.stderr);
    let told = format!(
        "keyfob: Image \"{image}\" was pulled, but who may use it could not be recorded; nobody may use it before proving \
         access again"
    );
    assert_eq!(said.stderr.lines().next(), Some(told.as_str()), "{}", said.stderr);
    assert!(!said.stdout.contains("  for "), "{}", said.stdout);
    assert!(said.stdout.contains(", and did not record who may use it\n"), "{}", said.stdout);
    assert_eq!(machine.files("pulling"), 1, "its intent stays");
    fs::remove_dir(&in_its_way).unwrap();
    assert_eq!(result(&machine, &image, &[]), (1, json!("failed")), "nobody else may use it");
    assert_eq!(result(&machine, &image, &with_secret), (0, json!("pulled")));
    assert_eq!(result(&machine, &image, &with_secret), present());

    let other = Machine::new();
    no_room_in(&other);
    let (code, said) = other.pull_json(&image, &with_secret);
    assert_eq!((code, &said["result"]), (4, &json!("pulled")));
    assert_eq!(said["error"]["reason"], json!("RecordNotWritten"));
}

/// Nothing is pulled beside a kubelet that runs, unless a flag says so.
fn is_refused(root: &Path, sign: &str) {
    let (machine, served, image, host) = private();
    let secret = machine.login("secret.json", &host, "ada", PASSWORD);
    let flags = ["--records-dir", root.to_str().unwrap(), "--pull-secret", &secret, "-q"];

    let said = machine.pull(&image, &flags);

    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
    let told = format!("keyfob: a kubelet runs on {} ({sign}", root.display());
    assert!(said.stderr.starts_with(&told), "{}", said.stderr);
    let order = "stop the kubelet, pull, import the image into its container runtime, then start the kubelet";
    assert!(said.stderr.contains(order), "{}", said.stderr);
    assert_eq!(served.registry.requests(), []);
    assert!(!root.join("image_manager").exists());

    let beside = [&flags[..], &["--beside-running-kubelet"]].concat();
    assert_eq!(machine.pull(&image, &beside).code, 0);
    assert!(root.join("image_manager/pulled").exists());
}

/// Its container runtime may have the image, without a record.
#[test]
fn a_pull_that_a_kubelet_did_not_finish_is_left_to_it() {
    let (machine, served, image, host) = private();
    let kubelet = tempfile::tempdir().unwrap();
    let name = record_of(kubelet.path(), &image).file_name().unwrap().to_owned();
    let intent = kubelet.path().join("image_manager/pulling").join(name);
    fs::create_dir_all(intent.parent().unwrap()).unwrap();
    let text = json!({
        "kind": "ImagePullIntent", "apiVersion": "kubelet.config.k8s.io/v1beta1", "image": image,
    });
    fs::write(&intent, format!("{text}\n")).unwrap();
    let secret = machine.login("secret.json", &host, "ada", PASSWORD);
    let root = kubelet.path().to_str().unwrap();
    let flags = ["--records-dir", root, "--pull-secret", &secret, "-q"];

    let said = machine.pull(&image, &flags);

    let told = format!(
        "keyfob: Failed to record image pull intent for container image \"{image}\": the kubelet of {root} did not finish its \
         pull of {image}, and has not looked yet whether the image came\n\
         keyfob: start the kubelet, which looks into it, and stop it again; then run the same command again\n"
    );
    assert_eq!((said.code, said.stderr), (4, told));
    assert_eq!(served.registry.requests(), []);
    assert!(intent.exists());

    fs::create_dir(kubelet.path().join("device-plugins")).unwrap();
    drop(UnixListener::bind(kubelet.path().join("device-plugins/kubelet.sock")).unwrap());
    assert_eq!(machine.pull(&image, &flags).code, 0, "the kubelet has looked");
    assert!(!intent.exists());
}

#[test]
fn nothing_is_recorded_beside_a_kubelet_that_listens() {
    for folder in ["pod-resources", "device-plugins"] {
        let kubelet = tempfile::tempdir().unwrap();
        fs::create_dir(kubelet.path().join(folder)).unwrap();
        let socket = kubelet.path().join(folder).join("kubelet.sock");
        let _listener = UnixListener::bind(&socket).unwrap();

        is_refused(kubelet.path(), &format!("it listens on {}", socket.display()));
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a process that stands for a kubelet")]
fn nothing_is_recorded_beside_a_kubelet_that_starts() {
    let kubelet = tempfile::tempdir().unwrap();
    let program = kubelet.path().join("kubelet");
    symlink("/bin/sh", &program).unwrap();
    let mut child = Command::new(&program)
        .args(["-c", "echo; read line", "kubelet", "--root-dir"])
        .arg(kubelet.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Once it prints, it has its own name.
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();

    is_refused(kubelet.path(), &format!("process {}, kubelet)", child.id()));

    drop(child.stdin.take());
    child.wait().unwrap();
    let (machine, _served, image, host) = private();
    let secret = machine.login("secret.json", &host, "ada", PASSWORD);
    let flags = ["--records-dir", kubelet.path().to_str().unwrap(), "--pull-secret", &secret];
    assert_eq!(machine.pull(&image, &flags).code, 0, "it has ended");
}
