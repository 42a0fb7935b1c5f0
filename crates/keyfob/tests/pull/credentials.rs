//! A private image, with the right and with wrong credentials.

use std::os::unix::fs::symlink;

use keyfob_playground::registry::{Access, Grant, Options, Right, User};
use serde_json::{Value, json};

use crate::{
    machine::Machine,
    node::{Node, answer},
    registry::{PASSWORD, Served, layer},
};

fn private() -> (Machine, Served, String) {
    let (machine, served) = (Machine::new(), Served::private());
    served.push("team/app", "v1", &[layer(1, 1000)]);
    let image = served.image("team/app:v1");
    (machine, served, image)
}

/// From where each attempt was, and how it ended.
fn attempts(said: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let attempts = said["attempts"].as_array().unwrap().iter();
    attempts.map(|each| (text(&each["source"]), text(&each["result"]))).collect()
}

fn pairs<const N: usize>(rows: [(&str, &str); N]) -> Vec<(String, String)> {
    rows.map(|(source, result)| (source.to_owned(), result.to_owned())).into()
}

#[test]
fn strangers_are_told_how_to_name_themselves() {
    let (machine, _served, image) = private();

    let said = machine.pull(&image, &[]);

    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let advice = format!(
        "keyfob: no credentials were found: name their sources with --config and --bin-dir, --pull-secret or --docker-config; \
         \"keyfob explain {image}\" with the same flags says why none is for this image\n"
    );
    assert!(said.stderr.ends_with(&advice), "{}", said.stderr);
    assert!(said.stderr.contains("\nrefused: "), "{}", said.stderr);
    assert_eq!((machine.files("pulling"), machine.files("pulled")), (0, 0));
}

#[test]
fn sources_are_tried_in_a_kubelets_order_until_one_is_let_in() {
    let (machine, served, image) = private();
    let host = served.registry.address().to_string();
    let secret = machine.login("secret.json", &host, "eve", "hunter2-wrong");
    let docker = machine.login("docker.json", &host, "ada", "hunter2-old");
    let node = Node::new().answering("plugin", &[&host], &[[&host, "ada", PASSWORD]]);
    let files = ["--docker-config", &docker, "--pull-secret", &secret];

    let said = machine.pull_on(&node, &image, &[&files[..], &["-o", "json"]].concat());

    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let (secret, docker) = (format!("pull-secret:{secret}"), format!("docker-config:{docker}"));
    let json = said.json();
    let expected = [(&*secret, "refused"), (&*docker, "refused"), ("plugin", "pulled")];
    assert_eq!(attempts(&json), pairs(expected));
    assert_eq!((&json["source"], &json["username"]), (&json!("plugin"), &json!("ada")));
    let provider = json!({"provider": "plugin", "repository": served.image("team/app"), "result": "ran", "message": null});
    assert_eq!(json["providers"], json!([provider]));
    let tried = format!("pulling {image} with {secret} as \"eve\"\nrefused: ");
    assert!(said.stderr.starts_with(&tried), "{}", said.stderr);

    let said = machine.pull(&image, &[&files[..], &["--pull-policy", "Always", "-q"]].concat());
    assert_eq!(said.code, 1, "without the plugin");
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert_eq!(lines[0], format!("keyfob: Failed to pull image \"{image}\": ErrImagePull"));
    assert!(
        lines[1].starts_with(&format!("  1. {image} with {secret} as \"eve\": ")),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].starts_with(&format!("  2. {image} with {docker} as \"ada\": ")),
        "{}",
        lines[2]
    );
    assert!(lines[1].contains("status code 401"), "{}", lines[1]);
    let advice = format!(
        "keyfob: \"keyfob explain {image}\" with the same flags says where each credential comes from"
    );
    assert_eq!(lines[3..], [advice]);
}

#[test]
fn a_provider_that_failed_is_part_of_the_answer() {
    let (machine, served, image) = private();
    let host = served.registry.address().to_string();
    let script = "cat >/dev/null\necho \"no identity for $PLUGIN_TOKEN\" >&2\nexit 3\n";
    let node = Node::new().with("bad", &[&host], script);

    let said = machine.pull_on(&node, &image, &["--quiet"]);

    assert_eq!(said.code, 1);
    let told = format!(
        "  provider bad gave nothing for {}: {} failed: exit code 3; it said: no identity for [redacted]\n",
        served.image("team/app"),
        node.path("plugins/bad").display()
    );
    assert!(said.stderr.contains(&told), "{}", said.stderr);
    let advice = "keyfob: a provider for this image gave nothing, so the pull was anonymous; \"keyfob explain ";
    assert!(said.stderr.contains(advice), "{}", said.stderr);

    let json = machine.pull_on(&node, &image, &["-o", "json"]).json();
    assert_eq!(
        (&json["providers"][0]["provider"], &json["providers"][0]["result"]),
        (&json!("bad"), &json!("failed"))
    );
    assert_eq!(attempts(&json), pairs([("-", "refused")]), "anonymously, as a kubelet");
    assert!(json["error"]["message"].as_str().unwrap().contains("exit code 3"), "{json}");
}

#[test]
fn a_login_that_was_rotated_is_asked_for_once_more() {
    let (machine, served, image) = private();
    let host = served.registry.address().to_string();
    let [old, new] = ["hunter2-old", PASSWORD].map(|password| answer(&[[&host, "ada", password]]));
    let node = Node::new();
    let marker = node.path("asked");
    let marker = marker.to_str().unwrap();
    let script = format!("if [ -e '{marker}' ]; then\n{new}\nelse\n: >'{marker}'\n{old}\nfi\n");
    let node = node.with("vault", &[&host], &script);

    let said = machine.pull_on(&node, &image, &["-o", "json"]);

    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(attempts(&said.json()), pairs([("vault", "refused"), ("vault", "pulled")]));
}

#[test]
fn our_own_plugin_serves_as_any_other() {
    let (machine, served, image) = private();
    let host = served.registry.address().to_string();
    let logins = machine.login("logins.json", &host, "ada", PASSWORD);
    let node = Node::new();
    let name = "docker-config-credential-provider";
    symlink(env!("CARGO_BIN_EXE_keyfob"), node.path("plugins").join(name)).unwrap();
    let node = node.with_installed(json!({
        "name": name,
        "matchImages": [host],
        "defaultCacheDuration": "10m",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "args": [format!("--path={logins}")],
    }));

    let said = machine.pull_on(&node, &image, &[]);

    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains(&format!("\n  with      {name} as ada\n")), "{}", said.stdout);
}

#[test]
fn a_registry_with_basic_authentication_will_do() {
    let users = vec![User::new("ada", PASSWORD).may_pull("team")];
    let served = Served::start(Options { access: Access::Basic, users, ..Options::default() });
    served.push("team/app", "v1", &[layer(1, 1000)]);
    let machine = Machine::new();
    let docker =
        machine.login("docker.json", &served.registry.address().to_string(), "ada", PASSWORD);

    let (code, said) =
        machine.pull_json(&served.image("team/app:v1"), &["--docker-config", &docker]);

    assert_eq!((code, &said["username"]), (0, &json!("ada")), "{said}");
}

#[test]
fn a_public_image_can_be_had_in_spite_of_a_bad_credential() {
    let anonymous = vec![Grant::new("open", Right::Pull)];
    let served = Served::start(Options { anonymous, ..Options::default() });
    served.push("open/app", "v1", &[layer(1, 1000)]);
    let (machine, image) = (Machine::new(), served.image("open/app:v1"));
    let docker =
        machine.login("docker.json", &served.registry.address().to_string(), "ada", "hunter2-old");
    let source = format!("docker-config:{docker}");
    let flags = ["--docker-config", &*docker];

    let (code, said) = machine.pull_json(&image, &flags);
    assert_eq!((code, attempts(&said)), (1, pairs([(&source, "refused")])), "as a kubelet");
    let (code, said) = machine.pull_json(&image, &[&flags[..], &["--anonymous-last"]].concat());
    assert_eq!((code, attempts(&said)), (0, pairs([(&source, "refused"), ("-", "pulled")])));
}

#[test]
fn what_is_logged_holds_no_secret() {
    let (machine, served, image) = private();
    let docker =
        machine.login("docker.json", &served.registry.address().to_string(), "ada", PASSWORD);
    // The machine looks for secrets in everything that is said.
    for password in ["hunter2-wrong", PASSWORD] {
        let secret =
            machine.login("secret.json", &served.registry.address().to_string(), "eve", password);
        let flags = [
            "--docker-config",
            &*docker,
            "--pull-secret",
            &secret,
            "-vvv",
            "--pull-policy",
            "Always",
        ];
        assert_eq!(machine.pull(&image, &flags).code, 0);
        assert_eq!(machine.pull(&image, &[&flags[..], &["--log-format", "json"]].concat()).code, 0);
    }
}

#[test]
fn a_line_of_the_log_is_ours_and_has_one_message() {
    let (machine, served, image) = private();
    let docker =
        machine.login("docker.json", &served.registry.address().to_string(), "ada", PASSWORD);

    let said = machine.pull(&image, &["--docker-config", &docker, "-vv", "--log-format", "json"]);

    let lines: Vec<_> = said.stderr.lines().filter(|line| line.starts_with('{')).collect();
    assert!(lines.iter().any(|line| line.contains("the image's state changed")), "{}", said.stderr);
    for line in lines {
        assert_eq!(line.matches("\"message\":").count(), 1, "{line}");
        assert!(line.contains("\"target\":\"keyfob"), "{line}");
    }
}
