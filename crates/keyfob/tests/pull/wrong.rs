//! What is refused, and how it is told.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::{
    machine::Machine,
    node::keyfob,
    registry::{Served, layer},
};

#[test]
fn wrong_input_exits_with_2_and_says_what_to_do() {
    let machine = Machine::new();
    let refused = |args: &[&str], words: &str| {
        let said = machine.pull("r.example/app:v1", args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{args:?}: {}", said.stderr);
    };
    refused(&["--pull-policy", "always"], "[possible values: Always, IfNotPresent, Never]");
    refused(&["--platform", "arm64"], "os/arch");
    refused(&["--mirror", "r.example"], "names no mirror");
    refused(&["--mirror", "r.example=ada:hunter2@m.example"], "without a login");
    refused(&["--parallel", "0"], "--parallel");
    refused(&["--config", "x.yaml"], "--config needs --bin-dir");
    refused(&["--service-account", "a/b"], "--service-account is for providers");
    refused(&["--no-records", "--records-dir", "x"], "cannot be used with");
    refused(
        &["--preloaded-image", "r.example/app"],
        "--verification-policy NeverVerifyAllowlistedImages",
    );
    refused(
        &["--verification-policy", "NeverVerifyAllowlistedImages", "--preloaded-image", "*"],
        "only patterns ending with '/*' are allowed",
    );
    refused(&["--kubelet-config", "/no/such"], "cannot read the kubelet's configuration /no/such");
    let config = machine.file("other.yaml", "kind: Other\napiVersion: v1\n");
    refused(&["--kubelet-config", &config], "it is no KubeletConfiguration");
    assert!(!machine.dest().join("image_manager").exists());

    let said = machine.pull("r.example/App", &[]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("InvalidImageName"), "{}", said.stderr);
}

#[test]
fn a_directory_with_something_else_in_it_is_no_layout() {
    let machine = Machine::new();
    fs::create_dir(machine.dest()).unwrap();
    fs::write(machine.dest().join("letter.txt"), "dear").unwrap();

    let said = machine.pull("r.example/app:v1", &[]);

    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("is no OCI image layout"), "{}", said.stderr);
    assert_eq!(fs::read_dir(machine.dest()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_written_exits_with_4() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    let image = served.image("app:v1");
    let in_the_way = machine.file("in-the-way", "");

    let said = keyfob(&["pull", &image, &format!("{in_the_way}/layout")]);
    assert_eq!((said.code, said.stdout.as_str()), (4, ""), "{}", said.stderr);
    let said = machine.pull(&image, &["--records-dir", &in_the_way]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(
        said.stderr.contains("make their directory writable, or pull into another DEST"),
        "{}",
        said.stderr
    );
    assert_eq!(served.fetched(), [""; 0]);

    // A file in the place of the directory for blobs; whoever is root may write anything else.
    fs::write(machine.dest().join("blobs"), "").unwrap();
    let said = machine.pull(&image, &[]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    let advice = format!(
        "keyfob: make {} a directory that can be written, or pull into another one\n",
        machine.dest().display()
    );
    assert!(said.stderr.ends_with(&advice), "{}", said.stderr);
    assert_eq!(machine.files("pulling"), 0, "it is known that the image did not come");
}

#[test]
fn records_are_for_their_owner_alone() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    assert_eq!(machine.pull(&served.image("app:v1"), &[]).code, 0);
    let mode = |path: &str| fs::metadata(machine.dest().join(path)).unwrap().permissions().mode();
    assert_eq!(mode("image_manager/pulled") & 0o777, 0o700);
}

#[test]
fn an_image_that_is_not_there_exits_with_3() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    let image = served.image("app:v2");

    let said = machine.pull(&image, &["--quiet"]);

    assert_eq!((said.code, said.stdout.as_str()), (3, ""));
    let first = format!("keyfob: Failed to pull image \"{image}\": ErrImagePull\n");
    assert!(said.stderr.starts_with(&first), "{}", said.stderr);
    assert!(said.stderr.contains("not found"), "{}", said.stderr);
    assert!(
        said.stderr
            .ends_with("keyfob: look whether the name, the tag and the platform are right\n")
    );
    let (_, failed) = machine.pull_json(&image, &[]);
    assert_eq!((&failed["result"], &failed["imageId"]), (&json!("failed"), &json!(null)));
    assert_eq!(failed["attempts"][0]["result"], "failed", "{failed}");
}

#[test]
fn a_name_cannot_forge_a_line() {
    let machine = Machine::new();
    let said = machine.pull("r.example/app:v1\nkeyfob: pulled", &[]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.lines().all(|line| line != "keyfob: pulled"), "{}", said.stderr);
}

#[test]
fn help_tells_the_exit_codes_and_the_json() {
    let said = keyfob(&["pull", "--help"]);
    assert_eq!(said.code, 0);
    for words in ["Exit codes: 0 the image is here and may be used", "\"attempts\":[{\"from\""] {
        assert!(said.stdout.replace('\n', " ").contains(words), "{}", said.stdout);
    }
}
