//! A private image on disk, and somebody who knows its digests.

use std::{fs, time::Duration};

use keyfob_playground::registry::{Fault, Grant, Options, Right, User};
use serde_json::{Value, json};

use crate::{
    machine::Machine,
    registry::{PASSWORD, Served, blob, layer},
};

/// A registry with the same image in two repositories: `private/a`, for ada and bob, and `steal/b`, for everybody.
fn served() -> (Machine, Served) {
    let users = ["ada", "bob"].map(|name| User::new(name, PASSWORD).may_pull("private"));
    let anonymous = vec![Grant::new("steal", Right::Pull)];
    let served = Served::start(Options { users: users.into(), anonymous, ..Options::default() });
    for repository in ["private/a", "steal/b"] {
        served.push(repository, "v1", &[layer(1, 200_000), layer(2, 1000)]);
    }
    (Machine::new(), served)
}

fn secret(machine: &Machine, served: &Served, user: &str) -> String {
    let host = served.registry.address().to_string();
    machine.login(&format!("{user}.json"), &host, user, PASSWORD)
}

/// The image of `private/a`, as ada pulled it.
fn pulled(machine: &Machine, served: &Served) -> Value {
    let ada = secret(machine, served, "ada");
    let (code, said) = machine.pull_json(&served.image("private/a:v1"), &["--pull-secret", &ada]);
    assert_eq!(code, 0, "{said}");
    served.registry.forget_requests();
    said
}

#[test]
fn a_private_image_is_not_opened_by_a_manifest_that_names_its_blobs() {
    let lies: [fn() -> Fault; 4] = [
        Fault::hide_blobs,
        Fault::zero_blobs,
        || Fault::wrong_range().always(),
        || Fault::ignore_range().always(),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let (machine, served) = served();
        pulled(&machine, &served);
        served.registry.inject(lie().only("/steal/b/blobs/"));
        if number > 1 {
            served.registry.inject(Fault::zero_blobs().only("/steal/b/blobs/"));
        }
        let image = served.image("steal/b:v1");

        let (code, said) = machine.pull_json(&image, &[]);

        assert_ne!(code, 0, "{number}: {said}");
        assert_eq!(said["result"], "failed", "{number}: {said}");
        assert_eq!(machine.files("pulled"), 1, "{number}: only the private image has a record");
        let (code, said) = machine.pull_json(&image, &["--pull-policy", "Never"]);
        assert_eq!(code, 3, "{number}: {said}");
        // The private image is as it was.
        let ada = secret(&machine, &served, "ada");
        let (code, said) =
            machine.pull_json(&served.image("private/a:v1"), &["--pull-secret", &ada]);
        assert_eq!((code, &said["result"]), (0, &json!("present")), "{number}: {said}");
    }
}

#[test]
fn a_second_secret_proves_its_access_with_a_few_bytes_and_the_same_with_none() {
    let (machine, served) = served();
    let first = pulled(&machine, &served);
    let image = served.image("private/a:v1");
    let again = |user: &str| {
        served.registry.forget_requests();
        let secret = secret(&machine, &served, user);
        let args = ["--pull-secret", &secret, "--pull-policy", "Always"];
        let (code, said) = machine.pull_json(&image, &args);
        assert_eq!((code, &said["imageId"]), (0, &first["imageId"]), "{said}");
        let requests = served.registry.requests();
        let blobs = requests.iter().filter(|seen| seen.path.contains("/blobs/"));
        let given = blobs.filter(|seen| seen.status == Some(206) || seen.status == Some(200));
        given.map(|seen| seen.range.clone()).collect::<Vec<_>>()
    };

    assert_eq!(again("ada"), []);
    let samples = again("bob");
    assert_eq!(samples.len(), 3, "{samples:?}");
    assert!(samples.iter().flatten().all(|range| !range.ends_with('-')), "{samples:?}");
    assert_eq!(samples.iter().flatten().count(), 3, "{samples:?}");
    assert_eq!(again("bob"), []);
    let (code, said) = machine.pull_json(&image, &[]);
    assert_eq!((code, &said["result"]), (1, &json!("failed")), "{said}");
}

#[test]
fn a_corrupt_layer_is_mended_by_the_policy_always() {
    let (machine, served) = served();
    let pushed = served.push("steal/c", "v1", &[layer(3, 200_000)]);
    let image = served.image("steal/c:v1");
    assert_eq!(machine.pull_json(&image, &[]).0, 0);
    let path = blob(&machine.dest(), &pushed.layers[0]);
    let good = fs::read(&path).unwrap();
    let mut corrupt = good.clone();
    corrupt[1000] ^= 1;
    fs::write(&path, corrupt).unwrap();

    let (code, said) = machine.pull_json(&image, &["--pull-policy", "Always"]);

    assert_eq!(code, 0, "{said}");
    assert!(fs::read(&path).unwrap() == good);
}

#[test]
fn one_byte_at_a_time_does_not_keep_a_pull_alive() {
    for path in ["/manifests/", "/token", "/blobs/"] {
        let (machine, served) = served();
        served.registry.inject(Fault::trickle(Duration::from_millis(100)).only(path).always());
        let ada = secret(&machine, &served, "ada");
        let flags = ["--pull-secret", &ada, "--stall-timeout", "500ms", "--retries", "0"];

        let said = machine.pull(&served.image("private/a:v1"), &flags);

        assert_eq!(said.code, 1, "{path}: {}", said.stderr);
        assert!(said.stderr.contains(": sends less than 1000 bytes a second"), "{}", said.stderr);
    }
}
