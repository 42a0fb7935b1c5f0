//! What a plugin does, run by run.

use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy},
    prop_oneof,
    sample::select,
};
use serde_json::{Value, json};

const GOOD: [&str; 8] = [
    r#"{"token":"a"}"#,
    r#"{"token":"b"}"#,
    r#"{"token":"c","expirationTimestamp":"2999-01-01T00:00:00Z"}"#,
    r#"{"token":"d","expirationTimestamp":"0001-01-01T00:00:00Z"}"#,
    r#"{"token":"e","clientCertificateData":"CERT_A","clientKeyData":"KEY_A"}"#,
    r#"{"clientCertificateData":"CERT_B","clientKeyData":"KEY_B"}"#,
    r#"{"clientCertificateData":"CERT_ACERT_B","clientKeyData":"KEY_A"}"#,
    r#"{"token":"é\t","clientCertificateData":"CERT_A","clientKeyData":"KEY_A","expirationTimestamp":"2999-01-01T00:00:00Z"}"#,
];
const UNUSABLE: [&str; 6] =
    [r#"{"clientKeyData":"KEY_A"}"#, "{}", "null", r#"{"token":5}"#, r#"{"token":"a\n"}"#, "[]"];
const EXPIRED: [&str; 4] = [
    r#"{"token":"x","expirationTimestamp":"2001-01-01T00:00:00Z"}"#,
    r#"{"token":"y","expirationTimestamp":"2001-01-01T00:00:00Z"}"#,
    r#"{"token":"z","clientCertificateData":"CERT_A","clientKeyData":"KEY_A","expirationTimestamp":"2001-01-01T00:00:00Z"}"#,
    r#"{"clientCertificateData":"CERT_B","clientKeyData":"KEY_B","expirationTimestamp":"2001-01-01T00:00:00Z"}"#,
];
/// They leave their expiry behind, so a story has them or [`EXPIRED`].
const BAD_PAIRS: [&str; 5] = [
    r#"{"clientCertificateData":"CERT_A","clientKeyData":"KEY_B"}"#,
    r#"{"token":"a","clientCertificateData":"CERT_A","clientKeyData":"garbage"}"#,
    r#"{"clientCertificateData":"-----BEGIN","clientKeyData":"KEY_A"}"#,
    r#"{"clientCertificateData":"KEY_A","clientKeyData":"CERT_A"}"#,
    r#"{"clientCertificateData":"CERT_B","clientKeyData":"CERT_B","expirationTimestamp":"2999-01-01T00:00:00Z"}"#,
];

pub(super) fn runs() -> impl Strategy<Value = Vec<Vec<Value>>> {
    prop_oneof![vec(run(&EXPIRED), 1..5), vec(run(&BAD_PAIRS), 1..5)]
}

/// What a plugin does in one run, which may give one of these answers.
fn run(special: &'static [&'static str]) -> impl Strategy<Value = Vec<Value>> {
    let status = prop_oneof![
        6 => select(&GOOD[..]),
        1 => select(&UNUSABLE[..]),
        3 => select(special),
    ];
    let version = select(vec!["v1", "v1", "v1", "v1", "v1beta1"]);
    let answer = (version, status).prop_map(|(version, status)| {
        let status: Value = serde_json::from_str(status).expect("it is JSON");
        let version = format!("client.authentication.k8s.io/{version}");
        json!({"answer": {"apiVersion": version, "kind": "ExecCredential", "status": status}})
    });
    let other = select(vec![
        json!({"exit": 3}),
        json!({"signal": 9}),
        json!({"print": "{"}),
        json!({"print": ""}),
        json!({"print": "apiVersion: client.authentication.k8s.io/v1\nstatus: {token: yaml}"}),
    ]);
    let last = prop_oneof![8 => answer, 1 => other];
    let first = option::weighted(0.2, Just(json!({"say": "hello\n"})));
    (first, last).prop_map(|(first, last)| first.into_iter().chain([last]).collect())
}
