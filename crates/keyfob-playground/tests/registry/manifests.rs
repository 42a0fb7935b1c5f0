//! Manifests, indexes and tags.

use http::Method;
use serde_json::{Value, json};

use super::{Reply, Rig, refusal, reply, sha256};

const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

async fn put(rig: &Rig, reference: &str, media_type: &str, manifest: &Value) -> Reply {
    let path = format!("/v2/a/manifests/{reference}");
    let request = rig.ask(Method::PUT, &path).header("content-type", media_type);
    reply(request.body(manifest.to_string())).await
}

fn descriptor(digest: &str) -> Value {
    json!({"mediaType": "application/octet-stream", "digest": digest, "size": 1})
}

/// A manifest of blobs that are there.
async fn manifest(rig: &Rig, media_type: &str) -> Value {
    let (config, layer) = (rig.push_blob("a", b"{}").await, rig.push_blob("a", b"layer").await);
    json!({
        "schemaVersion": 2, "mediaType": media_type,
        "config": descriptor(&config), "layers": [descriptor(&layer)],
    })
}

#[tokio::test]
async fn a_manifest_is_found_by_its_tag_and_by_its_digest() {
    for (media_type, index_type) in [(OCI, OCI_INDEX), (DOCKER, DOCKER_LIST)] {
        let rig = Rig::open().await;
        let manifest = manifest(&rig, media_type).await;
        let digest = sha256(manifest.to_string().as_bytes());
        let tagged = put(&rig, "v1", media_type, &manifest).await;
        assert_eq!((tagged.status, tagged.header("docker-content-digest")), (201, digest.as_str()));
        assert_eq!(tagged.header("location"), format!("/v2/a/manifests/{digest}"));
        assert_eq!(put(&rig, &digest, media_type, &manifest).await.status, 201);

        let index = json!({"schemaVersion": 2, "manifests": [descriptor(&digest)]});
        let indexed = put(&rig, "all", &format!("{index_type}; charset=utf-8"), &index).await;
        assert_eq!(indexed.status, 201);
        let index_digest = sha256(index.to_string().as_bytes());

        for (reference, digest, kind, body) in [
            ("v1", &digest, media_type, &manifest),
            (digest.as_str(), &digest, media_type, &manifest),
            ("all", &index_digest, index_type, &index),
        ] {
            let path = format!("/v2/a/manifests/{reference}");
            let (found, head) = (rig.get(&path).await, rig.head(&path).await);
            assert_eq!(found.body, body.to_string().as_bytes(), "{reference}");
            assert!(head.body.is_empty());
            for reply in [found, head] {
                assert_eq!(reply.status, 200);
                let headers = ["content-type", "docker-content-digest", "content-length"];
                let length = body.to_string().len().to_string();
                assert_eq!(headers.map(|name| reply.header(name)), [kind, digest, &length]);
            }
        }
        rig.end().await;
    }
}

#[tokio::test]
async fn a_tag_moves() {
    let rig = Rig::open().await;
    let first = manifest(&rig, OCI).await;
    let mut second = first.clone();
    second["annotations"] = json!({"a": "b"});
    for each in [&first, &second, &first] {
        put(&rig, "v1", OCI, each).await;
        assert_eq!(rig.get("/v2/a/manifests/v1").await.json(), *each);
    }
    let old = format!("/v2/a/manifests/{}", sha256(second.to_string().as_bytes()));
    assert_eq!(rig.get(&old).await.json(), second, "what has no tag is still there");
    rig.end().await;
}

#[tokio::test]
async fn a_manifest_that_is_not_there_or_not_accepted_is_unknown() {
    let rig = Rig::open().await;
    let manifest = manifest(&rig, OCI).await;
    put(&rig, "v1", OCI, &manifest).await;
    let unknown = refusal(404, "MANIFEST_UNKNOWN");
    for path in ["/v2/a/manifests/v2", "/v2/b/manifests/v1"] {
        assert_eq!(rig.get(path).await.refusal(), unknown, "{path}");
    }
    assert_eq!(rig.head("/v2/a/manifests/v2").await.status, 404);
    let accepting =
        |accept: &str| rig.ask(Method::GET, "/v2/a/manifests/v1").header("accept", accept);
    for accept in ["*/*", OCI, &format!("{DOCKER}, {OCI};q=0.5"), "application/*", ""] {
        assert_eq!(reply(accepting(accept)).await.status, 200, "{accept}");
    }
    for accept in [DOCKER, OCI_INDEX, "text/html"] {
        assert_eq!(reply(accepting(accept)).await.refusal(), unknown, "{accept}");
    }
    let twice = accepting(DOCKER).header("accept", OCI);
    assert_eq!(reply(twice).await.status, 200);
    rig.end().await;
}

#[tokio::test]
async fn a_manifest_that_makes_no_sense_is_refused() {
    let rig = Rig::open().await;
    let good = manifest(&rig, OCI).await;
    let with = |name: &str, value: Value| {
        let mut changed = good.clone();
        changed[name] = value;
        changed
    };
    let other = sha256(b"other");
    let index = json!({"schemaVersion": 2, "manifests": [descriptor(&other)]});
    let rows = [
        (OCI, json!([]), "MANIFEST_INVALID"),
        (OCI, json!({}), "MANIFEST_INVALID"),
        (OCI, with("schemaVersion", json!(1)), "MANIFEST_INVALID"),
        (OCI, with("mediaType", json!(DOCKER)), "MANIFEST_INVALID"),
        (OCI, with("config", Value::Null), "MANIFEST_INVALID"),
        (OCI, with("layers", json!([{"digest": 1}])), "MANIFEST_INVALID"),
        (OCI, with("layers", json!([descriptor("../../x")])), "DIGEST_INVALID"),
        (OCI, with("layers", json!([descriptor(&other)])), "MANIFEST_BLOB_UNKNOWN"),
        (OCI, with("config", descriptor(&other)), "MANIFEST_BLOB_UNKNOWN"),
        (OCI_INDEX, index, "MANIFEST_UNKNOWN"),
        ("text/plain", good.clone(), "MANIFEST_INVALID"),
        ("", good.clone(), "MANIFEST_INVALID"),
    ];
    for (media_type, manifest, code) in rows {
        let refused = put(&rig, "v1", media_type, &manifest).await;
        assert_eq!(refused.refusal(), refusal(400, code), "{manifest}");
    }
    assert_eq!(put(&rig, &other, OCI, &good).await.refusal(), refusal(400, "DIGEST_INVALID"));
    assert_eq!(put(&rig, "-v1", OCI, &good).await.refusal(), refusal(400, "MANIFEST_INVALID"));
    assert_eq!(rig.get("/v2/a/manifests/v1").await.status, 404);
    let mut elsewhere = good.clone();
    elsewhere["layers"] = json!([{"digest": other, "urls": ["https://elsewhere.example/layer"]}]);
    assert_eq!(put(&rig, "v1", OCI, &elsewhere).await.status, 201, "it need not be here");
    rig.end().await;
}

#[tokio::test]
async fn tags_are_listed_in_order_and_in_pages() {
    let rig = Rig::open().await;
    let manifest = manifest(&rig, OCI).await;
    for tag in ["v2", "latest", "v10", "v1"] {
        put(&rig, tag, OCI, &manifest).await;
    }
    let list = async |query: &str| {
        let listed = rig.get(&format!("/v2/a/tags/list{query}")).await;
        assert_eq!((listed.status, &listed.json()["name"]), (200, &json!("a")));
        (listed.json()["tags"].clone(), listed.header("link").to_owned())
    };
    assert_eq!(list("").await, (json!(["latest", "v1", "v10", "v2"]), String::new()));
    let next = r#"</v2/a/tags/list?n=2&last=v1>; rel="next""#.to_owned();
    assert_eq!(list("?n=2").await, (json!(["latest", "v1"]), next));
    assert_eq!(list("?n=2&last=v1").await, (json!(["v10", "v2"]), String::new()));
    assert_eq!(list("?last=v2").await, (json!([]), String::new()));
    assert_eq!(list("?n=0").await, (json!([]), String::new()));
    assert_eq!(rig.get("/v2/a/tags/list?n=x").await.refusal(), refusal(400, "UNSUPPORTED"));
    assert_eq!(rig.get("/v2/b/tags/list").await.refusal(), refusal(404, "NAME_UNKNOWN"));
    rig.end().await;
}
