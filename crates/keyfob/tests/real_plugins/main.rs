//! Plugins of other projects, run by Keyfob and by `kubectl`.
//!
//! The host runs upstream's `ecr-credential-provider` and `auth-provider-gcp`. `kubectl` and `keyfob kube` log in to a cluster with
//! aws-iam-authenticator, the AWS CLI, int128's and Azure's kubelogin, and gke-gcloud-auth-plugin. `keyfob conformance` checks
//! all of them.
//!
//! `.ci/run e2e` builds or installs these programs and the services that they log in to, and sets `KEYFOB_E2E`. Without that
//! variable nothing is run. Google's two programs cannot be installed by name: `.ci/run google-plugins` runs them where they are
//! installed already, and fails elsewhere.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

mod aws;
mod azure;
mod cluster;
#[path = "../support/docker_registry.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod docker_registry;
mod ecr;
mod findings;
mod google;
#[path = "../support/jwt.rs"]
mod jwt;
#[path = "../support/moto.rs"]
mod moto;
#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;
mod oidc;
mod provider;

/// Whether this run has the real programs.
fn is_on() -> bool {
    let on = std::env::var_os("KEYFOB_E2E").is_some();
    if !on {
        println!("KEYFOB_E2E is not set: NOT RUN; `.ci/run e2e` runs it");
    }
    on
}

/// The path of a program that `.ci/run e2e` or `.ci/run google-plugins` names in this variable.
fn built(variable: &str) -> String {
    let path = std::env::var(variable);
    path.unwrap_or_else(|_| unreachable!("{variable} is not set: `.ci/run` sets it"))
}
