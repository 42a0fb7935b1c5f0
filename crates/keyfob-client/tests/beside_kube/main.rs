//! `kube` by itself and through keyfob-client: the same kubeconfig, the same server, the same plugin, in one run.
//!
//! The table that it prints is in docs/kubeconfig.md. What `kube` does is told, and only what we do is demanded: whoever
//! updates `kube` reads here what has become better.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "../support/plugin.rs"]
mod plugin;

use std::{
    fs,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use http::Request;
use keyfob_client::{Authenticators, Behaviour, Clients, World};
use keyfob_exec::SystemEnvironment;
use keyfob_testkit::{ClientCertificates, Reply, TlsServer};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::plugin::{Plugin, V1, certificate};

/// Who makes the client.
#[derive(Clone, Copy)]
enum Who {
    Kube,
    Keyfob,
}

/// The token that the server wants; without one it takes everybody.
type Wanted = Arc<Mutex<Option<String>>>;

struct Stage {
    server: TlsServer,
    wanted: Wanted,
    plugin: Plugin,
}

impl Stage {
    async fn new(status: &Value) -> Self {
        let wanted = Wanted::default();
        let wants = Arc::clone(&wanted);
        let server = TlsServer::start(ClientCertificates::Asked, move |visit| {
            let wanted = wants.lock().unwrap().clone();
            let is_wanted = |token| visit.authorization() == Some(format!("Bearer {token}"));
            Reply::from(if wanted.is_none_or(is_wanted) { 200 } else { 401 })
        })
        .await;
        Self { server, wanted, plugin: Plugin::answering(status) }
    }

    async fn config(&self) -> Config {
        let exec = self.plugin.config();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": self.server.url(),
                "certificate-authority-data": base64(self.server.ca_pem()),
            }}],
            "users": [{"name": "it", "user": {"exec": {
                "apiVersion": V1, "command": exec.command, "interactiveMode": "Never",
            }}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).unwrap();
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()
    }

    async fn client(&self, who: Who) -> Client {
        let config = self.config().await;
        match who {
            Who::Kube => Client::try_from(config).unwrap(),
            Who::Keyfob => Clients::system().connect_kube(config).unwrap(),
        }
    }
}

fn base64(text: &str) -> String {
    use ::base64::{Engine as _, prelude::BASE64_STANDARD};
    BASE64_STANDARD.encode(text)
}

async fn statuses(client: &Client, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        let request = Request::get("/version").body(Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        statuses.push(answer.status().as_u16());
        answer.into_body().collect_bytes().await.unwrap();
    }
    statuses
}

async fn building(who: Who) -> String {
    let stage = Stage::new(&json!({"token": "one"})).await;
    let client = stage.client(who).await;
    let built = stage.plugin.runs();
    statuses(&client, 5).await;
    format!("{built} runs, {} after 5 requests", stage.plugin.runs())
}

async fn refused(who: Who) -> String {
    let stage = Stage::new(&json!({"token": "one"})).await;
    *stage.wanted.lock().unwrap() = Some("one".to_owned());
    let client = stage.client(who).await;
    statuses(&client, 1).await;
    stage.plugin.answer(&json!({"token": "two"}));
    *stage.wanted.lock().unwrap() = Some("two".to_owned());
    format!("{:?}", statuses(&client, 3).await)
}

async fn rotated(who: Who) -> String {
    let stage = Stage::new(&certificate("alice")).await;
    let client = stage.client(who).await;
    statuses(&client, 1).await;
    let mut bob = certificate("bob");
    bob["token"] = json!("two");
    stage.plugin.answer(&bob);
    *stage.wanted.lock().unwrap() = Some("two".to_owned());
    let statuses = statuses(&client, 2).await;
    let visits = stage.server.visits();
    let (first, last) = (visits.first().unwrap(), visits.last().unwrap());
    let presented = if first.certificates == last.certificates {
        "the old certificate"
    } else {
        "the new certificate"
    };
    format!("{statuses:?} with {presented}")
}

async fn expiring(who: Who) -> String {
    let soon = keyfob_api::Timestamp::from(
        keyfob_exec::Clock::now(&keyfob_exec::SystemClock) + Duration::from_secs(50),
    );
    let stage = Stage::new(&json!({"token": "one", "expirationTimestamp": soon.to_string()})).await;
    let client = stage.client(who).await;
    let built = stage.plugin.runs();
    statuses(&client, 5).await;
    format!("{} runs for 5 requests", stage.plugin.runs() - built)
}

async fn both(who: Who) -> String {
    let mut status = certificate("alice");
    status["token"] = json!("one");
    let stage = Stage::new(&status).await;
    statuses(&stage.client(who).await, 1).await;
    let visit = stage.server.visits().pop().unwrap();
    let token = if visit.authorization().is_some() { "the token" } else { "no token" };
    let certificate =
        if visit.certificates.is_empty() { "no certificate" } else { "the certificate" };
    format!("sends {token}, presents {certificate}")
}

/// A plugin that never ends; its number is in a file, so that it does.
async fn hanging(who: Who) -> String {
    let stage = Stage::new(&json!({"token": "one"})).await;
    let at = stage.plugin.directory().display().to_string();
    fs::write(
        format!("{at}/plugin"),
        format!("#!/bin/sh\necho $$ >>'{at}/pids'\nexec sleep 1000\n"),
    )
    .unwrap();
    let config = stage.config().await;
    let outcome = match who {
        Who::Kube => {
            let (done, is_done) = mpsc::channel();
            let runtime = tokio::runtime::Handle::current();
            thread::spawn(move || {
                let _inside = runtime.enter();
                done.send(Client::try_from(config).is_ok()).unwrap_or_default();
            });
            // As long as anybody is willing to watch.
            let waited =
                tokio::task::spawn_blocking(move || is_done.recv_timeout(Duration::from_secs(2)));
            match waited.await.unwrap() {
                Ok(built) => format!("built: {built}"),
                Err(_) => "making the client blocks the thread, without an end".to_owned(),
            }
        }
        Who::Keyfob => {
            let mut behaviour = Behaviour::default();
            behaviour.deadline = Some(Duration::from_millis(300));
            let authenticators = Authenticators::new(World::system(), behaviour);
            let clients = Clients::new(authenticators, Arc::new(SystemEnvironment));
            let client = clients.connect_kube(config).unwrap();
            let request = Request::get("/version").body(Body::empty()).unwrap();
            let error = client.send(request).await.unwrap_err();
            let told = format!("{error:?}");
            assert!(told.contains("300"), "{told}");
            "the request fails at the deadline, and the plugin is killed".to_owned()
        }
    };
    let pids = fs::read_to_string(format!("{at}/pids")).unwrap_or_default();
    for pid in pids.lines().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap_or_default();
    }
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table() {
    let rows = [
        ("making a client", building(Who::Kube).await, building(Who::Keyfob).await),
        (
            "the token is replaced, the server answers 401",
            refused(Who::Kube).await,
            refused(Who::Keyfob).await,
        ),
        (
            "the certificate is replaced, after a 401",
            rotated(Who::Kube).await,
            rotated(Who::Keyfob).await,
        ),
        ("a token that ends in 50 s", expiring(Who::Kube).await, expiring(Who::Keyfob).await),
        ("a token and a certificate", both(Who::Kube).await, both(Who::Keyfob).await),
        ("a plugin that hangs", hanging(Who::Kube).await, hanging(Who::Keyfob).await),
    ];
    eprintln!("| | `kube` | `kube` through keyfob-client |\n|---|---|---|");
    for (what, kube, keyfob) in &rows {
        eprintln!("| {what} | {kube} | {keyfob} |");
    }
    let ours = rows.map(|(_, _, keyfob)| keyfob);
    assert_eq!(
        ours.each_ref().map(String::as_str),
        [
            "0 runs, 1 after 5 requests",
            "[200, 200, 200]",
            "[200, 200] with the new certificate",
            "1 runs for 5 requests",
            "sends the token, presents the certificate",
            "the request fails at the deadline, and the plugin is killed",
        ]
    );
}
