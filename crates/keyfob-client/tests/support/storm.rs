//! Many requests to a real server, with a real plugin, while the token changes all the time.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, StatusCode};
use keyfob_client::{Authenticators, Behaviour, ClientConfig, Clients, ExecConfig, World};
use keyfob_exec::SystemEnvironment;
use keyfob_testkit::{ClientCertificates, TlsServer};
use kube::{Client, client::Body};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::json;
use tokio::time::interval;

use crate::plugin::Plugin;

/// How often the token changes.
pub(crate) const ROTATION: Duration = Duration::from_millis(50);

/// What became of it.
#[derive(Debug)]
pub(crate) struct Storm {
    pub(crate) requests: usize,
    pub(crate) rotations: usize,
    pub(crate) runs: usize,
    /// The tokens that refused requests carried, one after the other.
    pub(crate) refused: Vec<Vec<usize>>,
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, rotations, runs, refused } = self;
        write!(
            f,
            "{requests} requests, {rotations} rotations, {runs} runs, {} refused",
            refused.len()
        )
    }
}

/// So many tasks send so many requests each through one client.
pub(crate) async fn storm(tasks: usize, requests: usize) -> Storm {
    let plugin = Arc::new(Plugin::answering(&json!({"token": "0"})));
    let current = Arc::new(RwLock::new("Bearer 0".to_owned()));
    let server = TlsServer::start(ClientCertificates::Asked, {
        let current = Arc::clone(&current);
        move |visit| {
            let is_current = visit.authorization().as_ref() == Some(&*current.read().unwrap());
            if is_current { 200.into() } else { 401.into() }
        }
    })
    .await;
    let mut registry = Registry::default();
    let client = client(&server, &plugin, &mut registry);
    // A connection for each task: a handshake may take longer than a token lasts.
    send(&client, tasks, 1).await;

    let (done, rotations) = (Arc::new(AtomicBool::default()), Arc::new(AtomicUsize::default()));
    let rotating = tokio::spawn({
        let (done, rotations) = (Arc::clone(&done), Arc::clone(&rotations));
        async move {
            let mut ticks = interval(ROTATION);
            while !done.load(Ordering::SeqCst) {
                ticks.tick().await;
                let token = rotations.fetch_add(1, Ordering::SeqCst) + 1;
                // The server and the plugin change their minds at once.
                let mut current = current.write().unwrap();
                plugin.answer(&json!({"token": token.to_string()}));
                *current = format!("Bearer {token}");
            }
        }
    });
    let refused = send(&client, tasks, requests).await;
    done.store(true, Ordering::SeqCst);
    rotating.await.unwrap();

    let mut tokens = HashMap::<_, Vec<_>>::new();
    for visit in server.visits() {
        let token = visit.authorization();
        let token = token.and_then(|it| it.strip_prefix("Bearer ")?.parse::<usize>().ok());
        tokens.entry(visit.target).or_default().push(token.unwrap());
    }
    Storm {
        requests: tasks * requests,
        rotations: rotations.load(Ordering::SeqCst),
        runs: runs(&registry),
        refused: refused.iter().map(|path| tokens[path].clone()).collect(),
    }
}

fn client(server: &TlsServer, plugin: &Plugin, registry: &mut Registry) -> Client {
    let authenticators = Authenticators::new(World::system(), Behaviour::default());
    authenticators.register_metrics(registry);
    // Nothing is quicker.
    let answer = plugin.directory().join("answer").display().to_string();
    let exec = ExecConfig { command: "cat".to_owned(), args: vec![answer], ..plugin.config() };
    let mut config = ClientConfig::default();
    config.server = server.url();
    config.tls.ca_data = server.ca_pem().into();
    config.exec = Some(exec);
    Clients::new(authenticators, Arc::new(SystemEnvironment)).connect(&config).unwrap()
}

/// The paths of the requests that were refused.
async fn send(client: &Client, tasks: usize, requests: usize) -> Vec<String> {
    let tasks = (0..tasks).map(|task| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut refused = Vec::new();
            for request in 0..requests {
                let path = format!("/{requests}/{task}/{request}");
                let asked = Request::get(&path).body(Body::empty()).unwrap();
                let answer = client.send(asked).await.unwrap();
                match answer.status() {
                    StatusCode::OK => {}
                    StatusCode::UNAUTHORIZED => refused.push(path),
                    other => panic!("{other}"),
                }
                answer.into_body().collect_bytes().await.unwrap();
            }
            refused
        })
    });
    let mut refused = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        refused.extend(task.await.unwrap());
    }
    refused
}

fn runs(registry: &Registry) -> usize {
    let mut shown = String::new();
    text::encode(&mut shown, registry).unwrap();
    let calls = shown.lines().filter_map(|line| {
        line.strip_prefix("rest_client_exec_plugin_call_total{")?.rsplit_once(' ')
    });
    calls.map(|(_, count)| count.parse::<usize>().unwrap()).sum()
}
