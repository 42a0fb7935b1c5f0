//! Tokens: who gets one, what it says, and how long it holds.

use std::time::Duration;

use aws_lc_rs::{
    encoding::AsDer as _,
    rsa::{KeyPair, KeySize},
    signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use keyfob_api::Secret;
use keyfob_control::rule::Policy;
use keyfob_playground::embedded::Options;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use super::{Cluster, delete, get, post, token_path, token_request};

const WEB: &str = "/api/v1/namespaces/team/pods/web";

fn part(token: &str, number: usize) -> Value {
    let part = URL_SAFE_NO_PAD.decode(token.split('.').nth(number).unwrap()).unwrap();
    serde_json::from_slice(&part).unwrap()
}

#[tokio::test]
async fn a_node_gets_tokens_for_its_pod_and_is_refused_other_audiences() {
    let mut cluster = Cluster::start().await;
    let n1 = cluster.node("n1").await;
    for audience in ["vault", "csi", "registry.example"] {
        let answer = post(&n1, &token_path("puller"), &token_request(&[audience])).await.unwrap();
        assert_eq!(answer["spec"]["audiences"], json!([audience]));
        cluster.secrets.push(answer["status"]["token"].as_str().unwrap().to_owned());
    }
    let refused = |request| {
        let (n1, path) = (n1.clone(), token_path("puller"));
        async move { post(&n1, &path, &request).await.unwrap_err() }
    };
    assert_eq!(
        refused(token_request(&["other.example"])).await,
        "403 Forbidden: serviceaccounts \"puller\" is forbidden: system:node:n1 is not authorized to \
         request tokens for audience \"other.example\""
    );
    assert_eq!(
        refused(json!({"spec": {"audiences": ["vault"]}})).await,
        "403 Forbidden: serviceaccounts \"puller\" is forbidden: node requested token not bound to a pod"
    );
    let mut gone = token_request(&["vault"]);
    gone["spec"]["boundObjectRef"]["name"] = json!("gone");
    assert_eq!(refused(gone).await, "404 NotFound: pod \"gone\" not found");
    let n3 = cluster.node("n3").await;
    let stranger = post(&n3, &token_path("puller"), &token_request(&["vault"])).await.unwrap_err();
    assert_eq!(
        stranger,
        "403 Forbidden: serviceaccounts \"puller\" is forbidden: User \"system:node:n3\" cannot create \
         resource \"serviceaccounts/token\" in API group \"\" in the namespace \"team\": \
         node: no relationship found between node 'n3' and this object"
    );
    cluster.end().await;
}

#[tokio::test]
async fn the_list_of_kep_4412_allows_an_audience_to_every_node() {
    let listed = vec!["listed".to_owned()];
    let policy = Policy { allowed_kubelet_audiences: listed, ..Policy::default() };
    let mut cluster = Cluster::with(Options { policy, ..Options::default() }).await;
    let n1 = cluster.node("n1").await;
    let path = token_path("puller");
    assert!(post(&n1, &path, &token_request(&["listed"])).await.is_ok());
    assert!(post(&n1, &path, &token_request(&["unlisted"])).await.is_err());
    cluster.end().await;
}

#[tokio::test]
async fn kube_gets_a_token_with_the_claims_of_kubernetes() {
    let mut cluster = Cluster::start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin.clone(), "team");
    let bound = BoundObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some("web".into()),
        uid: Some("pod-1".into()),
    };
    let spec = TokenRequestSpec { bound_object_ref: Some(bound), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request("puller", &PostParams::default(), &request).await;
    let status = answer.unwrap().status.unwrap();
    assert_eq!(status.expiration_timestamp.unwrap().0.as_second(), 1_900_003_600);
    let token = status.token.unwrap();
    let claims = part(&token, 1);
    let jti = claims["jti"].as_str().unwrap();
    assert_eq!(
        claims,
        json!({
            "aud": [cluster.server.issuer()],
            "exp": 1_900_003_600,
            "iat": 1_900_000_000,
            "iss": cluster.server.issuer(),
            "jti": jti,
            "kubernetes.io": {
                "namespace": "team",
                "node": {"name": "n1", "uid": "node-1"},
                "pod": {"name": "web", "uid": "pod-1"},
                "serviceaccount": {"name": "puller", "uid": "sa-1"},
            },
            "nbf": 1_900_000_000,
            "sub": "system:serviceaccount:team:puller",
        })
    );
    cluster.secrets.push(token);
    cluster.end().await;
}

#[tokio::test]
async fn a_token_verifies_against_the_served_keys() {
    let mut cluster = Cluster::start().await;
    let token = cluster.token("vault").await;
    let configuration = get(&cluster.admin, "/.well-known/openid-configuration").await.unwrap();
    assert_eq!(configuration["issuer"], cluster.server.issuer());
    let keys = format!("https://{}/openid/v1/jwks", cluster.server.address());
    assert_eq!(configuration["jwks_uri"], keys);
    let keys = get(&cluster.admin, "/openid/v1/jwks").await.unwrap();
    let key = &keys["keys"][0];
    assert_eq!(part(&token, 0), json!({"alg": "RS256", "kid": key["kid"]}));
    let number = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let public = RsaPublicKeyComponents { n: number("n"), e: number("e") };
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    public.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature).unwrap();
    cluster.end().await;
}

#[tokio::test]
async fn a_given_key_signs() {
    let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pem = STANDARD.encode(key.as_der().unwrap().as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
    let mut kept = Vec::new();
    for _ in 0..2 {
        let signing_key = Some(Secret::new(pem.clone().into_bytes()));
        let issuer = Some("https://issuer.example".to_owned());
        let options = Options { signing_key, issuer, ..Options::default() };
        let mut cluster = Cluster::with(options).await;
        let token = cluster.token("").await;
        assert_eq!(part(&token, 1)["iss"], "https://issuer.example");
        kept.push(part(&token, 0));
        cluster.end().await;
    }
    assert_eq!(kept[0], kept[1]);
}

#[tokio::test]
async fn a_review_says_whose_token_it_is_and_for_whom() {
    let mut cluster = Cluster::start().await;
    let token = cluster.token("vault").await;
    let status = cluster.review(&token, &["vault", "else"]).await;
    let jti = format!("JTI={}", part(&token, 1)["jti"].as_str().unwrap());
    assert_eq!(
        status,
        json!({
            "authenticated": true,
            "audiences": ["vault"],
            "user": {
                "username": "system:serviceaccount:team:puller",
                "uid": "sa-1",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"],
                "extra": {
                    "authentication.kubernetes.io/credential-id": [jti],
                    "authentication.kubernetes.io/node-name": ["n1"],
                    "authentication.kubernetes.io/node-uid": ["node-1"],
                    "authentication.kubernetes.io/pod-name": ["web"],
                    "authentication.kubernetes.io/pod-uid": ["pod-1"],
                },
            },
        })
    );
    let issuer = cluster.server.issuer().to_owned();
    let refused = cluster.review(&token, &[]).await;
    let words =
        format!(r#"token audiences ["vault"] is invalid for the target audiences ["{issuer}"]"#);
    assert_eq!(refused, json!({"authenticated": false, "user": {}, "error": words}));
    let garbage = cluster.review("garbage", &["vault"]).await;
    assert_eq!(garbage["error"], "invalid bearer token");
    cluster.end().await;
}

#[tokio::test]
async fn a_token_expires() {
    let mut cluster = Cluster::start().await;
    let token = cluster.token("vault").await;
    // Clocks may differ by a minute.
    cluster.clock.advance(Duration::from_mins(61));
    assert_eq!(cluster.review(&token, &["vault"]).await["authenticated"], true);
    cluster.clock.advance(Duration::from_secs(1));
    let status = cluster.review(&token, &["vault"]).await;
    assert_eq!(status["error"], "service account token has expired");
    cluster.clock.set_back(Duration::from_secs(3661 + 61));
    let status = cluster.review(&token, &["vault"]).await;
    assert_eq!(status["error"], "service account token is not valid yet");
    cluster.end().await;
}

#[tokio::test]
async fn a_token_ends_with_its_pod_and_its_account() {
    let mut cluster = Cluster::start().await;
    let token = cluster.token("vault").await;
    let pod = get(&cluster.admin, WEB).await.unwrap();
    delete(&cluster.admin, WEB).await;
    let error = |status: Value| status["error"].as_str().unwrap().to_owned();
    let status = cluster.review(&token, &["vault"]).await;
    assert_eq!(error(status), "service account token has been invalidated");
    let again = post(&cluster.admin, "/api/v1/namespaces/team/pods", &pod).await.unwrap();
    let uid = again["metadata"]["uid"].as_str().unwrap();
    assert_ne!(uid, "pod-1");
    let status = cluster.review(&token, &["vault"]).await;
    let words = format!("pod UID ({uid}) does not match service account pod ref claim (pod-1)");
    assert_eq!(error(status), words);
    delete(&cluster.admin, "/api/v1/namespaces/team/serviceaccounts/puller").await;
    let status = cluster.review(&token, &["vault"]).await;
    assert_eq!(error(status), "serviceaccounts \"puller\" not found");
    cluster.end().await;
}

#[tokio::test]
async fn a_request_that_cannot_be_met_is_refused_in_upstreams_words() {
    let cluster = Cluster::start().await;
    let with = |pointer: &str, value: Value| {
        let mut request = token_request(&["vault"]);
        request["metadata"] = json!({});
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        request.pointer_mut(parent).unwrap()[field] = value;
        request
    };
    let invalid = "422 Invalid: TokenRequest.authentication.k8s.io";
    let cases = [
        (
            with("/spec/expirationSeconds", json!(599)),
            format!("{invalid} \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"),
        ),
        (
            with("/spec/expirationSeconds", json!((1_u64 << 32) + 1)),
            format!("{invalid} \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"),
        ),
        (
            with("/metadata/name", json!("another")),
            format!("{invalid} \"puller\" is invalid: metadata.name: Invalid value: \"another\": must match the service account name if specified"),
        ),
        (
            with("/metadata/uid", json!("old")),
            "409 Conflict: Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"puller\": the UID in the token request (old) does not match the UID of the service account (sa-1)".to_owned(),
        ),
        (
            with("/spec/boundObjectRef/uid", json!("old")),
            "409 Conflict: Operation cannot be fulfilled on Pod \"web\": the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated".to_owned(),
        ),
        (
            with("/spec/boundObjectRef/name", json!("gone")),
            "404 NotFound: pods \"gone\" not found".to_owned(),
        ),
        (
            with("/spec/boundObjectRef/kind", json!("Secret")),
            "400 BadRequest: cannot bind token to object of type /v1, Kind=Secret".to_owned(),
        ),
    ];
    for (request, words) in cases {
        assert_eq!(post(&cluster.admin, &token_path("puller"), &request).await.unwrap_err(), words);
    }
    let other =
        post(&cluster.admin, &token_path("default"), &token_request(&[])).await.unwrap_err();
    assert_eq!(
        other,
        "400 BadRequest: cannot bind token for serviceaccount \"default\" to pod running with different serviceaccount name."
    );
    let nobody =
        post(&cluster.admin, &token_path("nobody"), &token_request(&[])).await.unwrap_err();
    assert_eq!(nobody, "404 NotFound: serviceaccounts \"nobody\" not found");
    cluster.end().await;
}

#[tokio::test]
async fn a_token_for_the_server_opens_what_roles_allow_its_account() {
    let mut cluster = Cluster::start().await;
    let issuer = cluster.server.issuer().to_owned();
    let token = cluster.token(&issuer).await;
    let puller = cluster.bearer(&token).await;
    assert_eq!(get(&puller, WEB).await.unwrap()["metadata"]["uid"], "pod-1");
    let refused = get(&puller, "/api/v1/nodes").await.unwrap_err();
    assert_eq!(
        refused,
        "403 Forbidden: nodes is forbidden: User \"system:serviceaccount:team:puller\" cannot list resource \
         \"nodes\" in API group \"\" at the cluster scope"
    );
    let elsewhere = cluster.token("vault").await;
    let elsewhere = cluster.bearer(&elsewhere).await;
    assert_eq!(get(&elsewhere, WEB).await.unwrap_err(), "401 Unauthorized: Unauthorized");
    cluster.end().await;
}

#[tokio::test]
async fn what_is_created_gets_the_defaults_that_the_rule_looks_at() {
    let mut cluster = Cluster::start().await;
    let volumes = json!([{"name": "disk", "azureDisk": {"diskName": "d", "diskURI": "u"}}]);
    let pod = json!({
        "metadata": {"name": "disks"},
        "spec": {"nodeName": "n1", "serviceAccountName": "puller", "containers": [], "volumes": volumes},
    });
    let made = post(&cluster.admin, "/api/v1/namespaces/team/pods", &pod).await.unwrap();
    let n1 = cluster.node("n1").await;
    let mut request = token_request(&["registry.example"]);
    request["spec"]["boundObjectRef"]["name"] = json!("disks");
    request["spec"]["boundObjectRef"]["uid"] = made["metadata"]["uid"].clone();
    let refused = post(&n1, &token_path("puller"), &request).await.unwrap_err();
    assert!(refused.contains("kind(Shared) is not supported in csi migration"), "{refused}");
    cluster.end().await;
}
