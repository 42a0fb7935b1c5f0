//! The way through a proxy.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use http::StatusCode;
use keyfob_client::Behaviour;
use keyfob_testkit::{ClientCertificates, TlsServer};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use crate::{
    clients, config, get,
    plugin::{Plugin, certificate},
};

/// What proxies were asked for.
type Asked = Arc<Mutex<Vec<String>>>;

#[tokio::test]
async fn a_tunnel_leads_to_the_server_and_only_the_server_sees_the_certificate() {
    let (proxy, asked) = start(Sort::Connect).await;
    let server = TlsServer::start(ClientCertificates::Asked, |_| 200.into()).await;
    let mut status = certificate("alice");
    status["token"] = json!("one");
    let plugin = Plugin::answering(&status);
    let mut config = config(&server, plugin.config());
    config.proxy_url = Some(format!("http://user:pass%20word@{proxy}").into());

    let client = clients(Behaviour::default()).connect(&config).unwrap();

    assert_eq!(get(&client, "/").await, Ok(StatusCode::OK));
    assert_eq!(server.visits()[0].certificates.len(), 1);
    let asked = asked.lock().unwrap().concat();
    assert!(asked.starts_with(&format!("CONNECT {} ", server.address())), "{asked}");
    // user:pass word
    assert!(asked.contains("dXNlcjpwYXNzIHdvcmQ="), "{asked}");
}

#[tokio::test]
async fn so_does_a_socks5_proxy() {
    let (proxy, asked) = start(Sort::Socks5).await;
    let server = TlsServer::start(ClientCertificates::Asked, |_| 200.into()).await;
    let plugin = Plugin::answering(&json!({"token": "one"}));
    let mut config = config(&server, plugin.config());
    config.proxy_url = Some(format!("socks5://{proxy}").into());

    let client = clients(Behaviour::default()).connect(&config).unwrap();

    assert_eq!(get(&client, "/").await, Ok(StatusCode::OK));
    assert_eq!(*asked.lock().unwrap(), [server.address().to_string()]);
}

#[derive(Clone, Copy)]
enum Sort {
    Connect,
    Socks5,
}

async fn start(sort: Sort) -> (SocketAddr, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let to = match sort {
                    Sort::Connect => connect(&mut client, &log).await,
                    Sort::Socks5 => socks(&mut client, &log).await,
                };
                let mut server = TcpStream::connect(to).await.unwrap();
                copy_bidirectional(&mut client, &mut server).await.ok();
            });
        }
    });
    (address, asked)
}

async fn connect(client: &mut TcpStream, log: &Asked) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    log.lock().unwrap().push(head.clone());
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    head.split(' ').nth(1).unwrap().to_owned()
}

/// RFC 1928, for an IPv4 address and nobody's password.
async fn socks(client: &mut TcpStream, log: &Asked) -> String {
    let mut hello = [0; 2];
    client.read_exact(&mut hello).await.unwrap();
    let mut methods = vec![0; usize::from(hello[1])];
    client.read_exact(&mut methods).await.unwrap();
    client.write_all(&[5, 0]).await.unwrap();
    let mut request = [0; 10];
    client.read_exact(&mut request).await.unwrap();
    let [_, _, _, sort, a, b, c, d, high, low] = request;
    assert_eq!(sort, 1, "an IPv4 address");
    let to = SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low]))).to_string();
    log.lock().unwrap().push(to.clone());
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    to
}
