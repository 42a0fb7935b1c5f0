//! The registry on loopback, asked by a plain HTTP client, by real ones, and by clients who mean it ill.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod access;
mod blobs;
mod exchange;
mod faults;
mod hostile;
mod images;
mod manifests;
mod real_clients;
mod uploads;

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, Method};
use keyfob_playground::registry::{Access, Options, Registry, Running};
use keyfob_testkit::{LeakCheck, LogCapture, ManualClock};
use reqwest::RequestBuilder;
use serde_json::Value;

const PASSWORD: &str = "hunter2-password";

/// A registry, somebody who asks it, and what was logged meanwhile.
struct Rig {
    registry: Running,
    client: reqwest::Client,
    clock: ManualClock,
    secrets: Vec<String>,
    logs: LogCapture,
}

impl Rig {
    async fn start(options: Options) -> Self {
        let logs = LogCapture::start();
        let clock = ManualClock::default();
        let options = Options { clock: Arc::new(clock.clone()), ..options };
        let registry = Registry::start(options).await.unwrap();
        let secrets = vec![PASSWORD.to_owned()];
        Self { registry, client: client(), clock, secrets, logs }
    }

    /// One that lets everybody do everything.
    async fn open() -> Self {
        Self::start(Options { access: Access::Anonymous, ..Options::default() }).await
    }

    /// A request to a path, or to where a `Location` points.
    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.registry.url()))
    }

    async fn get(&self, path: &str) -> Reply {
        reply(self.ask(Method::GET, path)).await
    }

    async fn head(&self, path: &str) -> Reply {
        reply(self.ask(Method::HEAD, path)).await
    }

    /// Pushes a blob at once.
    async fn push_blob(&self, repository: &str, bytes: &[u8]) -> String {
        let digest = sha256(bytes);
        let path = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        let pushed = reply(self.ask(Method::POST, &path).body(bytes.to_vec())).await;
        assert_eq!(pushed.status, 201, "{pushed:?}");
        digest
    }

    /// What was asked, with what came of it.
    fn seen(&self) -> Vec<String> {
        let line = |seen: keyfob_playground::registry::SeenRequest| {
            let status = seen.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
            format!("{} {} {status} {}", seen.method, seen.path, seen.who.as_deref().unwrap_or("-"))
        };
        self.registry.requests().into_iter().map(line).collect()
    }

    /// Nothing of what must not be seen was seen.
    async fn end(self) {
        LeakCheck::new(self.secrets)
            .text("the log", &self.logs.text())
            .debug("the registry", &self.registry)
            .debug("the requests", &self.registry.requests());
        self.registry.stop().await;
    }
}

/// An answer, read to its end.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Status and code of a refusal.
    fn refusal(&self) -> (u16, String) {
        let json = self.json();
        let [error] = json["errors"].as_array().unwrap().as_slice() else { panic!("{json}") };
        assert!(!error["message"].as_str().unwrap().is_empty());
        (self.status, error["code"].as_str().unwrap().to_owned())
    }
}

async fn reply(request: RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Reply { status, headers, body: response.bytes().await.unwrap().to_vec() }
}

fn refusal(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

fn client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy();
    builder.build().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "sha256:".to_owned();
    for byte in digest(&SHA256, bytes).as_ref() {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// Bytes that are not all alike.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}
