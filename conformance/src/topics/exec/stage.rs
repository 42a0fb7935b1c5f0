//! Everything around a client: a folder, servers, the plugin and the environment.

use std::{
    fs, mem,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_client::{
    Authenticators, Behaviour, ClientConfig, Clients, Dialect, LoadingRules, Messages, Overrides,
    World,
};
use keyfob_exec::Terminal;
use keyfob_testkit::{ClientCertificates, Internet, MapEnvironment, Reply, Response, TlsServer};
use kube::Client;
use serde_json::json;
use tempfile::TempDir;

use super::{Question, plugin::Plugin};
use crate::topics::stand_ins::{PAIRS, StandIns};

pub(super) struct Stage {
    folder: TempDir,
    pub(super) plugin: Arc<Plugin>,
    environment: MapEnvironment,
    server: TlsServer,
    desk: Arc<Desk>,
    stand_ins: StandIns,
    stderr: Arc<Mutex<String>>,
}

/// What a server got for a request.
#[derive(Default)]
pub(super) struct Received {
    pub(super) authorization: Vec<String>,
    pub(super) certificates: Vec<&'static str>,
}

impl Stage {
    pub(super) async fn set(question: &Question) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let desk = Arc::new(Desk::new(&question.statuses));
        let server = desk.serve(question.asks_for_certificates).await;
        let plain = question.wants_plain_http().then(|| desk.serve_plainly());
        let at = |name: &str| folder.path().join(name).display().to_string();
        let stand_ins = StandIns(vec![
            ("PLAIN_SERVER", plain.map_or_else(|| "none".to_owned(), |plain| plain.url())),
            ("SERVER", server.url()),
            ("CADATA64", BASE64_STANDARD.encode(server.ca_pem())),
            ("CERT_A64", BASE64_STANDARD.encode(PAIRS.pem("CERT_A"))),
            ("KEY_A64", BASE64_STANDARD.encode(PAIRS.pem("KEY_A"))),
            ("PLUGIN", at("bin/plugin")),
            ("SCRIPT", at("script")),
            ("FOLDER", folder.path().display().to_string()),
        ]);
        let meant = |text: &str| PAIRS.stand_ins.in_json(&stand_ins.in_json(text));
        let runs = question.plugin.iter();
        let runs = runs.map(|steps| meant(&json!(steps).to_string())).collect();
        let environment = environment(&at("bin"), &question.environment);
        let plugin = Arc::new(Plugin::install(folder.path(), runs, environment.clone()));
        fs::write(at("token"), "of a file\n").expect("a new file");
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": question.cluster}],
            "users": [{"name": "u", "user": question.user}],
        });
        fs::write(at("kubeconfig"), meant(&kubeconfig.to_string())).expect("a new file");
        let stderr = Arc::default();
        Self { folder, plugin, environment, server, desk, stand_ins, stderr }
    }

    /// Reads the kubeconfig as kubectl does.
    pub(super) fn client_config(&self) -> Result<ClientConfig, String> {
        let mut rules = LoadingRules::from_file(self.folder.path().join("kubeconfig"));
        rules.dialect = Dialect::ClientGo;
        let kubeconfig = rules.load().map_err(|error| self.in_words(&error.to_string()))?;
        let config = kubeconfig.client_config(&Overrides::default());
        config.map_err(|error| self.in_words(&error.to_string()))
    }

    pub(super) fn client(&self, config: &ClientConfig) -> Result<Client, String> {
        let stderr = Arc::clone(&self.stderr);
        let mut world = World::system();
        world.environment = Arc::new(self.environment.clone());
        world.runner = Arc::clone(&self.plugin) as _;
        world.terminal = Arc::new(NoTerminal);
        world.messages = Messages::to(move |line| {
            stderr.lock().unwrap().extend([line, "\n"]);
        });
        let authenticators = Authenticators::new(world, Behaviour::of_client_go());
        let clients = Clients::new(authenticators, Arc::new(self.environment.clone()));
        clients.connect(config).map_err(|error| self.in_words(&error.to_string()))
    }

    /// What the servers got since it was last called.
    pub(super) fn received(&self) -> Received {
        mem::take(&mut *self.desk.received.lock().unwrap())
    }

    /// What plugins said.
    pub(super) fn stderr(&self) -> String {
        self.in_words(&self.stderr.lock().unwrap())
    }

    /// Words in the place of what they stand for.
    pub(super) fn in_words(&self, text: &str) -> String {
        let text = PAIRS.stand_ins.in_words(&self.stand_ins.in_words(text));
        text.replace(&self.server.address().to_string(), "SERVER_ADDRESS")
    }
}

/// The client's environment, where a later value takes an earlier one's place.
fn environment(path: &str, entries: &[String]) -> MapEnvironment {
    let mut variables = vec![("PATH", path)];
    for entry in entries {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        match variables.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => variables.push((name, value)),
        }
    }
    variables.into_iter().collect()
}

/// What the servers do: they remember what came, and give one answer after another.
struct Desk {
    statuses: Mutex<Vec<u16>>,
    received: Mutex<Received>,
}

impl Desk {
    fn new(statuses: &[u16]) -> Self {
        let statuses = Mutex::new(statuses.iter().rev().copied().collect());
        Self { statuses, received: Mutex::default() }
    }

    async fn serve(self: &Arc<Self>, asks_for_certificates: bool) -> TlsServer {
        let desk = Arc::clone(self);
        let clients = if asks_for_certificates {
            ClientCertificates::Asked
        } else {
            ClientCertificates::NotAsked
        };
        TlsServer::start(clients, move |visit| {
            let headers = visit.headers.get_all("authorization").iter();
            let headers = headers.map(|value| String::from_utf8_lossy(value.as_bytes()));
            let certificates = visit.certificates.iter().map(|der| PAIRS.named(der));
            Reply::Status(desk.answer(headers.map(Into::into), certificates), String::new())
        })
        .await
    }

    fn serve_plainly(self: &Arc<Self>) -> Internet {
        let desk = Arc::clone(self);
        Internet::start(move |request| {
            let headers = request.header("authorization").map(str::to_owned);
            Response::status(desk.answer(headers.into_iter(), [].into_iter()))
        })
    }

    fn answer(
        &self,
        authorization: impl Iterator<Item = String>,
        certificates: impl Iterator<Item = &'static str>,
    ) -> u16 {
        let mut received = self.received.lock().unwrap();
        received.authorization.extend(authorization);
        received.certificates.extend(certificates);
        self.statuses.lock().unwrap().pop().expect("a request has one answer")
    }
}

/// The oracle has none either: it is asked through its stdin.
#[derive(Debug)]
struct NoTerminal;

impl Terminal for NoTerminal {
    fn stdin_is_terminal(&self) -> bool {
        false
    }
}
