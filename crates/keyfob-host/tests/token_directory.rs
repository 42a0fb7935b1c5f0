//! Service accounts and tokens from a directory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

#[path = "support/wanted.rs"]
mod wanted;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_api::Chain;
use keyfob_exec::Clock as _;
use keyfob_host::{
    IdentityError, PodReference, ServiceAccount, ServiceAccounts as _, TokenDirectory, TokenRequest,
};
use keyfob_testkit::{LeakCheck, ManualClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use wanted::wanted;

/// The signature of every token of these tests.
const SIGNATURE: &str = "hunter2";
/// What [`ManualClock`] shows.
const NOW: u64 = 1_900_000_000;

fn token(claims: &Value) -> String {
    format!("e30.{}.{SIGNATURE}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// What a kubelet projects for the pod `cart-1`, to end in so many seconds.
fn claims(seconds: i64) -> Value {
    json!({
        "aud": ["registry.example"],
        "exp": NOW.cast_signed() + seconds,
        "iat": NOW.cast_signed() + seconds - 3600,
        "kubernetes.io": {
            "namespace": "shop",
            "pod": {"name": "cart-1", "uid": "u-pod"},
            "serviceaccount": {"name": "cart", "uid": "u-sa"},
        },
        "sub": "system:serviceaccount:shop:cart",
    })
}

fn with(mut claims: Value, pointer: &str, value: Value) -> Value {
    *claims.pointer_mut(pointer).unwrap() = value;
    claims
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn directory(path: &Path) -> TokenDirectory {
    TokenDirectory::new(path, Arc::new(ManualClock::default()))
}

/// An error's words after its place, in which no token stands.
fn told(error: &IdentityError, path: &Path) -> String {
    LeakCheck::new([SIGNATURE]).error(error);
    Chain(error).to_string().replace(path.to_str().unwrap(), "DIR")
}

/// How a token is chosen from these files: by its end, in seconds from now.
async fn chosen(files: &[(&str, &str)], wanted: &TokenRequest) -> Result<u64, String> {
    let folder = folder(files);
    let token = directory(folder.path()).token(wanted).await;
    let token = token.map_err(|error| told(&error, folder.path()))?;
    LeakCheck::new([SIGNATURE]).debug("a token", &token);
    Ok(token.expires.duration_since(ManualClock::default().now()).unwrap().as_secs())
}

#[tokio::test]
async fn the_token_that_ends_last_is_given() {
    let [early, late] = [600, 1200].map(|seconds| token(&claims(seconds)));
    let files = [("a", early.as_str()), ("b", late.as_str()), ("c", early.as_str())];

    assert_eq!(chosen(&files, &wanted()).await, Ok(1200));
}

#[tokio::test]
async fn a_token_is_its_text_and_the_times_that_it_claims() {
    let text = token(&claims(600));
    let folder = folder(&[("token", &format!("{text}\n"))]);

    let token = directory(folder.path()).token(&wanted()).await.unwrap();

    assert_eq!(token.token.expose(), &text);
    assert_eq!(token.expires, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW + 600));
    assert_eq!(token.lifetime, Some(Duration::from_hours(1)));
}

#[tokio::test]
async fn every_file_that_is_not_chosen_is_told_of_with_its_reason() {
    let good = || claims(600);
    let files = [
        ("a-of-another", token(&with(good(), "/sub", json!("system:serviceaccount:shop:till")))),
        ("b-for-another", token(&with(good(), "/aud", json!(["a", "b"])))),
        ("c-expired", token(&claims(0))),
        ("d-endless", token(&with(good(), "/exp", json!("soon")))),
        ("e-bound", token(&with(good(), "/kubernetes.io/pod/uid", json!("u-other")))),
        ("f-earlier", token(&with(good(), "/kubernetes.io/serviceaccount/uid", json!("u-old")))),
        ("g-opaque", SIGNATURE.to_owned()),
        ("h-nobody", token(&json!({}))),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();

    assert_eq!(
        chosen(&files, &wanted()).await.unwrap_err(),
        "no token of service account shop/cart for audience registry.example in DIR: \
         a-of-another is of system:serviceaccount:shop:till; \
         b-for-another is for audience a, b; \
         c-expired expired at 2030-03-17T17:46:40Z; \
         d-endless does not say when it ends; \
         e-bound is bound to pod cart-1 (u-other); \
         f-earlier is of an earlier account of that name; \
         h-nobody is of nobody; \
         g-opaque is no JSON web token"
    );
}

#[tokio::test]
async fn an_empty_directory_and_none_at_all_are_told_apart() {
    assert!(chosen(&[], &wanted()).await.unwrap_err().ends_with(" in DIR: it is empty"));

    let error = directory(Path::new("/no/such")).token(&wanted()).await.unwrap_err();
    assert!(matches!(error, IdentityError::Unavailable(_)));
    let message = Chain(&error).to_string();
    assert!(
        message.starts_with("token directory /no/such cannot be read: No such file"),
        "{message}"
    );
}

#[tokio::test]
async fn a_token_that_is_bound_to_nothing_is_every_pods() {
    let unbound = token(&with(claims(600), "/kubernetes.io/pod", Value::Null));
    let files = [("token", unbound.as_str())];

    assert_eq!(chosen(&files, &wanted()).await, Ok(600));
}

#[tokio::test]
async fn a_pod_is_known_by_its_name_if_nobody_gave_its_uid() {
    let pod = |name: &str| Some(PodReference { name: name.into(), uid: String::new() });
    let token = token(&claims(600));
    let files = [("token", token.as_str())];

    let same = TokenRequest { pod: pod("cart-1"), ..wanted() };
    assert_eq!(chosen(&files, &same).await, Ok(600));
    let other = TokenRequest { pod: pod("cart-2"), ..wanted() };
    assert!(chosen(&files, &other).await.is_err());
    let none = TokenRequest { pod: None, ..wanted() };
    assert_eq!(chosen(&files, &none).await, Ok(600));
}

#[tokio::test]
async fn a_projected_volume_is_read_through_its_links_and_anew_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, seconds) in [("..2030_1", 600), ("..2030_2", 1200)] {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(name).join("token"), token(&claims(seconds))).unwrap();
    }
    symlink("..2030_1", path("..data")).unwrap();
    symlink("..data/token", path("token")).unwrap();
    let directory = directory(folder.path());
    let end = async || {
        let token = directory.token(&wanted()).await.unwrap();
        token.expires.duration_since(ManualClock::default().now()).unwrap().as_secs()
    };

    assert_eq!(end().await, 600);
    symlink("..2030_2", path("..new")).unwrap();
    fs::rename(path("..new"), path("..data")).unwrap();
    assert_eq!(end().await, 1200);
}

#[tokio::test]
async fn what_is_no_fair_file_is_passed_over() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = folder(&[("token", &token(&claims(600))), ("large", &"x".repeat(2 << 20))]);
    let path = |name: &str| folder.path().join(name);
    mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    symlink("/dev/zero", path("device")).unwrap();
    symlink("nothing", path("dangling")).unwrap();
    fs::create_dir(path("directory")).unwrap();

    assert!(directory(folder.path()).token(&wanted()).await.is_ok());
    let other = TokenRequest { audiences: vec!["x".into()], ..wanted() };
    let error = directory(folder.path()).token(&other).await.unwrap_err();
    let words = told(&error, folder.path());
    for file in ["fifo", "device", "dangling", "directory", "large"] {
        assert!(words.contains(&format!("{file} cannot be read: ")), "{file}: {words}");
    }
}

#[tokio::test]
async fn a_long_list_of_reasons_is_cut() {
    let names: Vec<_> = (0..30).map(|number| format!("{number:02}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();

    assert!(chosen(&files, &wanted()).await.unwrap_err().ends_with("; and 10 more"));
}

async fn account(files: &[(&str, &str)]) -> Result<ServiceAccount, String> {
    let folder = folder(files);
    let account = directory(folder.path()).get("shop", "cart").await;
    account.map_err(|error| told(&error, folder.path()))
}

fn annotated(uid: &str) -> ServiceAccount {
    let annotations = [("example.com/role".to_owned(), "puller".to_owned())].into();
    ServiceAccount { uid: uid.into(), annotations }
}

const MANIFEST: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: cart
  namespace: shop
  uid: u-sa
  annotations: {example.com/role: puller}
";

#[tokio::test]
async fn an_account_is_what_its_manifest_says() {
    let list = format!(
        r#"{{"kind":"List","items":[{{"kind":"Pod","metadata":{{"name":"cart","namespace":"shop"}}}},{}]}}"#,
        r#"{"kind":"ServiceAccount","metadata":{"name":"cart","namespace":"shop","uid":"u-sa",
            "annotations":{"example.com/role":"puller"}}}"#
    );
    let many = format!("kind: Namespace\n---\n{MANIFEST}");
    for (name, text) in [("a.yaml", MANIFEST), ("a.yml", &many), ("a.json", &list)] {
        assert_eq!(account(&[(name, text)]).await, Ok(annotated("u-sa")), "{name}");
    }
}

#[tokio::test]
async fn an_account_is_known_from_its_tokens_too() {
    let token = token(&claims(-600));
    let alone = account(&[("token", &token)]).await;
    assert_eq!(alone, Ok(ServiceAccount { uid: "u-sa".into(), ..ServiceAccount::default() }));

    let bare = MANIFEST.replace("  uid: u-sa\n", "");
    assert_eq!(account(&[("token", &token), ("a.yaml", &bare)]).await, Ok(annotated("u-sa")));
}

#[tokio::test]
async fn an_account_is_the_one_whose_token_ends_last() {
    let old = with(claims(-600), "/kubernetes.io/serviceaccount/uid", json!("u-old"));
    let [old, new] = [old, claims(600)].map(|claims| token(&claims));
    for files in [[("a", &*old), ("b", &*new)], [("a", &*new), ("b", &*old)]] {
        assert_eq!(account(&files).await.unwrap().uid, "u-sa");
    }
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_may_be_the_accounts() {
    let (token, broken) = (token(&claims(600)), ("cart.yaml", "kind: [\n"));

    let error = account(&[("token", &token), broken]).await.unwrap_err();
    let start = "a manifest in token directory DIR cannot be used: cart.yaml invalid YAML at ";
    assert!(error.starts_with(start), "{error}");
    assert_eq!(account(&[("a.yaml", MANIFEST), broken]).await, Ok(annotated("u-sa")));
}

#[tokio::test]
async fn an_account_that_nothing_speaks_of_is_not_there() {
    let till = MANIFEST.replace("cart", "till");
    let token = token(&with(claims(600), "/sub", json!("system:node:n1")));

    let error = account(&[("a.yaml", &till), ("b.yaml", "kind: [\n"), ("token", &token)]).await;

    let error = error.unwrap_err();
    let start = "no service account shop/cart in DIR: token is of system:node:n1; b.yaml ";
    assert!(error.starts_with(start), "{error}");
    assert!(error.ends_with("; a manifest is of service account shop/till"), "{error}");
}
