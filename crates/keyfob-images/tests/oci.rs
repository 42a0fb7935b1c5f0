//! The puller of keyfob-oci, as whoever has the images.

#![cfg(feature = "oci")]
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use keyfob_api::{Chain, ImageRef};
use keyfob_exec::BoxFuture;
use keyfob_images::{
    Attempt, CredentialLookupError, EnsureReason, FailedAttempt, ImageManager, ImageService as _,
    ImageServiceError, ImageSpec, LocalImage, PullCredentials, PullFailureKind, PullPolicy, Wanted,
};
use keyfob_keyring::{Login, Logins, Source, select};
use keyfob_oci::{Client, Digest, Layout, LayoutError, Patience, Platform, PullError, Puller};
use keyfob_testkit::{Internet, LeakCheck, MapEnvironment, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A directory to pull into, and who pulls.
struct Node {
    directory: TempDir,
    puller: Puller,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let patience = Patience { first: Duration::from_millis(1), ..Patience::default() };
        let client = Client::builder(&MapEnvironment::default()).patience(patience).build();
        let layout = Layout::create(directory.path().join("oci")).unwrap();
        let platform = Platform::parse("linux/amd64").unwrap();
        Self { directory, puller: Puller::builder(client, layout).platform(platform).build() }
    }
}

/// A registry with one image, `team/app:v1`.
fn registry() -> Internet {
    let mut contents = BTreeMap::new();
    let mut add = |path: &str, media_type: &str, content: Vec<u8>| {
        let (digest, size) = (Digest::sha256(&content), content.len());
        contents.insert(format!("/v2/team/app/{path}/{digest}"), content.clone());
        contents.insert(format!("/v2/team/app/{path}/v1"), content);
        json!({"mediaType": media_type, "digest": digest, "size": size})
    };
    let config = json!({"os": "linux", "architecture": "amd64"}).to_string();
    let config = add("blobs", "application/vnd.oci.image.config.v1+json", config.into_bytes());
    let layer = add("blobs", "application/vnd.oci.image.layer.v1.tar", b"layer".to_vec());
    let manifest: Value =
        json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    add("manifests", MANIFEST, manifest.to_string().into_bytes());
    Internet::start(move |request| match contents.get(request.path()) {
        Some(content) => Response::text(content.clone()).header("Content-Type", MANIFEST),
        None => Response::status(404),
    })
}

fn spec(image: &str) -> ImageSpec {
    ImageSpec { image: image.into(), ..ImageSpec::default() }
}

fn from(image: &str, login: Option<Login>) -> Attempt {
    let from = ImageRef::parse(image).unwrap();
    let logins = login
        .map(|login| Arc::new(Logins::new(Source::provider("test"), [(from.registry(), login)])));
    let credential = select(from.repository(), from.target().ok().as_ref(), &logins).pop();
    Attempt { from, credential }
}

#[tokio::test]
async fn an_image_that_was_pulled_is_here_once_with_all_its_names() {
    let registry = registry();
    let mirror = from(&format!("{}/team/app:v1", registry.address()), None);
    let Node { puller, .. } = &Node::new();
    let (nginx, other) = (spec("nginx:1.27"), spec("r.io/app:v2"));
    assert_eq!(puller.image_id(&nginx).await.unwrap(), None);
    assert_eq!(puller.size(&nginx).await, None);

    let id = puller.pull(&nginx, &mirror).await.unwrap();
    assert_eq!(puller.pull(&other, &mirror).await.unwrap(), id);

    for here in [&nginx, &other] {
        assert_eq!(puller.image_id(here).await.unwrap().as_ref(), Some(&id));
    }
    let name = ImageRef::parse("nginx:1.27").unwrap();
    let stored = puller.find(&name).await.unwrap().unwrap();
    assert_eq!((id.clone(), puller.size(&nginx).await), (stored.id.to_string(), Some(stored.size)));
    let listed = puller.list().await.unwrap();
    let [LocalImage { id: listed_id, repo_tags, repo_digests }] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    assert_eq!(*listed_id, id);
    for tag in ["docker.io/library/nginx:1.27", "nginx:1.27", "r.io/app:v2"] {
        assert!(repo_tags.iter().any(|each| each == tag), "{tag}");
    }
    for name in ["docker.io/library/nginx", "nginx", "r.io/app"] {
        assert!(repo_digests.contains(&format!("{name}@{}", stored.manifest)), "{name}");
    }
}

#[tokio::test]
async fn a_credential_that_is_refused_is_told_apart_from_a_registry_that_is_down() {
    let node = Node::new();
    let login = Login { username: "ada".into(), password: "hunter2".into(), ..Login::default() };
    for (status, kind) in [
        (401, PullFailureKind::Refused),
        (403, PullFailureKind::Refused),
        (503, PullFailureKind::RegistryUnavailable),
        (404, PullFailureKind::Other),
    ] {
        let registry = Internet::start(move |_| {
            Response::text("hunter2").with_status(status).header("WWW-Authenticate", "Basic")
        });
        let attempt = from(&format!("{}/team/app:v1", registry.address()), Some(login.clone()));
        assert!(attempt.credential.is_some());
        let failure = node.puller.pull(&spec("r.io/app:v1"), &attempt).await.unwrap_err();
        assert_eq!(failure.kind(), kind, "{failure}");
        LeakCheck::new(["hunter2"]).error(&failure);
    }
    let failure = node.puller.pull(&spec("NO NAME"), &from("r.io/app", None)).await.unwrap_err();
    assert!(failure.to_string().starts_with("couldn't parse image name"), "{failure}");
    assert!(node.puller.image_id(&spec("NO NAME")).await.is_err());
}

/// Nothing but a pull without credentials.
#[derive(Debug)]
struct Nobody;

impl PullCredentials for Nobody {
    fn attempts(&self) -> BoxFuture<'_, Result<Vec<Attempt>, CredentialLookupError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn refused<'a>(&'a self, _attempt: &'a Attempt) -> BoxFuture<'a, Option<Attempt>> {
        Box::pin(async { None })
    }
}

#[tokio::test]
async fn whoever_wanted_the_image_finds_the_pullers_own_error() {
    let Node { directory, puller } = Node::new();
    let registry = Internet::start(|_| Response::status(404));
    let manager = ImageManager::builder(Arc::new(puller.clone())).build();
    let image = format!("{}/team/app:v1", registry.address());

    let wanted = Wanted::new(&image, PullPolicy::IfNotPresent);
    let error = manager.ensure(&wanted, &Nobody).await.unwrap_err();

    let [attempt] = error.attempts.as_slice() else { panic!("{error:?}") };
    let of = FailedAttempt::downcast_ref::<PullError>;
    assert!(matches!(of(attempt), Some(PullError::NotFound { .. })), "{error}");
    assert_eq!(attempt.message, Chain(of(attempt).unwrap()).to_string());

    std::fs::write(directory.path().join("oci/index.json"), "[]").unwrap();
    let other = Wanted::new("r.io/app", PullPolicy::IfNotPresent);
    let error = manager.ensure(&other, &Nobody).await.unwrap_err();

    assert_eq!(error.reason, EnsureReason::ImageInspectError);
    let cause = error.downcast_ref::<LayoutError>().unwrap();
    assert!(matches!(cause, LayoutError::NotALayout { .. }), "{cause}");
    let listed: ImageServiceError = puller.list().await.unwrap_err();
    assert_eq!(Chain(&listed).to_string(), Chain(cause).to_string());
    let expected = format!("Failed to inspect image \"r.io/app:latest\": {}", Chain(cause));
    assert_eq!(error.message, expected);
}
