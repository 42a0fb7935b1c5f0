//! `POST /v1/provider`: the kubelet's own request and response.

use std::time::SystemTime;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_api::{CredentialProviderResponse, ProviderVersion};
use keyfob_exec::Clock as _;
use serde_json::{Value, json};

use crate::{
    plugins::{SECRET, logins, password},
    rig::{APP, Reply, Rig, RunningAgent, provider},
};

fn request(version: &str, fields: &Value) -> String {
    let mut request = json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": format!("credentialprovider.kubelet.k8s.io/{version}"),
        "image": APP,
    });
    for (field, value) in fields.as_object().unwrap() {
        request[field] = value.clone();
    }
    request.to_string()
}

async fn ask(agent: &RunningAgent, body: &str) -> Reply {
    agent.socket.call("POST", "/v1/provider", body).await
}

/// The users of a response, in the order in which a kubelet tries them.
fn users(reply: &Reply) -> Vec<String> {
    let version = reply.json()["apiVersion"].as_str().unwrap().to_owned();
    let version = version.rsplit('/').next().unwrap().to_owned();
    let response = CredentialProviderResponse::decode(
        reply.body.as_bytes(),
        match &*version {
            "v1" => ProviderVersion::V1,
            "v1beta1" => ProviderVersion::V1Beta1,
            _ => ProviderVersion::V1Alpha1,
        },
    );
    let mut auth = response.unwrap().auth;
    // A kubelet sorts the keys, and the last comes first.
    auth.sort_by(|(a, _), (b, _)| b.cmp(a));
    auth.into_iter().map(|(_, login)| login.username).collect()
}

#[tokio::test]
async fn every_version_is_answered_in_its_own_words_and_never_cached() {
    let rig = Rig::new();
    let agent = rig.start();
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let reply = ask(&agent, &request(version, &json!({}))).await;
        let expected = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": format!("credentialprovider.kubelet.k8s.io/{version}"),
            "cacheKeyType": "Image",
            "cacheDuration": "0s",
            "auth": {"registry.example": {"username": "ada", "password": password("ada")}},
        });
        assert_eq!((reply.status, reply.json()), (200, expected), "{version}");
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_kubelet_tries_the_credentials_in_our_order() {
    let rig = Rig::new();
    let names = ["one", "two", "three", "four"];
    let providers = names.map(|name| provider(name, "registry.example")).concat();
    rig.write_providers(&providers);
    for (name, user) in names.into_iter().zip(["zoe", "ada", "mia", "left-out"]) {
        rig.plugins.login(name, user);
    }
    let agent = rig.start();
    let reply = ask(&agent, &request("v1", &json!({}))).await;
    assert_eq!(users(&reply), ["zoe", "ada", "mia"], "as many as the name has parts");
    let shorter = request("v1", &json!({"image": "registry.example/app"}));
    assert_eq!(users(&ask(&agent, &shorter).await), ["zoe", "ada"]);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_kubelet_goes_on_without_credentials_and_hears_of_failures() {
    let rig = Rig::new();
    rig.plugins.respond("one", |_| Some(logins("Image", "1h", [("other.example", "ada")])));
    let agent = rig.start();
    let reply = ask(&agent, &request("v1", &json!({}))).await;
    assert_eq!((reply.status, users(&reply)), (200, Vec::new()));
    let nobody = ask(&agent, &request("v1", &json!({"image": "nobody.example/app"}))).await;
    assert_eq!((nobody.status, users(&nobody)), (200, Vec::new()), "no provider matches");

    rig.plugins.fail("one");
    let failed = ask(&agent, &request("v1", &json!({"image": "registry.example/b"}))).await;
    assert_eq!(failed.refusal().0, 502);
    for body in ["", "{}", &request("v2", &json!({})), &request("v1", &json!({"image": 7}))] {
        assert_eq!(ask(&agent, body).await.refusal().0, 400, "{body}");
    }
    let message = "the body is not a CredentialProviderRequest";
    for (body, position) in [
        (format!("{{\n  \"serviceAccountToken\": {SECRET}"), ": invalid JSON at line 2, column 26"),
        (json!({"kind": SECRET, "apiVersion": SECRET}).to_string(), ""),
        (request("v1", &json!({"serviceAccountToken": {SECRET: SECRET}})), ""),
        (request("v1", &json!({"serviceAccountAnnotations": {SECRET: [SECRET]}})), ""),
    ] {
        let refusal = ask(&agent, &body).await.refusal();
        let expected = (400, "bad_request".to_owned(), format!("{message}{position}"));
        assert_eq!(refusal, expected, "{body}");
    }
    let nothing = request("v1", &json!({"image": ""}));
    assert_eq!(ask(&agent, &nothing).await.refusal().0, 400);
    rig.finish(agent).await;
}

/// A provider that is asked with a token for this audience.
fn with_token(name: &str, audience: &str) -> String {
    provider(name, "registry.example")
        + &format!(
            "  tokenAttributes:\n    serviceAccountTokenAudience: {audience}\n    cacheType: Token\n    requireServiceAccount: true\n"
        )
}

fn token(rig: &Rig, audience: &str, expires_in: u64) -> String {
    let now = rig.clock.now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({
        "aud": [audience],
        "exp": now + expires_in,
        "kubernetes.io": {
            "namespace": "team",
            "serviceaccount": {"name": "cart", "uid": "uid-of-cart"},
            "pod": {"name": "web", "uid": "uid-of-web"},
        },
    });
    format!("e30.{}.{SECRET}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

#[tokio::test]
async fn a_token_reaches_only_the_provider_for_whose_audience_it_is() {
    let rig = Rig::new();
    let providers = [
        with_token("ours", "registry"),
        with_token("theirs", "elsewhere"),
        provider("plain", "registry.example"),
    ];
    rig.write_providers(&providers.concat());
    rig.plugins.login("ours", "cart");
    rig.plugins.login("theirs", "mallory");
    rig.plugins.login("plain", "node");
    let agent = rig.start();
    let token = token(&rig, "registry", 3600);

    let reply = ask(&agent, &request("v1", &json!({"serviceAccountToken": token}))).await;

    assert_eq!(users(&reply), ["cart", "node"]);
    let mut asked = rig.plugins.tokens();
    asked.sort();
    assert_eq!(asked, [("ours".to_owned(), Some(token)), ("plain".to_owned(), None)]);

    // What a pod's token was for, nobody else gets.
    assert_eq!(agent.users(APP).await, ["node"]);
    let listed = agent.socket.call("GET", "/v1/docker/list", "").await;
    assert_eq!(listed.json(), json!({"https://registry.example": "node"}));
    rig.finish(agent).await;
}

#[tokio::test]
async fn annotations_reach_the_provider_that_wants_them() {
    let rig = Rig::new();
    let keys = "    requiredServiceAccountAnnotationKeys: [x.example/tenant]\n    \
                optionalServiceAccountAnnotationKeys: [x.example/role]\n";
    rig.write_providers(&(with_token("ours", "registry") + keys));
    rig.plugins.login("ours", "cart");
    let agent = rig.start();
    let token = token(&rig, "registry", 3600);
    let with = |annotations: Value| {
        request(
            "v1",
            &json!({"serviceAccountToken": token, "serviceAccountAnnotations": annotations}),
        )
    };

    let reply = ask(&agent, &with(json!({"x.example/role": "reader"}))).await;
    assert_eq!((users(&reply), rig.plugins.runs()), (Vec::new(), 0), "a required one is missing");

    let all =
        json!({"x.example/tenant": "blue", "x.example/role": "reader", "x.example/other": ""});
    assert_eq!(users(&ask(&agent, &with(all)).await), ["cart"]);
    let own = [("x.example/role", "reader"), ("x.example/tenant", "blue")];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(rig.plugins.annotations(), [own.into()], "and nothing else");
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_token_that_cannot_be_used_is_named_and_not_shown() {
    let rig = Rig::new();
    rig.write_providers(&with_token("ours", "registry"));
    rig.plugins.login("ours", "cart");
    let agent = rig.start();
    let expired = token(&rig, "registry", 0);
    let opaque = format!("opaque-{SECRET}");
    for bad in [&opaque, &expired] {
        let reply = ask(&agent, &request("v1", &json!({"serviceAccountToken": bad}))).await;
        let (status, code, message) = reply.refusal();
        assert_eq!((status, &*code), (502, "failed"), "{message}");
        assert!(message.contains("service account token"), "{message}");
    }
    assert_eq!(rig.plugins.runs(), 0);
    rig.finish(agent).await;
}

#[tokio::test]
async fn only_root_may_pass_a_token() {
    let rig = Rig::without_rights();
    rig.write_providers(&with_token("ours", "registry"));
    rig.plugins.login("ours", "cart");
    let agent = rig.start();
    let token = token(&rig, "registry", 3600);
    let (status, code, message) =
        ask(&agent, &request("v1", &json!({"serviceAccountToken": token}))).await.refusal();
    assert_eq!((status, &*code), (403, "denied"), "{message}");
    assert_eq!(rig.plugins.runs(), 0);
    // Neither the caller nor the log is told what stands in a request that cannot be read: it may be the token.
    let broken = request("v1", &json!({"serviceAccountToken": [token]}));
    assert_eq!(ask(&agent, &broken).await.refusal().0, 400);
    agent.stop().await;
    let events = rig.audit();
    let reasons: Vec<_> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    let expected = [
        "only root on the host, such as a kubelet, may pass a service account token",
        "the body is not a CredentialProviderRequest",
    ];
    assert_eq!(reasons, expected);
    rig.check_leaks();
}
