//! What clients have in common.

use std::fs;

use keyfob_client::{Behaviour, ClientError, ExecConfig};
use keyfob_testkit::{ClientCertificates, TlsServer};
use serde_json::json;

use crate::{clients, config, connect, get, plugin::Plugin};

#[tokio::test]
async fn clients_of_one_user_share_the_plugin_and_the_connection() {
    let server = TlsServer::start(ClientCertificates::Asked, |_| 200.into()).await;
    let plugin = Plugin::answering(&json!({"token": "one"}));
    let clients = clients(Behaviour::default());

    for _ in 0..3 {
        let client = connect(&clients, &server, plugin.config());
        get(&client, "/").await.unwrap();
        get(&connect(&clients, &server, plugin.config()), "/").await.unwrap();
    }

    assert_eq!(plugin.runs(), 1);
}

#[tokio::test]
async fn two_clients_at_once_use_one_connection_and_another_user_uses_another() {
    let server = TlsServer::start(ClientCertificates::Asked, |_| 200.into()).await;
    let plugin = Plugin::answering(&json!({"token": "one"}));
    let clients = clients(Behaviour::default());
    let first = connect(&clients, &server, plugin.config());
    let second = connect(&clients, &server, plugin.config());
    get(&first, "/").await.unwrap();
    get(&second, "/").await.unwrap();
    assert_eq!((server.connections(), plugin.runs()), (1, 1));

    let mut other = plugin.config();
    other.args.push("somebody else".to_owned());
    get(&connect(&clients, &server, other), "/").await.unwrap();

    assert_eq!((server.connections(), plugin.runs()), (2, 2));
}

#[tokio::test]
async fn nothing_is_run_before_the_first_request_or_beside_a_token() {
    let server = TlsServer::start(ClientCertificates::Asked, |_| 200.into()).await;
    let plugin = Plugin::answering(&json!({"token": "of the plugin"}));
    let clients = clients(Behaviour::default());
    connect(&clients, &server, plugin.config());
    let mut with_token = config(&server, plugin.config());
    with_token.user.token = Some("of the user".into());

    get(&clients.connect(&with_token).unwrap(), "/").await.unwrap();

    assert_eq!(plugin.runs(), 0);
    assert_eq!(server.visits()[0].authorization().as_deref(), Some("Bearer of the user"));
}

#[tokio::test]
async fn a_token_that_no_header_may_have_is_refused_at_once_and_a_file_of_one_is_trimmed() {
    let server = TlsServer::start(ClientCertificates::NotAsked, |_| 200.into()).await;
    let clients = clients(Behaviour::default());
    let mut with_token = config(&server, ExecConfig::default());
    with_token.exec = None;
    with_token.user.token = Some("of the user\n".into());
    let refused = clients.connect(&with_token).err();
    assert!(matches!(refused, Some(ClientError::Token(_))), "{refused:?}");

    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "of a file\n").unwrap();
    with_token.user.token_file = Some(file.path().to_owned());
    get(&clients.connect(&with_token).unwrap(), "/").await.unwrap();

    assert_eq!(server.visits()[0].authorization().as_deref(), Some("Bearer of a file"));
}
