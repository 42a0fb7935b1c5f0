//! `keyfob pull` from a real registry, and real clients that use what it pulled.
//!
//! It needs Debian's `docker-registry`, `skopeo`, `podman` and `htpasswd`: `.ci/run e2e` installs them and sets `KEYFOB_E2E`,
//! without which nothing is run.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "../support/docker_registry.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod docker_registry;
mod interrupted;
mod kubelet;
#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;
mod passwords;
mod stolen;
#[path = "../support/token_issuer.rs"]
mod token_issuer;
mod token_server;
mod tokens;
mod used;

use docker_registry::{PASSWORD, USER, is_wanted};

fn login() -> String {
    format!("{USER}:{PASSWORD}")
}
