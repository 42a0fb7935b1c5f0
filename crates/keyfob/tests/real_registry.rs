//! A real registry that wants a login, and a real client that has only what `keyfob get -o docker` printed, or a plugin of
//! ours as its credential helper.
//!
//! It needs Debian's `docker-registry`, `skopeo` and `htpasswd`: `.ci/run e2e` installs them and sets `KEYFOB_E2E`, without
//! which nothing is run.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "support/docker_registry.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod docker_registry;
#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;

use std::{fs, os::unix::fs::symlink};

use docker_registry::{PASSWORD, Registry, USER, is_wanted};
use node::Node;
use serde_json::json;

/// Whether a client that has only this configuration gets the image.
fn serves(registry: &Registry, name: &str, config: &str) -> bool {
    registry.inspect(name, config).status().unwrap().success()
}

#[test]
fn a_client_asks_a_plugin_of_ours_as_its_credential_helper() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start();
    registry.push("team/app:v1", Some(&format!("{USER}:{PASSWORD}")), &[]);
    let programs = tempfile::tempdir().unwrap();
    let helper = programs.path().join("docker-credential-docker-config");
    symlink(env!("CARGO_BIN_EXE_keyfob"), helper).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.path().display());
    let asks_helper = json!({"credHelpers": {&registry.address: "docker-config"}}).to_string();
    let logs_in = |password: &str| {
        let login = json!({"auths": {&registry.address: {"username": USER, "password": password}}});
        fs::write(programs.path().join("config.json"), login.to_string()).unwrap();
        let mut skopeo = registry.inspect("team/app:v1", &asks_helper);
        skopeo.env("PATH", &path).env("DOCKER_CONFIG", programs.path());
        skopeo.status().unwrap().success()
    };

    assert!(logs_in(PASSWORD));
    assert!(!logs_in("wrong"), "the file is read anew");
}

#[test]
fn a_client_pulls_with_what_get_printed() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start();
    registry.push("team/app:v1", Some(&format!("{USER}:{PASSWORD}")), &[]);
    let image = format!("{}/team/app:v1", registry.address);
    let docker = |key: &str, password: &str| {
        let logins = [[key, USER, password]];
        let node = Node::new().answering("plugin", &[&registry.address], &logins);
        let said = node.run("get", &[&image, "-o", "docker"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        said.stdout
    };

    assert!(!serves(&registry, "team/app:v1", r#"{"auths":{}}"#), "it wants a login");
    assert!(serves(&registry, "team/app:v1", &docker(&registry.address, PASSWORD)));
    assert!(!serves(&registry, "team/app:v1", &docker(&registry.address, "wrong")));
    let star = format!("*.*.*.*:{}", registry.address.rsplit(':').next().unwrap());
    assert!(serves(&registry, "team/app:v1", &docker(&star, PASSWORD)), "a key with stars");
    let path = format!("{}/team", registry.address);
    assert!(serves(&registry, "team/app:v1", &docker(&path, PASSWORD)), "a key with a path");
}
