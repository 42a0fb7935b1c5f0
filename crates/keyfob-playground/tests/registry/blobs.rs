//! Blobs on their way out.

use http::Method;
use keyfob_playground::registry::{Access, Options, Storage};

use super::{Rig, bytes, refusal, reply, sha256};

#[tokio::test]
async fn the_base_says_that_this_is_a_registry() {
    let rig = Rig::open().await;
    for path in ["/v2/", "/v2"] {
        let base = rig.get(path).await;
        assert_eq!((base.status, base.body.as_slice()), (200, &b"{}"[..]));
        assert_eq!(base.header("docker-distribution-api-version"), "registry/2.0");
    }
    rig.end().await;
}

/// In memory, and in a directory.
async fn rigs() -> [(Rig, Option<tempfile::TempDir>); 2] {
    let directory = tempfile::tempdir().unwrap();
    let storage = Storage::directory(directory.path().join("blobs"));
    let options = Options { access: Access::Anonymous, storage, ..Options::default() };
    [(Rig::open().await, None), (Rig::start(options).await, Some(directory))]
}

#[tokio::test]
async fn a_blob_comes_out_as_it_went_in() {
    for (rig, _directory) in rigs().await {
        let content = bytes(1_000_003);
        let digest = rig.push_blob("team/app", &content).await;
        let path = format!("/v2/team/app/blobs/{digest}");
        let (whole, head) = (rig.get(&path).await, rig.head(&path).await);
        assert_eq!(whole.body, content);
        assert!(head.body.is_empty());
        for reply in [whole, head] {
            assert_eq!(reply.status, 200);
            let headers =
                ["content-length", "docker-content-digest", "content-type", "accept-ranges"];
            let headers = headers.map(|name| reply.header(name));
            assert_eq!(headers, ["1000003", &digest, "application/octet-stream", "bytes"]);
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn an_empty_blob_is_one() {
    for (rig, _directory) in rigs().await {
        let digest = rig.push_blob("a", b"").await;
        let whole = rig.get(&format!("/v2/a/blobs/{digest}")).await;
        assert_eq!((whole.status, whole.body.len(), whole.header("content-length")), (200, 0, "0"));
        rig.end().await;
    }
}

#[tokio::test]
async fn a_part_of_a_blob_can_be_had() {
    for (rig, _directory) in rigs().await {
        let content = bytes(600_000);
        let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &content).await);
        for (range, want) in [
            ("bytes=0-0", 0..1),
            ("bytes=10-19", 10..20),
            ("bytes=300000-", 300_000..600_000),
            ("bytes=599999-700000", 599_999..600_000),
            ("bytes=-5", 599_995..600_000),
        ] {
            let part = reply(rig.ask(Method::GET, &path).header("range", range)).await;
            let said = format!("bytes {}-{}/600000", want.start, want.end - 1);
            assert_eq!(
                (part.status, part.header("content-range")),
                (206, said.as_str()),
                "{range}"
            );
            assert_eq!(part.header("content-length"), want.len().to_string(), "{range}");
            assert!(part.body == content[want], "{range}");
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_part_that_is_not_there_is_refused_and_an_odd_one_is_all_of_it() {
    let rig = Rig::open().await;
    let content = bytes(100);
    let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &content).await);
    for range in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
        let outside = reply(rig.ask(Method::GET, &path).header("range", range)).await;
        assert_eq!(outside.refusal(), refusal(416, "RANGE_INVALID"), "{range}");
        assert_eq!(outside.header("content-range"), "bytes */100", "{range}");
    }
    for range in ["bytes=0-1,5-6", "bytes=9-3", "pages=1-2", "bytes=x-"] {
        let whole = reply(rig.ask(Method::GET, &path).header("range", range)).await;
        assert_eq!((whole.status, &whole.body), (200, &content), "{range}");
    }
    let head = reply(rig.ask(Method::HEAD, &path).header("range", "bytes=0-1")).await;
    assert_eq!((head.status, head.header("content-length")), (200, "100"), "HEAD has no parts");
    assert_eq!(rig.registry.requests()[1].range.as_deref(), Some("bytes=100-"));
    rig.end().await;
}

#[tokio::test]
async fn a_blob_is_seen_only_where_it_was_pushed() {
    let rig = Rig::open().await;
    let digest = rig.push_blob("team-a/app", b"layer").await;
    for (path, want) in [
        (format!("/v2/team-b/app/blobs/{digest}"), refusal(404, "BLOB_UNKNOWN")),
        (format!("/v2/team-a/app/blobs/{}", sha256(b"other")), refusal(404, "BLOB_UNKNOWN")),
        ("/v2/team-a/app/blobs/sha256:12".to_owned(), refusal(400, "DIGEST_INVALID")),
    ] {
        assert_eq!(rig.get(&path).await.refusal(), want, "{path}");
    }
    rig.end().await;
}

#[tokio::test]
async fn what_is_not_served_says_so() {
    let rig = Rig::open().await;
    let digest = rig.push_blob("a", b"layer").await;
    let rows = [
        (Method::DELETE, format!("/v2/a/blobs/{digest}"), "GET, HEAD"),
        (Method::DELETE, "/v2/a/manifests/v1".to_owned(), "GET, HEAD, PUT"),
        (Method::GET, "/v2/a/blobs/uploads/".to_owned(), "POST"),
        (Method::POST, "/v2/a/blobs/uploads/x".to_owned(), "GET, PATCH, PUT, DELETE"),
        (Method::POST, "/v2/".to_owned(), "GET, HEAD"),
        (Method::POST, "/token".to_owned(), "GET"),
        (Method::GET, "/exchange".to_owned(), "POST"),
    ];
    for (method, path, allowed) in rows {
        let refused = reply(rig.ask(method, &path)).await;
        assert_eq!(refused.refusal(), refusal(405, "UNSUPPORTED"), "{path}");
        assert_eq!(refused.header("allow"), allowed, "{path}");
    }
    for path in ["/", "/v1/", "/v2/a", "/v2/_catalog", "/v2/a/referrers/x", "/token", "/metrics"] {
        assert_eq!(rig.get(path).await.refusal(), refusal(404, "UNSUPPORTED"), "{path}");
    }
    rig.end().await;
}
