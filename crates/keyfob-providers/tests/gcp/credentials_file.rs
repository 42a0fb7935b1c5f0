//! Credentials in files of Google's.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use keyfob_api::Timestamp;
use keyfob_exec::Clock as _;
use keyfob_plugin::testing::Asking;
use keyfob_testkit::{Request, Response};
use serde_json::{Value, json};

use crate::node::*;

#[tokio::test]
async fn a_service_account_s_key_signs_for_a_token() {
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048);
    let key = key.unwrap().serialize_pem();
    let node = Node::new(|request| match (request.host.as_str(), request.path()) {
        ("oauth2.googleapis.com", "/token") => issued(FEDERATED),
        _ => Response::status(404),
    });
    let file = node.file(&json!({
        "type": "service_account",
        "client_email": "puller@my-project.iam.gserviceaccount.com",
        "private_key_id": "key-1",
        "private_key": key,
        "project_id": "my-project",
    }));
    let node = node.args(&["--credentials-file", &file]);
    let answer = node.answer(Asking::about(IMAGE)).await.unwrap();

    assert_eq!((password(&answer), duration(&answer).as_deref()), (FEDERATED, Some("54m59s")));
    let body = &node.internet.requests()[0].body;
    let (grant, assertion) = body.split_once("&assertion=").unwrap();
    assert_eq!(grant, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer");
    let parts: Vec<_> = assertion.split('.').collect();
    let claims: Value = serde_json::from_slice(&base64url(parts[1])).unwrap();
    let now = node.clock.now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let expected = json!({
        "iss": "puller@my-project.iam.gserviceaccount.com",
        "scope": "https://www.googleapis.com/auth/cloud-platform",
        "aud": "https://oauth2.googleapis.com/token",
        "iat": now,
        "exp": now + 3600,
    });
    assert_eq!(claims, expected);
    assert_eq!(base64url(parts[2]).len(), 256, "a signature of RSA with 2048 bits");
}

fn base64url(text: &str) -> Vec<u8> {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// A node whose credentials are in a file of Google's library, which connects by itself.
fn with_external_account(
    impersonates: bool,
    handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> Node {
    let mut node = Node::new(handler);
    node.args.clear();
    let subject = node.directory.path().join("subject");
    fs::write(&subject, POD_TOKEN).unwrap();
    let base = node.internet.url();
    let mut file = json!({
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": format!("{base}/sts"),
        "credential_source": { "file": subject },
    });
    if impersonates {
        file["service_account_impersonation_url"] = json!(format!("{base}/impersonate"));
    }
    let file = node.file(&file);
    node.args(&["--credentials-file", &file])
}

fn in_an_hour() -> String {
    // The library has a clock of its own.
    #[expect(clippy::disallowed_methods, reason = "the library reads the system's clock")]
    let now = SystemTime::now();
    Timestamp::from(now + Duration::from_hours(1)).to_string()
}

#[tokio::test]
async fn an_external_account_is_traded_by_google_s_library() {
    for (impersonates, expected) in [(false, FEDERATED), (true, IMPERSONATED)] {
        let node = with_external_account(impersonates, |request| match request.path() {
            "/sts" => Response::json(
                json!({
                    "access_token": FEDERATED,
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                    "token_type": "Bearer",
                    "expires_in": 3600,
                })
                .to_string(),
            ),
            "/impersonate" => Response::json(
                json!({ "accessToken": IMPERSONATED, "expireTime": in_an_hour() }).to_string(),
            ),
            _ => Response::status(404),
        });
        let answer = node.answer(Asking::about(IMAGE)).await.unwrap();

        assert_eq!(password(&answer), expected);
        assert_eq!(duration(&answer), None, "the library does not tell: the configuration decides");
        assert!(node.internet.requests()[0].body.contains(POD_TOKEN));
    }
}

#[tokio::test]
async fn what_google_s_library_is_refused_is_told_without_the_body() {
    let node = with_external_account(false, |_| {
        let body = json!({
            "error": "invalid_grant",
            "error_description": "The audience is wrong.",
            "debug": FEDERATED,
        });
        Response::json(body.to_string()).with_status(400)
    });
    let failure = node.failure(Asking::about(IMAGE)).await;
    assert!(failure.contains("credentials file /"), "{failure}");
    let reason = "Google responded with status code 400: invalid_grant: The audience is wrong.\n";
    assert!(failure.ends_with(reason), "{failure}");

    let node = with_external_account(false, |_| Response::status(500));
    let failure = node.failure(Asking::about(IMAGE)).await;
    assert!(failure.ends_with("Google responded with status code 500\n"), "{failure}");
    assert_eq!(node.asked().len(), 3, "a passing fault is met with patience");

    let node = with_external_account(false, google);
    fs::remove_file(node.directory.path().join("subject")).unwrap();
    let failure = node.failure(Asking::about(IMAGE)).await;
    assert!(failure.contains("No such file"), "{failure}");
}

#[tokio::test]
async fn a_file_that_is_no_credential_is_a_failure() {
    let node = Node::usual();
    let rows = [
        (json!({ "type": "gdch_service_account" }), "its type is none of"),
        (json!({ "private_key": NODE_TOKEN }), "its type is none of"),
        (json!(NODE_TOKEN), "not a JSON object (line 1"),
        (json!({ "type": "service_account" }), "its client_email is missing"),
        (
            json!({ "type": "service_account", "client_email": "a@b.c", "private_key": NODE_TOKEN }),
            "its private_key cannot be used",
        ),
        (
            json!({ "type": "service_account", "client_email": "a", "token_uri": "http://x.test/" }),
            "its token_uri: begins with http://",
        ),
        (json!({ "type": "external_account", "audience": "x" }), "set SSL_CERT_FILE"),
    ];
    for (text, reason) in rows {
        let file = node.file(&text);
        let args =
            vec!["--credentials-file".to_owned(), file, "--ca-file".to_owned(), "/x".to_owned()];
        let asked = Node { args, ..Node::usual() };
        let failure = asked.failure(Asking::about(IMAGE)).await;
        assert!(failure.contains(reason), "{text}: {failure}");
    }
    let file = node.file(&json!({ "type": "authorized_user", "client_id": "x" }));
    let asked = Node { args: vec!["--credentials-file".to_owned(), file], ..Node::usual() };
    let failure = asked.failure(Asking::about(IMAGE)).await;
    assert!(
        failure.contains("not a complete authorized_user file: client_secret is missing"),
        "{failure}"
    );
    let asked = Node::usual().args(&["--credentials-file", "/nowhere/at/all"]);
    let failure = asked.failure(Asking::about(IMAGE)).await;
    assert!(failure.contains("credentials file /nowhere/at/all: No such file"), "{failure}");
}
