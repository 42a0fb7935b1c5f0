//! `auth-provider-gcp` as a process: what Google's library takes from the environment, and what the exit code says.
#![cfg(feature = "gcp")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

use std::{
    fs,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use keyfob_testkit::{Internet, LeakCheck, Request, Response};
use serde_json::{Value, json};

const SECRETS: [&str; 3] = ["hunter2-refresh", "hunter2-client", "hunter2-access"];

/// Runs the plugin on a machine that trusts and knows nothing but this internet.
fn run(internet: &Internet, version: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("credentials.json");
    let credentials = json!({
        "type": "authorized_user",
        "client_id": "client",
        "client_secret": SECRETS[1],
        "refresh_token": SECRETS[0],
    });
    fs::write(&file, credentials.to_string()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut child = Command::new(env!("CARGO_BIN_EXE_keyfob"))
        .args(["provider", "gcp", "get-credentials", "--v=3"])
        .env_clear()
        .env("GOOGLE_APPLICATION_CREDENTIALS", &file)
        .env("HTTPS_PROXY", internet.url())
        .env("SSL_CERT_FILE", internet.ca_file(directory.path()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": format!("credentialprovider.kubelet.k8s.io/{version}"),
        "image": "eu.gcr.io/my-project/app",
    });
    child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    LeakCheck::new(SECRETS).text("stderr", &String::from_utf8_lossy(&output.stderr));
    output
}

fn token_service(request: &Request) -> Response {
    assert_eq!((request.host.as_str(), request.path()), ("oauth2.googleapis.com", "/token"));
    assert!(request.tls && request.body.contains(SECRETS[0]));
    let answer = json!({ "access_token": SECRETS[2], "expires_in": 3599, "token_type": "Bearer" });
    Response::json(answer.to_string())
}

#[test]
fn google_s_library_goes_by_the_proxy_and_trusts_the_file_of_the_environment() {
    let output = run(&Internet::start(token_service), "v1");

    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let login = json!({ "username": "_token", "password": SECRETS[2] });
    assert_eq!(answer["auth"]["eu.gcr.io"], login);
    assert_eq!(answer["cacheKeyType"], "Image");
}

#[test]
fn a_failure_is_an_exit_code_and_a_reason_and_no_answer() {
    let refusal = r#"{"error":"invalid_grant","error_description":"Token has been revoked."}"#;
    let output = run(&Internet::start(move |_| Response::json(refusal).with_status(400)), "v1");

    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("auth-provider-gcp: credentials file /"), "{said}");
    let reason = "Google responded with status code 400: invalid_grant: Token has been revoked.\n";
    assert!(said.ends_with(reason), "{said}");
}

#[test]
fn a_version_that_is_not_known_is_not_answered_in_another() {
    let internet = Internet::start(token_service);
    let output = run(&internet, "v9");

    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(internet.requests().is_empty());
}
