//! When an image is pulled.

use keyfob_playground::registry::Fault;
use serde_json::{Value, json};

use crate::{
    machine::Machine,
    registry::{Served, layer},
};

fn result(machine: &Machine, image: &str, args: &[&str]) -> (i32, Value, Value) {
    let (code, mut said) = machine.pull_json(image, args);
    (code, said["result"].take(), said["imageId"].take())
}

#[test]
fn always_asks_the_registry_and_the_others_do_not() {
    let (machine, served) = (Machine::new(), Served::open());
    let old = served.push("app", "v1", &[layer(1, 1000)]);
    let image = served.image("app:v1");
    let always = ["--pull-policy", "Always"];
    assert_eq!(result(&machine, &image, &always), (0, json!("pulled"), json!(old.configs[0])));
    let new = served.push("app", "v1", &[layer(2, 1000)]);

    for policy in ["IfNotPresent", "Never"] {
        let old = (0, json!("present"), json!(old.configs[0]));
        assert_eq!(result(&machine, &image, &["--pull-policy", policy]), old, "{policy}");
    }
    let pulled = (0, json!("pulled"), json!(new.configs[0]));
    assert_eq!(result(&machine, &image, &always), pulled);
    served.registry.forget_requests();
    assert_eq!(result(&machine, &image, &always), pulled);
    assert_eq!(served.fetched(), [""; 0], "the manifest is asked for, and nothing else");
}

#[test]
fn the_default_is_a_kubelets() {
    let (machine, served) = (Machine::new(), Served::open());
    for tag in ["latest", "v1"] {
        served.push("app", tag, &[layer(1, 1000)]);
    }
    let policy = |name: &str| machine.pull_json(&served.image(name), &[]).1["policy"].take();
    assert_eq!(policy("app"), "Always");
    assert_eq!(policy("app:latest"), "Always");
    assert_eq!(policy("app:v1"), "IfNotPresent");
}

#[test]
fn never_pulls_nothing() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    let image = served.image("app:v1");

    let said = machine.pull(&image, &["--pull-policy", "Never"]);

    assert_eq!((said.code, said.stdout.as_str()), (3, ""));
    let told = format!(
        "keyfob: Container image \"{image}\" is not present with pull policy of Never\n\
         keyfob: it is not in {}; with another --pull-policy it would be pulled\n",
        machine.dest().display()
    );
    assert_eq!(said.stderr, told);
    assert_eq!(served.registry.requests(), []);

    let (code, failed) = machine.pull_json(&image, &["--pull-policy", "Never"]);
    assert_eq!((code, &failed["error"]["reason"]), (3, &json!("ErrImageNeverPull")), "{failed}");
}

#[test]
fn a_registry_that_is_busy_is_asked_again_as_often_as_told() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    let image = served.image("app:v1");
    served.registry.inject(Fault::status(503).only("/manifests/"));
    assert_eq!(machine.pull(&image, &["--retries", "1"]).code, 0);

    served.registry.inject(Fault::status(503).only("/manifests/").always());
    let said = machine.pull(&image, &["--retries", "0", "--pull-policy", "Always"]);

    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let told = format!(
        "keyfob: Failed to pull image \"{image}\": RegistryUnavailable\n  1. {image} without credentials: "
    );
    assert!(said.stderr.contains(&told), "{}", said.stderr);
    let advice =
        format!("keyfob: try again later; what has come is kept in {}\n", machine.dest().display());
    assert!(said.stderr.ends_with(&advice), "{}", said.stderr);
}
