//! Real clients that get their credentials from a running agent, through the relay as their credential helper.
//!
//! It needs Debian's `docker-registry`, `htpasswd`, `skopeo`, `podman`, `buildah` and `kubectl`, `curl`, `jq`, the docker CLI, `PyJWT`, root (for callers
//! with other identities) and the relay: `.ci/run e2e` installs and builds them and sets `KEYFOB_E2E` and `KEYFOB_RELAY`. Without
//! `KEYFOB_E2E` nothing is run.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

mod agent;
mod api_page;
mod clients;
mod deployed;
#[path = "../support/docker_registry.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod docker_registry;
#[path = "../support/keyfob_apiserver.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod keyfob_apiserver;
mod pods;
mod rotated;
mod rules;
#[path = "../support/token_issuer.rs"]
mod token_issuer;
