//! What nodes get of the embedded API server, scenario by scenario. `real_cluster` runs the same list on a real one.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking; it waits by the real clock"
)]

#[path = "support/account_plugin.rs"]
mod account_plugin;
#[path = "support/api.rs"]
mod api;
#[path = "support/identity.rs"]
mod identity;
#[path = "support/jwt.rs"]
mod jwt;
#[path = "support/node.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod node;
#[path = "support/pulls.rs"]
mod pulls;

use std::{fs, time::Duration};

use api::{ADMIN, Api};
use keyfob_playground::embedded::{ApiServer, Options, Running};
use tempfile::TempDir;

struct Embedded {
    _server: Running,
    _kubeconfigs: TempDir,
    api: Api,
}

impl Embedded {
    async fn start() -> Self {
        let server = ApiServer::start(Options::default()).await.unwrap();
        let kubeconfigs = tempfile::tempdir().unwrap();
        let write = |user: &str, kubeconfig: &str| {
            fs::write(kubeconfigs.path().join(user), kubeconfig).unwrap();
        };
        write(ADMIN, server.admin_kubeconfig().unwrap().expose());
        for node in ["node-a", "node-b"] {
            write(node, server.node_kubeconfig(node).unwrap().expose());
        }
        let api = Api::open(kubeconfigs.path(), Duration::ZERO).await;
        Self { _server: server, _kubeconfigs: kubeconfigs, api }
    }
}

macro_rules! test_each {
    ($($scenario:ident,)*) => {
        $(
            #[tokio::test]
            async fn $scenario() {
                let embedded = Embedded::start().await;
                identity::$scenario(&embedded.api).await;
            }
        )*
    };
}

identity::every_scenario!(test_each);
