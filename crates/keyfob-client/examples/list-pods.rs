//! Lists the pods of a namespace through a kubeconfig whose user has an exec plugin.
//!
//! `cargo run -p keyfob-client --example list-pods [CONTEXT]`

use std::{
    env,
    error::Error,
    io::{self, Write as _},
};

use k8s_openapi::api::core::v1::Pod;
use keyfob_client::{Clients, LoadingRules, Overrides};
use keyfob_exec::SystemEnvironment;
use kube::{Api, ResourceExt as _, api::ListParams};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut overrides = Overrides::default();
    overrides.context_name = env::args().nth(1).unwrap_or_default();
    let kubeconfig = LoadingRules::from_environment(&SystemEnvironment).load()?;
    let config = kubeconfig.client_config(&overrides)?;
    // Keep one `Clients` for the whole program: clients that it makes share plugins and connections.
    let client = Clients::system().connect(&config)?;

    for pod in Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await? {
        writeln!(io::stdout(), "{}", pod.name_any())?;
    }
    Ok(())
}
