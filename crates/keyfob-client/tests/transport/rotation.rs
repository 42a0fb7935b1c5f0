//! What a new certificate does to connections.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::StatusCode;
use keyfob_client::{Behaviour, Clients, OldConnections};
use keyfob_testkit::{ClientCertificates, Reply, TlsServer, Visit};
use kube::Client;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    HANGS, clients, connect, get,
    plugin::{Plugin, certificate},
};

/// A server that refuses when it is told to, and never answers `/slow`.
struct Stage {
    server: TlsServer,
    refuses: Arc<AtomicBool>,
    plugin: Plugin,
    client: Client,
}

impl Stage {
    async fn new(behaviour: Behaviour, status: &serde_json::Value) -> Self {
        let refuses = Arc::new(AtomicBool::default());
        let refusing = Arc::clone(&refuses);
        let server =
            TlsServer::start(ClientCertificates::Asked, move |visit| match visit.target.as_str() {
                "/slow" => Reply::Never,
                _ if refusing.swap(false, Ordering::SeqCst) => 401.into(),
                _ => 200.into(),
            })
            .await;
        let plugin = Plugin::answering(status);
        let clients: Clients = clients(behaviour);
        let client = connect(&clients, &server, plugin.config());
        Self { server, refuses, plugin, client }
    }

    /// The next request is refused, which makes the plugin run.
    async fn refuse_once(&self, and_then: &serde_json::Value) -> StatusCode {
        self.plugin.answer(and_then);
        self.refuses.store(true, Ordering::SeqCst);
        get(&self.client, "/refused").await.unwrap()
    }

    async fn last_visit(&self) -> Visit {
        assert_eq!(get(&self.client, "/").await, Ok(StatusCode::OK));
        self.server.visits().pop().unwrap()
    }
}

#[tokio::test]
async fn a_new_certificate_is_presented_by_a_new_handshake_without_an_old_session() {
    let stage = Stage::new(Behaviour::of_client_go(), &certificate("alice")).await;
    let before = stage.last_visit().await;

    assert_eq!(stage.refuse_once(&certificate("bob")).await, StatusCode::UNAUTHORIZED);
    let after = stage.last_visit().await;

    assert_ne!(before.certificates, after.certificates);
    assert_eq!((before.certificates.len(), after.certificates.len()), (1, 1));
    assert_ne!(before.connection, after.connection);
    assert!(!after.resumed);
    assert_eq!(stage.plugin.runs(), 2);
}

#[tokio::test]
async fn the_same_certificate_and_another_token_keep_the_connection() {
    let mut status = certificate("alice");
    let stage = Stage::new(Behaviour::of_client_go(), &status).await;
    let before = stage.last_visit().await;

    status["token"] = json!("second");
    stage.refuse_once(&status).await;
    let after = stage.last_visit().await;

    assert_eq!(after.authorization().as_deref(), Some("Bearer second"));
    assert_eq!((before.connection, before.certificates), (after.connection, after.certificates));
}

#[tokio::test]
async fn a_certificate_that_is_gone_is_not_presented_again() {
    let stage = Stage::new(Behaviour::of_client_go(), &certificate("alice")).await;
    stage.last_visit().await;

    stage.refuse_once(&json!({"token": "only"})).await;
    let after = stage.last_visit().await;

    assert!(after.certificates.is_empty());
    assert_eq!(after.authorization().as_deref(), Some("Bearer only"));
}

/// The header and the handshake are of one answer.
#[tokio::test]
async fn an_answer_that_has_expired_already_is_fetched_once_for_a_request() {
    let mut status = certificate("alice");
    status["expirationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let stage = Stage::new(Behaviour::of_client_go(), &status).await;

    stage.last_visit().await;
    assert_eq!(stage.last_visit().await.certificates.len(), 1);

    assert_eq!(stage.plugin.runs(), 2);
}

#[tokio::test]
async fn what_is_under_way_ends_with_the_old_connections() {
    let stage = Stage::new(Behaviour::of_client_go(), &certificate("alice")).await;
    let client = stage.client.clone();
    let slow = tokio::spawn(async move { get(&client, "/slow").await });
    while !stage.server.visits().iter().any(|visit| visit.target == "/slow") {
        tokio::task::yield_now().await;
    }

    stage.refuse_once(&certificate("bob")).await;

    let ended = timeout(HANGS, slow).await.expect("the connection is closed").unwrap();
    assert!(ended.is_err(), "{ended:?}");
}

#[tokio::test]
async fn what_is_under_way_may_come_to_its_end() {
    let mut behaviour = Behaviour::of_client_go();
    behaviour.old_connections = OldConnections::Drain;
    let stage = Stage::new(behaviour, &certificate("alice")).await;
    let client = stage.client.clone();
    let slow = tokio::spawn(async move { get(&client, "/slow").await });
    while !stage.server.visits().iter().any(|visit| visit.target == "/slow") {
        tokio::task::yield_now().await;
    }

    stage.refuse_once(&certificate("bob")).await;
    let after = stage.last_visit().await;

    assert!(!slow.is_finished());
    let alice = &stage.server.visits()[0].certificates;
    assert_ne!(&after.certificates, alice);
    slow.abort();
}

#[tokio::test]
async fn a_request_is_sent_again_as_whoever_the_plugin_says_now() {
    let stage = Stage::new(Behaviour::default(), &certificate("alice")).await;
    let alice = stage.last_visit().await.certificates;

    assert_eq!(stage.refuse_once(&certificate("bob")).await, StatusCode::OK);

    let visits = stage.server.visits();
    let [.., refused, again] = visits.as_slice() else { panic!("two visits") };
    assert_eq!((refused.target.as_str(), again.target.as_str()), ("/refused", "/refused"));
    assert_eq!(refused.certificates, alice);
    assert_ne!(again.certificates, alice);
}

#[tokio::test]
async fn a_certificate_that_the_server_does_not_trust_fails_until_there_is_a_better_one() {
    let (good, bad) = (certificate("good"), certificate("bad"));
    let pem = good["clientCertificateData"].as_str().unwrap();
    let trusted = der_of(pem);
    let clients_known = ClientCertificates::Required(Arc::new(move |leaf| leaf == trusted));
    let server = TlsServer::start(clients_known, |_| 200.into()).await;
    let plugin = Plugin::answering(&bad);
    let mut behaviour = Behaviour::of_client_go();
    behaviour.minimum_validity = std::time::Duration::ZERO;
    let clients = clients(behaviour);
    let mut expired = bad.clone();
    expired["expirationTimestamp"] = json!("2020-01-01T00:00:00Z");
    plugin.answer(&expired);
    let client = connect(&clients, &server, plugin.config());
    assert!(get(&client, "/").await.is_err());

    plugin.answer(&good);

    assert_eq!(get(&client, "/").await, Ok(StatusCode::OK));
}

fn der_of(pem: &str) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}
