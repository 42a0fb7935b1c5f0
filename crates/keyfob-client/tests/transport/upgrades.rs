//! A connection that becomes something else, as for `exec` and `port-forward`.

use http::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use keyfob_client::Behaviour;
use keyfob_testkit::{ClientCertificates, Reply, TlsServer};
use kube::client::Body;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{clients, connect, plugin::Plugin};

#[tokio::test]
async fn an_upgrade_carries_the_token_and_then_any_bytes() {
    let server = TlsServer::start(ClientCertificates::Asked, |visit| {
        match visit.authorization().as_deref() {
            Some("Bearer one") => Reply::Upgrade,
            _ => 401.into(),
        }
    })
    .await;
    let plugin = Plugin::answering(&json!({"token": "one"}));
    let client = connect(&clients(Behaviour::default()), &server, plugin.config());

    let request = Request::get("/exec").header("connection", "Upgrade").header("upgrade", "echo");
    let answer = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut stream = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut echoed = [0; 5];
    stream.read_exact(&mut echoed).await.unwrap();

    assert_eq!(&echoed, b"hello");
}
