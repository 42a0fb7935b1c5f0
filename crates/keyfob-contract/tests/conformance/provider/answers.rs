//! Faults of the answer itself.

use keyfob_testkit::Step;
use serde_json::json;

use super::plugin::{PASSWORD, Plugin, v1, with};
use crate::support::{Judged as _, line};

fn good() -> String {
    line(&v1(&["registry.example"]))
}

#[tokio::test]
async fn nothing_on_stdout() {
    Plugin::printing("").fails("answer").await;
    Plugin::printing("\n\n").fails("answer").await;
}

#[tokio::test]
async fn a_crash() {
    Plugin { v1: vec![Step::Signal(9)], ..Plugin::clean() }.fails("answer").await;
}

#[tokio::test]
async fn no_json() {
    let yaml = "kind: CredentialProviderResponse\nauth: {}\n".to_owned();
    let half = good().get(..120).unwrap().to_owned();
    for stdout in [
        format!("password: {PASSWORD}!\n}}"),
        yaml,
        half,
        good() + &good(),
        good() + PASSWORD,
        format!("\u{feff}{}", good()),
        format!("asking the registry\n{}", good()),
    ] {
        Plugin::printing(&stdout).fails("json").await;
    }
}

#[tokio::test]
async fn no_line_break_at_the_end() {
    Plugin::printing(good().trim_end()).warns("json").await;
}

#[tokio::test]
async fn more_output_than_anybody_reads() {
    Plugin { v1: vec![Step::FloodStdout(9 << 20)], ..Plugin::clean() }.fails("json").await;
}

#[tokio::test]
async fn another_version_than_asked() {
    let version = "credentialprovider.kubelet.k8s.io/v1beta1";
    Plugin::printing(&line(&with("apiVersion", version))).fails("api-version").await;
    Plugin::printing(&line(&with("apiVersion", 1))).fails("api-version").await;
}

#[tokio::test]
async fn another_kind() {
    Plugin::printing(&line(&with("kind", "ExecCredential"))).fails("kind").await;
}

#[tokio::test]
async fn fields_that_are_not_its_own_or_in_the_wrong_place() {
    let login = json!({"username": "robot", "password": PASSWORD});
    for answer in [
        with("expiry", "soon"),
        with("auth", json!({"registry.example": login, "cacheDuration": "6h"})),
        with("auth", json!({"registry.example": {"cacheKeyType": "Image"}})),
        with("auth", json!({"registry.example": PASSWORD})),
    ] {
        Plugin::printing(&line(&answer)).fails("fields").await;
    }
}

#[tokio::test]
async fn a_cache_key_type_of_its_own() {
    for word in ["registry", "", "ServiceAccount"] {
        Plugin::printing(&line(&with("cacheKeyType", word))).fails("cache-key-type").await;
    }
}

#[tokio::test]
async fn durations_that_make_no_sense() {
    for duration in [json!("-5m"), json!("1d"), json!(600)] {
        Plugin::printing(&line(&with("cacheDuration", duration))).fails("cache-duration").await;
    }
    Plugin::printing(&line(&with("cacheDuration", "100h"))).warns("cache-duration").await;
}

#[tokio::test]
async fn keys_for_nobody_or_everybody() {
    for keys in [&["registry.example:5000"][..], &["other.example", "third.example"]] {
        Plugin::printing(&line(&v1(keys))).fails("keys").await;
    }
    Plugin::printing(&line(&v1(&["registry.example", "r.io:port"]))).fails("keys").await;
    Plugin::printing(&line(&v1(&["*.*"]))).warns("keys").await;
}

#[tokio::test]
async fn half_a_login() {
    for login in [json!({"username": "robot"}), json!({"password": PASSWORD})] {
        let answer = with("auth", json!({"registry.example": login}));
        Plugin::printing(&line(&answer)).warns("logins").await;
    }
}
