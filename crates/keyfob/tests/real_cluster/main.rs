//! A real kube-apiserver, with the node authorizer and `NodeRestriction`.
//!
//! `.ci/run cluster` builds it, installs Debian's etcd and sets `KEYFOB_CLUSTER` to the server's path; without that nothing
//! is run.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

#[path = "../support/account_plugin.rs"]
mod account_plugin;
mod agreement;
#[path = "../support/api.rs"]
mod api;
#[path = "../support/authority.rs"]
mod authority;
#[path = "../support/cluster.rs"]
mod cluster;
#[path = "../support/identity.rs"]
mod identity;
#[path = "../support/jwt.rs"]
mod jwt;
#[path = "../support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;
#[path = "../support/pulls.rs"]
mod pulls;
mod webhook;

use api::Api;
use cluster::Cluster;

macro_rules! run_each {
    ($api:expr => $($scenario:ident,)*) => {
        $(
            println!("{}", stringify!($scenario));
            identity::$scenario($api).await;
        )*
    };
}

#[tokio::test]
async fn the_real_server_is_what_the_scenarios_say() {
    let Some(program) = Cluster::wanted() else { return };
    let cluster = Cluster::start(&program, &[]).await;
    every_scenario_holds(&cluster.api).await;
}

async fn every_scenario_holds(api: &Api) {
    identity::every_scenario!(run_each, api);
}
