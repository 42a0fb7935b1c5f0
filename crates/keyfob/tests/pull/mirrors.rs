//! Mirrors, each with its own credentials.

use keyfob_playground::registry::{Options, User};
use serde_json::json;

use crate::{
    machine::Machine,
    node::Node,
    registry::{PASSWORD, Served, layer},
};

const MIRROR_PASSWORD: &str = "hunter2-mirror";

/// The registry of an image, and a mirror that knows somebody else.
fn both() -> (Served, Served) {
    let users = vec![User::new("eve", MIRROR_PASSWORD).may_pull("")];
    (Served::private(), Served::start(Options { users, ..Options::default() }))
}

#[test]
fn a_mirror_is_asked_first_and_with_its_own_credentials() {
    let (machine, (served, mirror)) = (Machine::new(), both());
    let pushed = mirror.push("cache/team/app", "v1", &[layer(1, 1000)]);
    let (image, there) = (served.image("team/app:v1"), mirror.image("cache/team/app:v1"));
    let [host, other] = [&served, &mirror].map(|each| each.registry.address().to_string());
    let node = Node::new().answering("own", &[&host], &[[&host, "ada", PASSWORD]]).answering(
        "mirrors",
        &[&other],
        &[[&other, "eve", MIRROR_PASSWORD]],
    );
    let rule = format!("{host}={other}/cache");

    let said = machine.pull_on(&node, &image, &["--mirror", &rule, "-o", "json"]);

    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let json = said.json();
    assert_eq!((&json["name"], &json["from"]), (&json!(image), &json!(there)));
    assert_eq!((&json["source"], &json["digest"]), (&json!("mirrors"), &json!(pushed.digest)));
    assert_eq!(served.registry.requests(), [], "the mirror had it");
    assert_eq!(machine.pull_json(&image, &["--pull-policy", "Never"]).0, 0, "under its own name");
}

#[test]
fn what_a_mirror_does_not_give_comes_from_the_registry_itself() {
    let (machine, (served, mirror)) = (Machine::new(), both());
    served.push("team/app", "v1", &[layer(1, 1000)]);
    let image = served.image("team/app:v1");
    let [host, other] = [&served, &mirror].map(|each| each.registry.address().to_string());
    let docker = machine.login("docker.json", &host, "ada", PASSWORD);
    let rule = format!("{host}={other}");
    let flags = ["--mirror", &*rule, "--docker-config", &docker];

    let (code, said) = machine.pull_json(&image, &flags);

    assert_eq!(code, 0, "{said}");
    let results: Vec<_> =
        said["attempts"].as_array().unwrap().iter().map(|each| &each["result"]).collect();
    assert_eq!(results, ["refused", "pulled"]);
    assert!(
        mirror.registry.requests().iter().all(|seen| seen.who.is_none()),
        "no login went there"
    );

    // There is no such image: what a mirror says of that does not count.
    let said = machine.pull(&served.image("team/app:v2"), &flags);
    assert_eq!(said.code, 3, "{}", said.stderr);
    served.registry.set_password("ada", "hunter2-new");
    served.registry.end_tokens();
    let said = machine.pull(&served.image("team/app:v3"), &flags);
    assert_eq!(said.code, 1, "{}", said.stderr);
}
