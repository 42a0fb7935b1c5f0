//! Faults of the answer.

use serde_json::json;

use super::plugin::{Plugin, TOKEN, answer, pem, v1, with};
use crate::support::{Judged as _, failures, line, print};

#[tokio::test]
async fn not_one_json_object() {
    let good = line(&v1());
    for stdout in [
        format!("Logging in…\n{good}"),
        format!("{good}{good}"),
        format!("{good}done\n"),
        "{\"kind\":".to_owned(),
        "logged in\n".to_owned(),
        "[1]\n".to_owned(),
    ] {
        Plugin::printing(&stdout).fails("json").await;
    }
}

#[tokio::test]
async fn yaml() {
    let yaml = format!(
        "kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\nstatus:\n  token: {TOKEN}\n  \
         expirationTimestamp: \"2099-01-01T00:00:00Z\"\n"
    );
    Plugin::printing(&yaml).warns("json").await;
    Plugin::printing(&format!("{yaml}---\n{yaml}")).fails("json").await;
}

#[tokio::test]
async fn another_version_or_kind() {
    let status = v1()["status"].clone();
    Plugin::printing(&line(&answer("v1beta1", &status))).fails("api-version").await;
    Plugin::printing(&line(&answer("v9", &status))).fails("api-version").await;
    let mut other = v1();
    other["apiVersion"] = json!(null);
    Plugin::printing(&line(&other)).fails("api-version").await;

    let mut other = v1();
    other["kind"] = json!("CredentialProviderResponse");
    Plugin::printing(&line(&other)).fails("kind").await;
    other["kind"] = json!(null);
    Plugin::printing(&line(&other)).warns("kind").await;
}

#[tokio::test]
async fn two_faults_are_both_told() {
    let report = Plugin::printing(&line(&answer("v1beta1", &json!({})))).report().await;

    assert_eq!(failures(&report), ["api-version", "status"]);
}

#[tokio::test]
async fn no_credential_or_half_of_one() {
    let mut bare = v1();
    bare["status"] = json!(null);
    let (certificate, key) = (pem("CERTIFICATE"), pem("PRIVATE KEY"));
    for answer in [
        bare,
        with("token", ""),
        with("clientCertificateData", certificate.as_str()),
        with("clientKeyData", key.as_str()),
    ] {
        Plugin::printing(&line(&answer)).fails("status").await;
    }
    Plugin::printing(&line(&with("token", 5))).fails("fields").await;
}

#[tokio::test]
async fn a_token_that_no_header_can_hold() {
    Plugin::printing(&line(&with("token", format!("{TOKEN}\n")))).fails("token").await;
    Plugin::printing(&line(&with("token", format!("Bearer {TOKEN}")))).fails("token").await;
    Plugin::printing(&line(&with("token", format!("{TOKEN} ")))).warns("token").await;
}

#[tokio::test]
async fn a_pair_that_is_no_pem() {
    let pair = |certificate: &str, key: &str| {
        let status = json!({"clientCertificateData": certificate, "clientKeyData": key});
        let mut plugin = Plugin::printing(&line(&answer("v1", &status)));
        plugin.older = print(&line(&answer("v1beta1", &status)));
        plugin
    };
    let (certificate, key) = (pem("CERTIFICATE"), pem("PRIVATE KEY"));
    pair(&key, &certificate).fails("identity").await;
    pair("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", &key).fails("identity").await;
    pair(&certificate, &pem("ENCRYPTED PRIVATE KEY")).fails("identity").await;
    pair(&certificate, key.trim_end_matches("-----END PRIVATE KEY-----\n")).fails("identity").await;
}

#[tokio::test]
async fn an_end_that_is_wrong() {
    for end in ["2020-01-01T00:00:00Z", "2099-01-01 00:00:00", "tomorrow", "1735689600"] {
        Plugin::printing(&line(&with("expirationTimestamp", end))).fails("expiry").await;
    }
    Plugin::printing(&line(&with("expirationTimestamp", 1_735_689_600))).fails("expiry").await;
    let offset = "2099-01-01T02:00:00+02:00";
    Plugin::printing(&line(&with("expirationTimestamp", offset))).warns("expiry").await;
}
