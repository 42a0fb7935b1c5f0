//! Real connections to a real TLS server that asks for certificates.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "../support/plugin.rs"]
mod plugin;
mod proxies;
#[path = "../support/storm.rs"]
mod real_storm;
mod rotation;
mod sharing;
mod storm;
mod upgrades;

use std::{sync::Arc, time::Duration};

use http::{Request, StatusCode};
use keyfob_client::{Authenticators, Behaviour, ClientConfig, Clients, ExecConfig, World};
use keyfob_exec::SystemEnvironment;
use keyfob_testkit::TlsServer;
use kube::{Client, client::Body};

/// A client of a server, with a plugin.
fn connect(clients: &Clients, server: &TlsServer, exec: ExecConfig) -> Client {
    clients.connect(&config(server, exec)).unwrap()
}

fn config(server: &TlsServer, exec: ExecConfig) -> ClientConfig {
    let mut config = ClientConfig::default();
    config.server = server.url();
    config.namespace = "default".into();
    config.tls.ca_data = server.ca_pem().into();
    config.exec = Some(exec);
    config
}

fn clients(behaviour: Behaviour) -> Clients {
    Clients::new(Authenticators::new(World::system(), behaviour), Arc::new(SystemEnvironment))
}

async fn get(client: &Client, path: &str) -> Result<StatusCode, String> {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = client.send(request).await.map_err(|error| format!("{error:?}"))?;
    let status = answer.status();
    // Read to its end, so that the connection can be used again.
    answer.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
    Ok(status)
}

/// Nothing here takes this long, unless it hangs.
const HANGS: Duration = Duration::from_mins(1);
