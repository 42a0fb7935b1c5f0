//! A registry whose users have passwords.

use keyfob_testkit::LeakCheck;

use crate::{
    docker_registry::{PASSWORD, Registry, USER},
    is_wanted, login,
    node::{Node, Said, answer},
};

struct Scene {
    registry: Registry,
    image: String,
    digest: String,
}

impl Scene {
    fn new() -> Self {
        let registry = Registry::start();
        let digest = registry.push("team/app:v1", Some(&login()), &[3_000_000, 10, 500_000]);
        let image = format!("{}/team/app:v1", registry.address);
        Self { registry, image, digest }
    }

    fn pull(&self, node: &Node) -> Said {
        let dest = node.path("oci");
        let said = node.run("pull", &[&self.image, dest.to_str().unwrap(), "-o", "json"]);
        LeakCheck::new([PASSWORD.to_owned()])
            .text("stdout", &said.stdout)
            .text("stderr", &said.stderr);
        said
    }

    fn node(&self, password: &str) -> Node {
        let logins = [[self.registry.address.as_str(), USER, password]];
        Node::new().answering("plugin", &[&self.registry.address], &logins)
    }
}

#[test]
fn what_was_pushed_is_what_is_pulled() {
    if !is_wanted() {
        return;
    }
    let scene = Scene::new();
    let node = scene.node(PASSWORD);

    let said = scene.pull(&node);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["digest"], scene.digest.as_str());
    assert_eq!(said.json()["result"], "pulled");
    let again = scene.pull(&node);
    assert_eq!((again.code, &again.json()["result"]), (0, &"present".into()));
}

#[test]
fn a_wrong_password_is_refused_with_the_reason() {
    if !is_wanted() {
        return;
    }
    let scene = Scene::new();

    let said = scene.pull(&scene.node("wrong horse"));
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    let attempt = &said.json()["attempts"][0];
    assert_eq!((&attempt["result"], &attempt["source"]), (&"refused".into(), &"plugin".into()));
    assert!(!said.stdout.contains("wrong horse") && !said.stderr.contains("wrong horse"));
}

#[test]
fn a_stranger_is_refused() {
    if !is_wanted() {
        return;
    }
    let scene = Scene::new();
    let node = Node::new().answering("plugin", &["elsewhere.example"], &[]);

    let said = scene.pull(&node);
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["attempts"][0]["result"], "refused");
}

#[test]
fn a_password_that_was_rotated_is_asked_for_once_more() {
    if !is_wanted() {
        return;
    }
    let scene = Scene::new();
    let address = scene.registry.address.as_str();
    let (old, new) =
        (answer(&[[address, USER, "of last week"]]), answer(&[[address, USER, PASSWORD]]));
    let node = Node::new();
    let runs = node.path("runs");
    let runs = runs.display();
    let script =
        format!("echo >>{runs}\nif [ $(wc -l <{runs}) -gt 1 ]; then\n{new}else\n{old}fi\n");
    let node = node.with("plugin", &[address], &script);

    let said = scene.pull(&node);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["digest"], scene.digest.as_str());
    assert_eq!(std::fs::read_to_string(node.path("runs")).unwrap().len(), 2, "once, and once more");
}
