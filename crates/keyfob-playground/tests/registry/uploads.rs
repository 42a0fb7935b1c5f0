//! Blobs on their way in.

use futures_util::stream;
use http::Method;
use keyfob_playground::registry::{Access, Limits, Options, Storage};
use reqwest::Body;

use super::{Reply, Rig, bytes, refusal, reply, sha256};

/// Begins an upload; where it goes on.
async fn begin(rig: &Rig, repository: &str) -> String {
    let begun = reply(rig.ask(Method::POST, &format!("/v2/{repository}/blobs/uploads/"))).await;
    assert_eq!((begun.status, begun.header("range")), (202, "0-0"));
    assert!(!begun.header("docker-upload-uuid").is_empty());
    begun.header("location").to_owned()
}

async fn patch(rig: &Rig, location: &str, piece: &[u8], range: Option<&str>) -> Reply {
    let request = rig.ask(Method::PATCH, location).body(piece.to_vec());
    let request = match range {
        Some(range) => request.header("content-range", range),
        None => request,
    };
    reply(request).await
}

async fn put(rig: &Rig, location: &str, piece: &[u8], digest: &str) -> Reply {
    let path = format!("{location}?digest={digest}");
    reply(rig.ask(Method::PUT, &path).body(piece.to_vec())).await
}

#[tokio::test]
async fn a_blob_comes_in_one_stream() {
    let rig = Rig::open().await;
    let content = bytes(300_000);
    let location = begin(&rig, "team/app").await;
    let pieces: Vec<_> =
        content.chunks(7_000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    let streamed = Body::wrap_stream(stream::iter(pieces));
    let sent = reply(rig.ask(Method::PATCH, &location).body(streamed)).await;
    assert_eq!((sent.status, sent.header("range")), (202, "0-299999"));
    let digest = sha256(&content);
    let ended = put(&rig, sent.header("location"), b"", &digest).await;
    assert_eq!((ended.status, ended.header("docker-content-digest")), (201, digest.as_str()));
    assert_eq!(ended.header("location"), format!("/v2/team/app/blobs/{digest}"));
    assert_eq!(rig.get(ended.header("location")).await.body, content);
    rig.end().await;
}

#[tokio::test]
async fn pieces_follow_each_other() {
    let rig = Rig::open().await;
    let location = begin(&rig, "a").await;
    assert_eq!(patch(&rig, &location, b"0123", Some("0-3")).await.header("range"), "0-3");
    for wrong in ["0-3", "3-6", "5-8", "nonsense"] {
        let refused = patch(&rig, &location, b"4567", Some(wrong)).await;
        assert_eq!(refused.refusal(), refusal(416, "RANGE_INVALID"), "{wrong}");
        assert_eq!(refused.header("location"), location);
    }
    let status = rig.get(&location).await;
    assert_eq!((status.status, status.header("range")), (204, "0-3"));
    assert_eq!(patch(&rig, &location, b"4567", Some("4-7")).await.header("range"), "0-7");
    let ended = put(&rig, &location, b"89", &sha256(b"0123456789")).await;
    assert_eq!(ended.status, 201);
    assert_eq!(rig.get(ended.header("location")).await.body, b"0123456789");
    rig.end().await;
}

#[tokio::test]
async fn what_is_not_as_it_is_said_to_be_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Storage::directory(directory.path());
    let options = Options { access: Access::Anonymous, storage, ..Options::default() };
    let rig = Rig::start(options).await;
    let digest = sha256(b"right");
    let location = begin(&rig, "a").await;
    let refused = put(&rig, &location, b"wrong", &digest).await;
    assert_eq!(refused.refusal(), refusal(400, "DIGEST_INVALID"));
    assert_eq!(
        put(&rig, &location, b"right", &digest).await.refusal(),
        refusal(404, "BLOB_UPLOAD_UNKNOWN")
    );
    let at_once = rig.ask(Method::POST, &format!("/v2/a/blobs/uploads/?digest={digest}"));
    assert_eq!(reply(at_once.body("wrong")).await.refusal(), refusal(400, "DIGEST_INVALID"));
    for digest in ["", "sha256:12", "sha512:00", "md5:x"] {
        let location = begin(&rig, "a").await;
        let refused = put(&rig, &location, b"right", digest).await;
        assert_eq!(refused.refusal(), refusal(400, "DIGEST_INVALID"), "{digest}");
        assert_eq!(rig.get(&location).await.status, 204, "it can still be ended");
        assert_eq!(reply(rig.ask(Method::DELETE, &location)).await.status, 204);
    }
    assert_eq!(rig.get(&format!("/v2/a/blobs/{digest}")).await.status, 404);
    rig.end().await;
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn an_upload_belongs_to_its_repository_and_can_be_cancelled() {
    let rig = Rig::open().await;
    let location = begin(&rig, "a").await;
    let elsewhere = location.replace("/v2/a/", "/v2/b/");
    let unknown = refusal(404, "BLOB_UPLOAD_UNKNOWN");
    assert_eq!(patch(&rig, &elsewhere, b"x", None).await.refusal(), unknown);
    assert_eq!(rig.get("/v2/a/blobs/uploads/no-such").await.refusal(), unknown);
    assert_eq!(reply(rig.ask(Method::DELETE, &location)).await.status, 204);
    assert_eq!(patch(&rig, &location, b"x", None).await.refusal(), unknown);
    rig.end().await;
}

#[tokio::test]
async fn a_blob_can_be_mounted_from_another_repository() {
    let rig = Rig::open().await;
    let digest = rig.push_blob("a", b"layer").await;
    let mount = |from: &str, digest: &str| {
        rig.ask(Method::POST, &format!("/v2/b/blobs/uploads/?mount={digest}&from={from}"))
    };
    for (from, digest) in [("c", digest.clone()), ("a", sha256(b"other")), ("../a", digest.clone())]
    {
        let fallback = reply(mount(from, &digest)).await;
        assert_eq!(fallback.status, 202, "{from}");
        assert!(fallback.header("location").starts_with("/v2/b/blobs/uploads/"));
    }
    assert_eq!(rig.get(&format!("/v2/b/blobs/{digest}")).await.status, 404);
    let mounted = reply(mount("a", &digest)).await;
    assert_eq!((mounted.status, mounted.header("docker-content-digest")), (201, digest.as_str()));
    assert_eq!(rig.get(mounted.header("location")).await.body, b"layer");
    rig.end().await;
}

#[tokio::test]
async fn the_oldest_upload_gives_way() {
    let limits = Limits { uploads: 2, ..Limits::default() };
    let rig = Rig::start(Options { access: Access::Anonymous, limits, ..Options::default() }).await;
    let [first, second, third] =
        [begin(&rig, "a").await, begin(&rig, "a").await, begin(&rig, "a").await];
    let mut found = Vec::new();
    for location in [first, second, third] {
        found.push(rig.get(&location).await.status);
    }
    assert_eq!(found, [404, 204, 204]);
    rig.end().await;
}

#[tokio::test]
async fn a_registry_is_full_at_some_point_and_has_room_again() {
    let limits = Limits { stored: 1_000, ..Limits::default() };
    let rig = Rig::start(Options { access: Access::Anonymous, limits, ..Options::default() }).await;
    rig.push_blob("a", &bytes(400)).await;
    // The same bytes need no more room, once it is seen that they are.
    rig.push_blob("b", &bytes(400)).await;
    let location = begin(&rig, "a").await;
    assert_eq!(patch(&rig, &location, &bytes(500), None).await.status, 202);
    let full = rig.ask(Method::POST, &format!("/v2/a/blobs/uploads/?digest={}", sha256(b"x")));
    let full = reply(full.body(bytes(200))).await;
    assert_eq!(full.refusal(), refusal(413, "SIZE_INVALID"));
    assert_eq!(reply(rig.ask(Method::DELETE, &location)).await.status, 204);
    rig.push_blob("a", &bytes(600)).await;
    rig.end().await;
}
