//! Clients who mean it ill, or are merely broken: each ends alone.

use std::time::Duration;

use http::Method;
use keyfob_playground::registry::{Access, Limits, Options, Storage};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{Rig, bytes, refusal, reply, sha256};

/// Impatient and small, so that nobody waits in a test.
fn limits() -> Limits {
    let soon = Duration::from_millis(200);
    let (blob, manifest, stored) = (10_000, 1_000, 50_000);
    let (uploads, connections) = (4, 4);
    Limits { blob, manifest, stored, uploads, connections, head: soon, silence: soon, drain: soon }
}

async fn rig() -> Rig {
    let (access, limits) = (Access::Anonymous, limits());
    Rig::start(Options { access, limits, ..Options::default() }).await
}

/// What comes back for raw bytes, until the registry hangs up.
async fn said(rig: &Rig, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(rig.registry.address()).await.unwrap();
    // The registry may hang up before it has heard all.
    stream.write_all(bytes).await.unwrap_or_default();
    let mut said = Vec::new();
    let read = timeout(Duration::from_secs(20), stream.read_to_end(&mut said));
    drop(read.await.expect("the registry hangs up"));
    String::from_utf8_lossy(&said).into_owned()
}

async fn answers(rig: &Rig) {
    assert_eq!(timeout(Duration::from_secs(20), rig.get("/v2/")).await.unwrap().status, 200);
}

#[tokio::test]
async fn no_path_leads_out() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), "hunter2").unwrap();
    let storage = Storage::directory(directory.path().join("blobs"));
    let options = Options { access: Access::Anonymous, storage, ..Options::default() };
    let rig = Rig::start(options).await;
    for path in [
        "/v2/a/blobs/../../secret",
        "/v2/a/blobs/..%2f..%2fsecret",
        "/v2/../secret/tags/list",
        "/v2/%2e%2e/manifests/v1",
        "/v2/a/manifests/..",
        "/v2/a/manifests/%00",
        "/v2/a/blobs/sha256:../../../../../../../../../../../../../../../../../../../../../..",
        "/v2/a/blobs/uploads/../../../secret",
        "/v2//tags/list",
        "/../secret",
        "*",
        "http://elsewhere.example/secret",
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = said(&rig, head.as_bytes()).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(matches!(status, "400" | "404"), "{path}: {answer}");
        assert!(!answer.contains("hunter2"), "{path}");
    }
    let upload = rig.ask(Method::POST, "/v2/a/blobs/uploads/?digest=sha256:../../secret");
    assert_eq!(reply(upload.body("x")).await.refusal(), refusal(400, "DIGEST_INVALID"));
    assert_eq!(std::fs::read_dir(directory.path().join("blobs")).unwrap().count(), 0);
    rig.end().await;
}

#[tokio::test]
async fn what_is_too_long_is_refused() {
    let rig = rig().await;
    let too_long = refusal(413, "SIZE_INVALID");
    let manifest = rig.ask(Method::PUT, "/v2/a/manifests/v1").body(vec![b' '; 5_000]);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    assert_eq!(reply(manifest.header("content-type", kind)).await.refusal(), too_long);
    let content = bytes(10_001);
    let path = format!("/v2/a/blobs/uploads/?digest={}", sha256(&content));
    assert_eq!(reply(rig.ask(Method::POST, &path).body(content)).await.refusal(), too_long);
    rig.push_blob("a", &bytes(10_000)).await;

    // In pieces, none of which is too long.
    let begun = reply(rig.ask(Method::POST, "/v2/a/blobs/uploads/")).await;
    let location = begun.header("location").to_owned();
    let piece = || reply(rig.ask(Method::PATCH, &location).body(bytes(6_000)));
    assert_eq!(piece().await.status, 202);
    assert_eq!(piece().await.refusal(), too_long);
    assert_eq!(piece().await.refusal(), refusal(404, "BLOB_UPLOAD_UNKNOWN"), "it is gone");
    rig.end().await;
}

/// Often, because a connection that is closed with bytes unread loses its answer only sometimes.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_refused_in_the_middle_of_a_body_hears_why() {
    let rig = Rig::start(Options::default()).await;
    for _ in 0..100 {
        let request = rig.ask(Method::PATCH, "/v2/a/blobs/uploads/x").body(vec![7; 900_000]);
        assert_eq!(reply(request).await.refusal(), refusal(401, "UNAUTHORIZED"));
    }
    rig.end().await;
}

#[tokio::test]
async fn an_upload_without_end_is_ended() {
    let rig = rig().await;
    let head = "POST /v2/a/blobs/uploads/?digest=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 \
                HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stream = TcpStream::connect(rig.registry.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
    let sending = async { while stream.write_all(&piece).await.is_ok() {} };
    assert!(timeout(Duration::from_secs(20), sending).await.is_ok(), "nobody listens any more");
    answers(&rig).await;
    rig.end().await;
}

#[tokio::test]
async fn what_comes_before_a_connection_breaks_counts() {
    let rig = rig().await;
    let begun = reply(rig.ask(Method::POST, "/v2/a/blobs/uploads/")).await;
    let location = begun.header("location").to_owned();
    for (broken, range) in [("01234", "0-4"), ("56789", "0-9")] {
        let mut stream = TcpStream::connect(rig.registry.address()).await.unwrap();
        let head =
            format!("PATCH {location} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{broken}");
        stream.write_all(head.as_bytes()).await.unwrap();
        drop(stream);
        let status = async {
            loop {
                let status = rig.get(&location).await;
                if status.header("range") == range {
                    return status.status;
                }
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(timeout(Duration::from_secs(20), status).await.unwrap(), 204);
    }
    let end = format!("{location}?digest={}", sha256(b"0123456789"));
    assert_eq!(reply(rig.ask(Method::PUT, &end)).await.status, 201);
    rig.end().await;
}

#[tokio::test]
async fn whoever_is_silent_is_cut_off() {
    let rig = rig().await;
    for begun in [
        "",
        "GET /v2/ HTTP/1.1\r\n",
        "PUT /v2/a/manifests/v1 HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        "POST /exchange HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n",
    ] {
        said(&rig, begun.as_bytes()).await;
        answers(&rig).await;
    }
    rig.end().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let limits = Limits { blob: 1 << 30, stored: 1 << 30, ..limits() };
    let rig = Rig::start(Options { access: Access::Anonymous, limits, ..Options::default() }).await;
    let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &vec![7; 30_000_000]).await);
    let mut streams = Vec::new();
    for _ in 0..limits.connections {
        let mut stream = TcpStream::connect(rig.registry.address()).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let fresh = Rig { client: super::client(), ..rig };
    answers(&fresh).await;
    fresh.end().await;
}

#[tokio::test]
async fn garbage_ends_the_connection() {
    let rig = rig().await;
    let long = format!("GET /v2/{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(1 << 20));
    let fields = "x: y\r\n".repeat(10_000);
    let many = format!("GET /v2/ HTTP/1.1\r\n{fields}\r\n");
    for garbage in [&b"\0\x16\x03\x01"[..], b"nonsense\r\n\r\n", long.as_bytes(), many.as_bytes()] {
        let answer = said(&rig, garbage).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        answers(&rig).await;
    }
    for header in ["Basic", "Basic !", "Basic YWRh", "Bearer", "Bearer ", "\u{e9}", "Negotiate x"] {
        let request = rig.ask(Method::GET, "/token").header("authorization", header);
        assert_eq!(reply(request).await.status, 404, "{header}");
    }
    rig.end().await;
}

#[tokio::test]
async fn a_long_path_is_not_remembered_whole() {
    let rig = rig().await;
    let name = "a".repeat(10_000);
    assert_eq!(
        rig.get(&format!("/v2/{name}/tags/list")).await.refusal(),
        refusal(400, "NAME_INVALID")
    );
    assert_eq!(rig.registry.requests()[0].path.len(), 512);
    rig.registry.forget_requests();
    assert_eq!(rig.registry.requests(), []);
    rig.end().await;
}
