//! A server's certificate that is renewed, seen in real handshakes.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{Router, routing::get};

use keyfob_control::server::{Certificates, Limits, serve, tls_with};
use keyfob_testkit::{LeakCheck, LogCapture};
use prometheus_client::{encoding::text, registry::Registry};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use crate::pki::{Pair, Pki};

/// What a client sees of the server in a handshake.
async fn shown(certificates: &Arc<Certificates>, pki: &Pki) -> CertificateDer<'static> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = tls_with(Arc::clone(certificates) as _).unwrap();
    let app = Router::new().route("/", get(|| async { "ok" }));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async move { stopped.await.unwrap_or_default() };
    let server = tokio::spawn(serve(listener, tls, app, Limits::default(), stopped));

    let mut roots = RootCertStore::empty();
    roots.add(pki.authority()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let leaf = stream.get_ref().1.peer_certificates().unwrap().first().unwrap().clone();
    drop(stream);
    stop.send(()).unwrap_or_default();
    server.await.unwrap();
    leaf.into_owned()
}

fn leaf(pair: &Pair) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()
}

fn counted(certificates: &Certificates) -> String {
    let mut registry = Registry::default();
    certificates.register_metrics(&mut registry);
    let mut metrics = String::new();
    text::encode(&mut metrics, &registry).unwrap();
    metrics
}

#[tokio::test]
async fn a_new_pair_is_shown_in_the_next_handshake() {
    let pki = Pki::new();
    let certificates = pki.load();
    let new = pki.pair(2041);
    assert_ne!(shown(&certificates, &pki).await, leaf(&new));

    pki.write(&new);
    certificates.reload();

    assert_eq!(shown(&certificates, &pki).await, leaf(&new));
    let until = certificates.not_after().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(until.as_secs(), 2_240_611_200);
    let metrics = counted(&certificates);
    assert!(metrics.contains("certificate_reloads_total{result=\"ok\"} 1\n"), "{metrics}");
    assert!(metrics.contains("certificate_expiry_timestamp_seconds 2240611200\n"), "{metrics}");
}

#[tokio::test]
async fn a_pair_that_is_half_written_is_tried_again() {
    let pki = Pki::new();
    let (certificates, new) = (pki.load(), pki.pair(2041));
    let old = shown(&certificates, &pki).await;

    fs::write(pki.path("tls.crt"), &new.certificate).unwrap();
    certificates.reload();
    certificates.reload();
    assert_eq!(shown(&certificates, &pki).await, old);
    fs::write(pki.path("tls.key"), &new.key).unwrap();
    certificates.reload();

    assert_eq!(shown(&certificates, &pki).await, leaf(&new));
    let metrics = counted(&certificates);
    assert!(metrics.contains("certificate_reloads_total{result=\"failed\"} 1\n"), "{metrics}");
    assert!(metrics.contains("certificate_reloads_total{result=\"ok\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_broken_new_pair_leaves_the_old_one() {
    let pki = Pki::new();
    let certificates = pki.load();
    let logs = LogCapture::start();
    let old = shown(&certificates, &pki).await;
    let new = pki.pair(2041);
    let secret: String = new.key.lines().nth(1).unwrap().to_owned();
    for broken in [
        Pair { certificate: "no certificate".to_owned(), key: new.key.clone() },
        Pair { certificate: new.certificate.clone(), key: format!("-----BEGIN {secret}") },
        Pair { certificate: new.key.clone(), key: new.key.clone() },
    ] {
        pki.write(&broken);
        certificates.reload();

        assert_eq!(shown(&certificates, &pki).await, old);
    }
    fs::remove_file(pki.path("tls.key")).unwrap();
    certificates.reload();
    assert_eq!(shown(&certificates, &pki).await, old);
    LeakCheck::new([secret]).text("the log", &logs.text()).debug("certificates", &certificates);
}

#[tokio::test(start_paused = true)]
async fn files_are_watched_through_the_links_of_a_mounted_secret() {
    let pki = Pki::new();
    let (old, new) = (pki.pair(2040), pki.pair(2041));
    for (folder, pair) in [("one", &old), ("two", &new)] {
        fs::create_dir(pki.path(folder)).unwrap();
        fs::write(pki.path(folder).join("tls.crt"), &pair.certificate).unwrap();
        fs::write(pki.path(folder).join("tls.key"), &pair.key).unwrap();
    }
    symlink("one", pki.path("data")).unwrap();
    let (certificate, key) = (pki.path("data/tls.crt"), pki.path("data/tls.key"));
    let (every, clock) = (Duration::from_secs(10), Arc::new(pki.clock.clone()));
    let certificates = Certificates::watch(certificate, key, every, clock).unwrap();
    let first = certificates.not_after();

    symlink("two", pki.path("next")).unwrap();
    fs::rename(pki.path("next"), pki.path("data")).unwrap();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(certificates.not_after(), first);
    tokio::time::sleep(Duration::from_secs(2)).await;

    assert!(certificates.not_after() > first);
}

#[test]
fn a_server_without_a_good_pair_does_not_start_and_says_why() {
    let pki = Pki::new();
    let (good, other) = (pki.pair(2040), pki.pair(2040));
    let why = |certificate: &str, key: &str| {
        fs::write(pki.path("a.crt"), certificate).unwrap();
        fs::write(pki.path("a.key"), key).unwrap();
        let clock = Arc::new(pki.clock.clone());
        let error = Certificates::load(pki.path("a.crt"), pki.path("a.key"), clock).unwrap_err();
        error.to_string().replace(pki.folder.path().to_str().unwrap(), "")
    };
    let no_key = "/a.key holds no private key: it must be PEM, and not encrypted";
    let no_certificate =
        "/a.crt holds no certificate: it must be PEM, with the server's own certificate first";

    assert_eq!(why("", &good.key), no_certificate);
    assert_eq!(why(&good.key, &good.key), no_certificate);
    assert_eq!(why(&good.certificate, ""), no_key);
    assert_eq!(why(&good.certificate, &good.certificate), no_key);
    let unfit = why(&good.certificate, &other.key);
    assert!(
        unfit.starts_with("the key in /a.key is not the one of the certificate in /a.crt: "),
        "{unfit}"
    );
    let absent = Certificates::load("/no/such.crt", "/no/such.key", Arc::new(pki.clock.clone()));
    let absent = absent.unwrap_err().to_string();
    assert_eq!(absent, "cannot read /no/such.crt: No such file or directory (os error 2)");
}
