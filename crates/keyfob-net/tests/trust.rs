//! Whom a client trusts that was given certificates as text.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::fs;

use keyfob_net::{Clients, ConnectionError, RootsError};
use keyfob_testkit::{Internet, Response};

/// A server, its address and its authority's certificate.
fn server() -> (Internet, String, Vec<u8>) {
    let internet = Internet::start(|_| Response::json("{}"));
    let folder = tempfile::tempdir().unwrap();
    let pem = fs::read(internet.ca_file(folder.path())).unwrap();
    let url = internet.url().replace("http://127.0.0.1", "https://localhost");
    (internet, url, pem)
}

async fn ask(pem: Vec<u8>, url: &str) -> Result<u16, ConnectionError> {
    let clients = Clients::builder().ca_pem(pem).build();
    let sent = clients.client(true)?.get(url).send().await;
    sent.map(|answer| answer.status().as_u16()).map_err(ConnectionError::of)
}

#[tokio::test]
async fn a_server_is_trusted_by_the_certificates_that_are_given_and_no_others() {
    let (_internet, url, pem) = server();
    let (_, _, stranger) = server();

    assert_eq!(ask(pem, &url).await.unwrap(), 200);
    assert!(matches!(ask(stranger, &url).await, Err(ConnectionError::Certificate(_))));
}

#[tokio::test]
async fn a_text_without_a_certificate_is_said_to_be_none() {
    let error = ask(b"hunter2".to_vec(), "https://localhost/").await.unwrap_err();

    assert_eq!(error.to_string(), "no certificate in the authority's data: it must be PEM");
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_systems_error_is_the_source() {
    let clients = Clients::builder().ca_file(Some("/nowhere/ca.pem".into())).build();

    let error = clients.client(true).unwrap_err();

    assert_eq!(error.to_string(), "cannot read /nowhere/ca.pem");
    let ConnectionError::Roots(RootsError::Unreadable { source, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}
