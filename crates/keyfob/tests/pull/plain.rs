//! An image that everybody may have.

use std::fs;

use serde_json::json;

use crate::{
    machine::Machine,
    registry::{Served, blob, layer},
};

#[test]
fn the_first_pull_brings_everything_and_the_second_nothing() {
    let (machine, served) = (Machine::new(), Served::open());
    let pushed = served.push("team/app", "v1", &[layer(1, 40_000), layer(2, 70_000)]);
    let image = served.image("team/app:v1");

    let said = machine.pull(&image, &[]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    let (id, digest) = (&pushed.configs[0], &pushed.digest);
    assert!(said.stdout.starts_with(&format!("pulled {image} in ")), "{}", said.stdout);
    for line in [
        format!("\n  image id  {id}\n  digest    {digest}\n  platform  linux/amd64\n"),
        format!(
            "\n  from      {image}\n  with      no credentials\n  for       every pod of the node\n"
        ),
        format!("\n  layout    {}\n", machine.dest().display()),
    ] {
        assert!(said.stdout.contains(&line), "{line}\n{}", said.stdout);
    }
    for content in pushed.layers.iter().chain([id, digest]) {
        assert!(blob(&machine.dest(), content).is_file(), "{content}");
    }
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert_eq!(lines[0], format!("pulling {image} without credentials"), "{}", said.stderr);
    assert!(
        lines[1].starts_with(&format!("manifest {}: 3 blobs, ", &digest[..19])),
        "{}",
        lines[1]
    );
    assert_eq!(lines[2..].len(), 3, "{}", said.stderr);
    assert!(lines[2..].iter().all(|line| line.contains(": fetched in ")), "{}", said.stderr);

    served.registry.forget_requests();
    let said = machine.pull(&image, &[]);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(said.stdout.starts_with(&format!("present {image}, and may be used\n")));
    assert!(said.stdout.contains(id), "{}", said.stdout);
    assert_eq!(served.registry.requests(), [], "nobody was asked");
}

#[test]
fn json_is_the_documented_object() {
    let (machine, served) = (Machine::new(), Served::open());
    let pushed = served.push("app", "v1", &[layer(1, 1000)]);
    let image = served.image("app:v1");

    let (code, mut pulled) = machine.pull_json(&image, &[]);

    assert_eq!(code, 0, "{pulled}");
    assert!(pulled["tookMs"].take().is_u64(), "{pulled}");
    assert!(pulled["size"].take().as_u64().unwrap() > 1000, "{pulled}");
    let layout = machine.dest().to_str().unwrap().to_owned();
    let expected = json!({
        "image": image, "name": image, "policy": "IfNotPresent", "layout": layout, "records": layout,
        "result": "pulled", "imageId": pushed.configs[0], "digest": pushed.digest, "manifest": pushed.digest,
        "platform": "linux/amd64", "size": null, "from": image, "source": null, "username": null, "tookMs": null, "note": null,
        "attempts": [{"from": image, "source": null, "username": null, "result": "pulled", "message": null}],
        "providers": [], "error": null,
    });
    assert_eq!(pulled, expected);

    let (code, mut present) = machine.pull_json(&image, &["--no-records"]);
    present["size"].take();
    let mut expected = expected;
    for absent in ["from", "records"] {
        expected[absent].take();
    }
    (expected["result"], expected["attempts"]) = (json!("present"), json!([]));
    assert_eq!((code, present), (0, expected));
}

#[test]
fn layers_that_are_here_are_not_fetched_again() {
    let (machine, served) = (Machine::new(), Served::open());
    let (base, one, two) = (layer(1, 50_000), layer(2, 1000), layer(3, 1000));
    let first = served.push("app", "v1", &[base.clone(), one]);
    served.push("app", "v2", &[base, two]);
    assert_eq!(machine.pull(&served.image("app:v1"), &[]).code, 0);
    served.registry.forget_requests();

    let said = machine.pull(&served.image("app:v2"), &[]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    let base = &first.layers[0];
    assert!(!served.fetched().contains(base), "{:?}", served.fetched());
    let is_told = |line: &str| {
        line.starts_with(&format!("layer {} ", &base[..19])) && line.ends_with(": already here")
    };
    assert!(said.stderr.lines().any(is_told), "{}", said.stderr);
}

#[test]
fn of_several_platforms_one_is_chosen() {
    let (machine, served) = (Machine::new(), Served::open());
    let platforms = ["linux/amd64", "linux/arm/v7", "linux/s390x"];
    let pushed = served.push_for("app", "v1", &[layer(1, 1000)], &platforms);
    let image = served.image("app:v1");

    let (_, arm) = machine.pull_json(&image, &["--platform", "linux/arm/v8"]);
    assert_eq!(arm["platform"], "linux/arm/v7", "{arm}");
    assert_eq!(arm["imageId"], json!(pushed.configs[1]));
    assert_eq!(arm["manifest"], json!(pushed.manifests[1]));
    assert_eq!(arm["digest"], json!(pushed.digest), "the name stands for the whole list");

    let (_, z) = machine.pull_json(&image, &["--platform", "linux/s390x"]);
    assert_eq!((&z["result"], &z["imageId"]), (&json!("pulled"), &json!(pushed.configs[2])));
    let (_, again) = machine.pull_json(&image, &["--platform", "linux/arm/v8"]);
    assert_eq!((&again["result"], &again["imageId"]), (&json!("present"), &arm["imageId"]));

    let said = machine.pull(&image, &["--platform", "windows/amd64"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(
        said.stderr.contains("is not for windows/amd64: it is for linux/amd64, linux/arm/v7, ")
    );
}

#[test]
fn a_digest_decides_and_is_enough() {
    let (machine, served) = (Machine::new(), Served::open());
    let pushed = served.push("app", "v1", &[layer(1, 1000)]);
    served.push("app", "v2", &[layer(2, 1000)]);
    let image = served.image(&format!("app:v2@{}", pushed.digest));

    let (code, pulled) = machine.pull_json(&image, &[]);

    assert_eq!(code, 0, "{pulled}");
    assert_eq!(
        (&pulled["digest"], &pulled["policy"]),
        (&json!(pushed.digest), &json!("IfNotPresent"))
    );
}

#[test]
fn the_layout_is_in_oci_if_nobody_says_where() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::node::program();
    command.current_dir(folder.path()).args(["pull", &served.image("app:v1"), "--quiet"]);

    let output = command.output().unwrap();

    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    let mark = fs::read(folder.path().join("oci/oci-layout")).unwrap();
    assert_eq!(mark, br#"{"imageLayoutVersion":"1.0.0"}"#);
    assert!(!machine.dest().exists());
}

#[test]
fn a_result_that_cannot_be_written_is_code_4_and_the_image_is_here() {
    let (machine, served) = (Machine::new(), Served::open());
    served.push("app", "v1", &[layer(1, 1000)]);
    let image = served.image("app:v1");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();

    let output = machine.command(&image, &["--quiet"]).stdout(full).output().unwrap();

    assert_eq!(output.status.code(), Some(4));
    assert_eq!(machine.pull_json(&image, &["--pull-policy", "Never"]).0, 0);
}
