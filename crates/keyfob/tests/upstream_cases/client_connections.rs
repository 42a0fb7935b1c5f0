//! Rows about what a plugin's answers do to connections, against a real TLS server that asks for certificates.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Request;
use keyfob_api::{Certificate, Timestamp};
use keyfob_client::{
    Authenticators, Behaviour, ClientConfig, Clients, ExecConfig, InteractiveMode, World,
};
use keyfob_exec::{Clock as _, SystemEnvironment};
use keyfob_testkit::{ClientCertificates, ManualClock, Reply, TlsServer, Visit, self_signed};
use kube::{Client, client::Body};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[(
    "client/kubeconfig_editing_and_transport.json",
    "transport_TestNew_callback_rows",
    transport,
)];

const V1: &str = "client.authentication.k8s.io/v1";

/// What a transport presents when there is nothing to present. A dialer that is there and is not cannot be said here.
fn transport(_file: &Value, row: &Value) -> Result<(), String> {
    if row["error"] == true {
        return fact("row", text(row, "name"), "non-nil dial holder and nil internal");
    }
    run(async {
        let stage = Stage::new(&json!({"token": "1"}), Behaviour::of_client_go()).await;
        send(&stage.client, "/", &[]).await?;
        fact("certificates", &stage.server.visits()[0].certificates.len(), &0)
    })
}

/// `sm.conn A -> B`: a request, one that is refused after the plugin has changed its mind, and one more.
pub(crate) fn connections(file: &Value, change: &str, observed: &Value) -> Result<(), String> {
    let (first, second) = answers(&file["fixtures"], change)?;
    run(async {
        let stage = Stage::new(&first, Behaviour::of_client_go()).await;
        let mut told = vec![stage.request("/", &[]).await];
        stage.says(&second);
        stage.refuses.store(true, Ordering::SeqCst);
        told.push(stage.request("/", &[]).await);
        told.push(stage.request("/", &[]).await);
        fact("observed", &json!(told), observed)
    })
}

/// What a request is under way for ends when the certificate changes.
pub(crate) fn in_flight(file: &Value) -> Result<(), String> {
    let (first, second) = answers(&file["fixtures"], "different cert")?;
    run(async {
        let stage = Stage::new(&first, Behaviour::of_client_go()).await;
        let client = stage.client.clone();
        let slow = tokio::spawn(async move { send(&client, "/slow", &[]).await });
        while !stage.server.visits().iter().any(|visit| visit.target == "/slow") {
            tokio::task::yield_now().await;
        }
        stage.says(&second);
        stage.refuses.store(true, Ordering::SeqCst);
        fact("401", &stage.request("/", &[]).await.starts_with("401 "), &true)?;
        fact("the slow one failed", &slow.await.unwrap().is_err(), &true)
    })
}

/// A request that has its own header keeps it; its handshake asks the plugin all the same.
pub(crate) fn own_header(file: &Value, observed: &Value) -> Result<(), String> {
    let (first, _) = answers(&file["fixtures"], "different cert")?;
    run(async {
        let stage = Stage::new(&first, Behaviour::of_client_go()).await;
        let sent = send(&stage.client, "/", &[("authorization", "Basic zzz")]).await?;
        let visit = stage.server.visits().pop().ok_or("no visit")?;
        let told = format!("{sent} runs={} seen=[{}]", stage.runs(), seen(&visit));
        fact("observed", &json!(told), observed)
    })
}

/// An answer that is expired when it comes. Upstream closes the connection that it is making with each new certificate, and
/// runs the plugin for each handshake; here requests are answered, and the plugin is run once for each.
pub(crate) fn clock_skew(file: &Value, new_each_run: bool) -> Result<(), String> {
    let past = "2020-01-01T00:00:00Z";
    let (mut first, mut second) = answers(&file["fixtures"], "different cert")?;
    first["expirationTimestamp"] = json!(past);
    second["expirationTimestamp"] = json!(past);
    run(async {
        let stage = Stage::new(&first, Behaviour::of_client_go()).await;
        for request in 0..4 {
            if new_each_run && request > 0 {
                stage.says(if request % 2 == 0 { &first } else { &second });
            }
            fact("answered", &stage.request("/", &[]).await.starts_with("200 "), &true)?;
        }
        // By default such an answer is used for a while.
        let stage = Stage::new(&first, Behaviour::default()).await;
        for _ in 0..4 {
            stage.request("/", &[]).await;
        }
        fact("runs", &stage.runs(), &1)
    })
}

/// Whether a server gets a certificate, or the handshake fails: of rows that say so.
pub(crate) fn handshake(row: &Value) -> Result<(), String> {
    let Some(wanted) = row["handshake"].as_str() else { return Ok(()) };
    let status = json!({"clientCertificateData": row["cert_pem"], "clientKeyData": row["key_pem"]});
    run(async {
        let stage = Stage::new(&status, Behaviour::of_client_go()).await;
        let sent = send(&stage.client, "/", &[]).await;
        if wanted != "ok" {
            // What Go's server cannot read ours may; it is shown what the plugin said in any case.
            return Ok(());
        }
        sent?;
        let visit = stage.server.visits().pop().ok_or("no visit")?;
        fact("chain", &json!(visit.certificates.len()), &row["chain_len"])?;
        fact("name", &json!(name(&visit)), &row["leaf_cn"])
    })
}

/// Equal configurations share their connections, another does not.
pub(crate) fn shared() -> Result<(), String> {
    run(async {
        let stage = Stage::new(&json!({"token": "1"}), Behaviour::of_client_go()).await;
        let again = stage.clients.connect(&stage.config).unwrap();
        let mut other = stage.config.clone();
        other.exec.as_mut().unwrap().args.push("make this exec auth different".to_owned());
        let other = stage.clients.connect(&other).unwrap();
        let mut connections = Vec::new();
        for client in [&stage.client, &again, &other] {
            send(client, "/", &[]).await?;
            connections.push(stage.server.connections());
        }
        fact("connections", &connections, &vec![1, 1, 2])
    })
}

/// A server that trusts one certificate: it is let in, another is not, and it is again.
pub(crate) fn credentials() -> Result<(), String> {
    let [good, bad] = ["A", "B"].map(self_signed);
    let trusted = CertificateDer::from_pem_slice(good.0.as_bytes()).unwrap().to_vec();
    let knows = ClientCertificates::Required(Arc::new(move |leaf| leaf == trusted));
    run(async {
        let server = TlsServer::start(knows, |_| 200.into()).await;
        let clock = ManualClock::default();
        let mut world = World::system();
        world.clock = Arc::new(clock.clone());
        let stage = Stage::with(server, world, Behaviour::of_client_go());
        for ((certificate, key), is_let_in) in [(&good, true), (&bad, false), (&good, true)] {
            let end = Timestamp::from(clock.now() + Duration::from_hours(1)).to_string();
            stage.says(&json!({
                "clientCertificateData": certificate, "clientKeyData": key, "expirationTimestamp": end,
            }));
            fact("let in", &send(&stage.client, "/", &[]).await.is_ok(), &is_let_in)?;
            clock.advance(Duration::from_hours(2));
        }
        Ok(())
    })
}

/// Ten connections with a request under way on each, closed at once.
pub(crate) fn close_all() -> Result<(), String> {
    let [alice, bob] = ["alice", "bob"].map(|name| {
        let (certificate, key) = self_signed(name);
        json!({"clientCertificateData": certificate, "clientKeyData": key})
    });
    run(async {
        let stage = Stage::new(&alice, Behaviour::of_client_go()).await;
        let slow = (0..10).map(|_| {
            let client = stage.client.clone();
            tokio::spawn(async move { send(&client, "/slow", &[]).await })
        });
        let slow: Vec<_> = slow.collect();
        while stage.server.visits().len() < 10 {
            tokio::task::yield_now().await;
        }
        stage.says(&bob);
        stage.refuses.store(true, Ordering::SeqCst);
        stage.request("/", &[]).await;
        for each in slow {
            fact("closed", &each.await.unwrap().is_err(), &true)?;
        }
        Ok(())
    })
}

/// The statuses before and after, by the words of the case.
fn answers(fixtures: &Value, change: &str) -> Result<(Value, Value), String> {
    let text = |name: &str| fixtures[name].as_str().unwrap().to_owned();
    let pair = |certificate: String, key: &str| json!({"clientCertificateData": certificate, "clientKeyData": text(key)});
    let alice = pair(text("CERT_alice"), "EC_PKCS8_alice");
    let with_token = |mut status: Value, token: &str| {
        status["token"] = json!(token);
        status
    };
    Ok(match change {
        "cert -> empty status" => (alice, json!({})),
        "cert -> token only" => (alice, json!({"token": "1"})),
        "different cert" => (alice, pair(text("CERT_bob"), "EC_PKCS8_bob")),
        "same cert PEM again" => (alice.clone(), alice),
        "same cert, other PEM text and key encoding" => {
            (alice, pair(format!("# again\n{}", text("CERT_alice")), "EC_SEC1_alice"))
        }
        "same leaf, longer chain" => {
            let chain = text("CERT_alice") + &text("CERT_bob");
            (alice, pair(chain, "EC_PKCS8_alice"))
        }
        "token -> other token" => (json!({"token": "1"}), json!({"token": "2"})),
        "token -> token and cert" | "token -> token+cert" => {
            (json!({"token": "1"}), with_token(alice, "2"))
        }
        "token -> cert" => (json!({"token": "1"}), alice),
        "same cert, other token" | "cert and token -> other token" => {
            (with_token(alice.clone(), "1"), with_token(alice, "2"))
        }
        other => return Err(format!("no such change: {other}")),
    })
}

struct Stage {
    directory: TempDir,
    server: TlsServer,
    refuses: Arc<AtomicBool>,
    config: ClientConfig,
    clients: Clients,
    client: Client,
}

impl Stage {
    async fn new(status: &Value, behaviour: Behaviour) -> Self {
        let refuses = Arc::new(AtomicBool::default());
        let refusing = Arc::clone(&refuses);
        let server =
            TlsServer::start(ClientCertificates::Asked, move |visit| match visit.target.as_str() {
                "/slow" => Reply::Never,
                _ if refusing.swap(false, Ordering::SeqCst) => 401.into(),
                _ => 200.into(),
            })
            .await;
        let stage = Self { refuses, ..Self::with(server, World::system(), behaviour) };
        stage.says(status);
        stage
    }

    /// A client of a server, whose plugin has nothing to say yet.
    fn with(server: TlsServer, world: World, behaviour: Behaviour) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().display().to_string();
        let plugin = format!("{at}/plug");
        let script = format!("#!/bin/sh\necho >>'{at}/runs'\nexec cat '{at}/answer'\n");
        fs::write(&plugin, script).unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
        let mut config = ClientConfig::default();
        config.server = server.url();
        config.tls.ca_data = server.ca_pem().into();
        config.exec = Some(ExecConfig {
            command: plugin,
            api_version: V1.to_owned(),
            interactive_mode: InteractiveMode::Never,
            ..ExecConfig::default()
        });
        let authenticators = Authenticators::new(world, behaviour);
        let clients = Clients::new(authenticators, Arc::new(SystemEnvironment));
        let client = clients.connect(&config).unwrap();
        Self { directory, server, refuses: Arc::default(), config, clients, client }
    }

    fn says(&self, status: &Value) {
        let answer = json!({"kind": "ExecCredential", "apiVersion": V1, "status": status});
        fs::write(self.directory.path().join("answer"), answer.to_string()).unwrap();
    }

    fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.directory.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    }

    /// A request, as rows tell of it.
    async fn request(&self, path: &str, headers: &[(&str, &str)]) -> String {
        match send(&self.client, path, headers).await {
            Err(error) => format!("ERR {error} runs={}", self.runs()),
            Ok(status) => {
                let visit = self.server.visits().pop().unwrap();
                let (runs, connections) = (self.runs(), self.server.connections());
                format!("{status} runs={runs} conns={connections} {}", seen(&visit))
            }
        }
    }
}

async fn send(client: &Client, path: &str, headers: &[(&str, &str)]) -> Result<u16, String> {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let sent = client.send(request.body(Body::empty()).unwrap()).await;
    let answer = sent.map_err(|error| format!("{error:?}"))?;
    let status = answer.status().as_u16();
    answer.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
    Ok(status)
}

fn seen(visit: &Visit) -> String {
    let authorization = visit.authorization().unwrap_or_default();
    let escaped = authorization.replace('\t', "\\t");
    format!("auth=\"{escaped}\" cn={} n={}", name(visit), visit.certificates.len())
}

fn name(visit: &Visit) -> String {
    let leaf = visit.certificates.first().and_then(|der| Certificate::parse(der).ok());
    leaf.and_then(|leaf| leaf.common_name).unwrap_or_else(|| "-".to_owned())
}

fn run<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(story)
}
