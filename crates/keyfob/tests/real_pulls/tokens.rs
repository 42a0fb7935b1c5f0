//! A registry that wants tokens of another server.

use keyfob_testkit::LeakCheck;

use crate::{
    docker_registry::{PASSWORD, Registry, USER},
    is_wanted, login,
    node::{Node, Said},
    token_server::TokenServer,
};

const LAYERS: [usize; 3] = [2_000_000, 10, 700_000];

struct Scene {
    registry: Registry,
    tokens: TokenServer,
    image: String,
    digest: String,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (tokens, auth) = TokenServer::start(&folder);
        let registry = Registry::start_with(folder, &auth);
        let digest = registry.push("team/app:v1", Some(&login()), &LAYERS);
        let image = format!("{}/team/app:v1", registry.address);
        Self { registry, tokens, image, digest }
    }

    fn pull(&self, password: &str) -> Said {
        let logins = [[self.registry.address.as_str(), USER, password]];
        let node = Node::new().answering("plugin", &[&self.registry.address], &logins);
        let dest = node.path("oci");
        let said = node.run("pull", &[&self.image, dest.to_str().unwrap(), "-o", "json"]);
        LeakCheck::new([password.to_owned()])
            .text("stdout", &said.stdout)
            .text("stderr", &said.stderr);
        said
    }
}

#[test]
fn a_token_is_got_for_the_password_and_used_for_the_whole_pull() {
    if !is_wanted() {
        return;
    }
    let scene = Scene::new();
    let before = scene.tokens.given();

    let said = scene.pull(PASSWORD);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["digest"], scene.digest.as_str());
    assert_eq!(scene.tokens.given() - before, 1, "one token for manifest, config and layers");
}

#[test]
fn a_token_server_refuses_a_wrong_password() {
    if !is_wanted() {
        return;
    }
    let scene = Scene::new();

    let said = scene.pull("wrong horse");
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["attempts"][0]["result"], "refused");
    assert!(!scene.tokens.requests().is_empty());
}

#[test]
fn a_token_that_has_ended_is_refused_and_said_to_be() {
    if !is_wanted() {
        return;
    }
    let scene = Scene::new();
    scene.tokens.tokens_live_for(-300);

    let said = scene.pull(PASSWORD);
    assert_eq!(said.code, 1, "{}{}", said.stdout, said.stderr);
    assert_eq!(said.json()["attempts"][0]["result"], "refused");
}
