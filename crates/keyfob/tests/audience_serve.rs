//! `keyfob audience serve` as a process: TLS outside, an API server behind it.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers; and it runs the program"
)]

#[path = "support/api_server.rs"]
mod api_server;
#[path = "support/signals.rs"]
mod signals;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
    sync::Arc,
};

use api_server::{API_TOKEN, kubeconfig, refusal};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use keyfob_testkit::{HostileClient, Internet, LeakCheck, Request, Response};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use rcgen::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName},
};
use serde_json::{Value, json};
use tempfile::TempDir;

const ASKED_TOKEN: &str = "hunter2-asked-token";

/// The process, and whom its clients trust.
struct Webhook {
    child: Child,
    logs: BufReader<ChildStderr>,
    address: String,
    trusted: CertificateDer<'static>,
    _folder: TempDir,
}

impl Webhook {
    fn start(kubeconfig: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, text) in [
            ("tls.crt", cert.pem()),
            ("tls.key", signing_key.serialize_pem()),
            ("config", kubeconfig.to_owned()),
            ("token", pod_token()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_keyfob"))
            .args(["audience", "serve", "--listen", "127.0.0.1:0", "-v", "--log-format", "json"])
            .args(["--tls-cert", "tls.crt", "--tls-key", "tls.key", "--kubeconfig", "config"])
            .args(args)
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut logs = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        logs.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let field =
            |name: &str| line.pointer(&format!("/fields/{name}")).unwrap().as_str().unwrap();
        assert_eq!(field("message"), "webhook listens");
        let address = field("address").to_owned();
        Self { child, logs, address, trusted: cert.der().clone(), _folder: folder }
    }

    /// Status line and body.
    fn ask(&self, head: &str, body: &str) -> (String, String) {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(&self.address).unwrap());
        let length = body.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        // Whether the end is announced does not matter: the length is.
        stream.read_to_end(&mut answer).unwrap_or_default();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// Asks how it is until it says this. It asks the API server beside its work, so that may be a little later.
    fn says(&self, expected: &str) {
        let mut reports = (0..1000).map(|_| self.ask("GET /readyz", "").1);
        assert!(reports.any(|report| report.contains(expected)), "{expected}");
    }

    fn judge(&self, audiences: &[&str]) -> Value {
        let (status, body) = self.ask("POST /validate?timeout=5s", &review(audiences));
        assert_eq!(status, "HTTP/1.1 200 OK");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer.get("response").unwrap().clone()
    }

    fn signal(&self, kind: Signal) {
        signal::kill(Pid::from_raw(self.child.id().try_into().unwrap()), kind).unwrap();
    }

    /// Exit code and the rest of the log, which never holds a secret.
    fn stop(self) -> (Option<i32>, String) {
        // It is quicker by the one for people, if it heeds that.
        let quick = signals::heeded(Signal::SIGINT);
        self.signal(if quick { Signal::SIGINT } else { Signal::SIGTERM });
        self.end()
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut logs = String::new();
        self.logs.read_to_string(&mut logs).unwrap();
        LeakCheck::new([API_TOKEN, ASKED_TOKEN, &pod_token()]).text("the log", &logs);
        (self.child.wait().unwrap().code(), logs)
    }
}

fn cluster(request: &Request) -> Response {
    let answer = match request.path() {
        "/api/v1/namespaces/team/pods/app" => {
            let sources = json!([{"serviceAccountToken": {"path": "token"}}]);
            let volumes = json!([{"name": "mounted", "projected": {"sources": sources}}]);
            let spec = json!({"nodeName": "n", "containers": [], "volumes": volumes});
            json!({"metadata": {"name": "app", "uid": "u1"}, "spec": spec})
        }
        "/.well-known/openid-configuration" => json!({"issuer": "https://issuer.example"}),
        "/version" => json!({
            "major": "1", "minor": "37", "gitVersion": "", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        }),
        _ => json!({"spec": {}, "status": {"allowed": false}}),
    };
    Response::json(answer.to_string())
}

/// A cluster that says nothing of its tokens.
fn reticent(request: &Request) -> Response {
    match request.path() {
        "/.well-known/openid-configuration" => {
            refusal(404, "the server could not find the requested resource")
        }
        _ => cluster(request),
    }
}

/// The token of a pod of an API server with two audiences of its own.
fn pod_token() -> String {
    let claims = json!({"aud": ["https://a.example", "https://b.example"]}).to_string();
    format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

fn review(audiences: &[&str]) -> String {
    let spec = json!({
        "audiences": audiences,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": "u1"},
    });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-1",
            "resource": {"group": "", "version": "v1", "resource": "serviceaccounts"},
            "subResource": "token",
            "name": "builder",
            "namespace": "team",
            "operation": "CREATE",
            "userInfo": {"username": "system:node:n", "groups": ["system:nodes"]},
            "object": {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
                       "spec": spec, "status": {"token": ASKED_TOKEN, "expirationTimestamp": null}},
        },
    })
    .to_string()
}

#[test]
fn it_judges_over_tls_and_stops_when_told() {
    let webhook = Webhook::start(&kubeconfig(&Internet::start(cluster).url()), &[]);

    webhook.says("[+] api-server: ok");
    let response = webhook.judge(&["registry"]);
    let (_, metrics) = webhook.ask("GET /metrics", "");
    let (code, logs) = webhook.stop();

    assert_eq!(response.get("allowed"), Some(&json!(false)));
    let message = response.pointer("/status/message").unwrap().as_str().unwrap();
    assert!(message.contains("is not authorized to request tokens for audience \"registry\""));
    assert!(metrics.contains("clause=\"not-authorized\",outcome=\"refused\"} 1"), "{metrics}");
    assert_eq!(code, Some(0));
    assert!(logs.contains("\"clause\":\"not-authorized\""), "{logs}");
    assert!(logs.contains("webhook stopped"), "{logs}");
}

#[test]
fn it_lingers_after_a_signal_and_a_second_ends_it_at_once() {
    let mut webhook = Webhook::start(&kubeconfig(&Internet::start(cluster).url()), &[]);

    webhook.signal(Signal::SIGTERM);
    let mut line = String::new();
    while !line.contains("webhook is to stop") {
        line.clear();
        assert_ne!(webhook.logs.read_line(&mut line).unwrap(), 0, "it says that it lingers");
    }
    assert_eq!(webhook.ask("GET /livez", "").0, "HTTP/1.1 200 OK");
    webhook.signal(Signal::SIGTERM);
    let (code, logs) = webhook.end();

    assert_eq!(code, Some(0));
    assert!(!logs.contains("webhook stopped"), "it did not wait for its time to end: {logs}");
}

#[tokio::test]
async fn idle_connections_and_handshakes_lock_no_api_server_out() {
    let webhook = Webhook::start(&kubeconfig(&Internet::start(cluster).url()), &[]);
    let attacker = HostileClient::tls([127, 0, 0, 2], webhook.address.parse().unwrap());
    let handshakes = attacker.silent(1_000).await;
    let idle = attacker.idle(300, "/livez").await;
    assert_eq!(idle.len(), 300);

    webhook.says("[+] api-server: ok");
    let response = webhook.judge(&["registry"]);

    assert_eq!(response.get("allowed"), Some(&json!(false)));
    drop((handshakes, idle));
    assert_eq!(webhook.stop().0, Some(0));
}

#[test]
fn it_knows_the_api_servers_own_audiences() {
    let told = ["--api-audiences", "x,y", "--api-audiences", "z"];
    let of_pod = json!({"tokenFile": "token"});
    let person = json!({"token": API_TOKEN});
    for (user, args, own) in [
        (&person, &[][..], &["https://issuer.example"][..]),
        (&of_pod, &[], &["https://a.example", "https://b.example"]),
        (&of_pod, &told, &["x", "y", "z"]),
    ] {
        let server = Internet::start(cluster);
        let url = server.url().replace("http:", "https:");
        let mut kubeconfig: Value = serde_json::from_str(&kubeconfig(&url)).unwrap();
        *kubeconfig.pointer_mut("/users/0/user").unwrap() = user.clone();
        let authority = BASE64_STANDARD.encode(server.ca_pem());
        kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] = json!(authority);
        let webhook = Webhook::start(&kubeconfig.to_string(), args);
        webhook.says("[+] api-server: ok");

        let (mounted, another) = (webhook.judge(own), webhook.judge(&["https://other.example"]));

        let clause = "/auditAnnotations/clause";
        assert_eq!(mounted.pointer(clause), Some(&json!("projected-volume")), "{own:?}");
        assert_eq!(another.pointer(clause), Some(&json!("not-authorized")), "{own:?}");
        let (_, logs) = webhook.stop();
        assert!(logs.contains(&format!("\"audiences\":\"{}\"", own.join(","))), "{logs}");
    }
}

#[test]
fn it_is_not_ready_while_the_api_servers_own_audiences_are_not_known() {
    let kubeconfig = kubeconfig(&Internet::start(reticent).url());
    let webhook = Webhook::start(&kubeconfig, &[]);
    webhook.says(
        "[-] api-server: it has not answered yet: it does not name the issuer of its tokens: the server could not find the \
         requested resource: name the API server's own audiences with --api-audiences",
    );
    let refused = webhook.judge(&["https://issuer.example"]);
    assert_eq!(refused.pointer("/status/code"), Some(&json!(503)));
    webhook.stop();

    let webhook = Webhook::start(&kubeconfig, &["--api-audiences", "https://issuer.example"]);
    webhook.says("[+] api-server: ok");
    webhook.stop();
}
