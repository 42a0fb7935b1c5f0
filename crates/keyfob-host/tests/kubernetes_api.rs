//! Service accounts and tokens from an API server, as it is and as it fails, over real sockets.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "support/wanted.rs"]
mod wanted;

use std::{
    net::{SocketAddr, TcpListener},
    time::{Duration, SystemTime},
};

use keyfob_host::{
    IdentityError, KubernetesApi, KubernetesError, PodReference, ServiceAccount,
    ServiceAccounts as _, TokenRequest,
};
use keyfob_net::api_server::ApiError;
use keyfob_testkit::{Internet, LeakCheck, LogCapture, Request, Response};
use kube::{Client, Config};
use serde_json::{Value, json};
use wanted::wanted;

const TOKEN: &str = "hunter2-token";
const ACCOUNT: &str = "/api/v1/namespaces/shop/serviceaccounts/cart";

fn api(url: &str) -> KubernetesApi {
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    KubernetesApi::new(Client::try_from(config).unwrap(), url)
}

/// The API server of a cluster with one account and one pod.
fn cluster(request: &Request) -> Response {
    let answer = match (request.method.as_str(), request.path()) {
        ("GET", ACCOUNT) => account(),
        ("GET", "/api/v1/namespaces/shop/pods/cart-1") => json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "cart-1", "namespace": "shop", "uid": "u-pod"},
            "spec": {"nodeName": "n1", "serviceAccountName": "cart", "containers": []},
        }),
        ("POST", path) if path == format!("{ACCOUNT}/token") => token(&request.body),
        _ => return Response::status(404),
    };
    Response::json(answer.to_string())
}

fn account() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {
            "name": "cart", "namespace": "shop", "uid": "u-sa", "annotations": {"example.com/role": "puller"},
        },
    })
}

/// Echoes the request, as the API server does.
fn token(body: &str) -> Value {
    let mut answer: Value = serde_json::from_str(body).unwrap();
    answer["spec"]["expirationSeconds"] = json!(3607);
    answer["status"] = json!({"token": TOKEN, "expirationTimestamp": "2030-03-17T18:46:47Z"});
    answer
}

fn sent(cluster: &Internet) -> Value {
    serde_json::from_str(&cluster.requests().last().unwrap().body).unwrap()
}

/// The kind of an error, and its words, in which no secret stands.
fn told(error: &IdentityError) -> (&'static str, String) {
    LeakCheck::new([TOKEN]).error(error);
    let kind = match error {
        IdentityError::NotFound(_) => "not found",
        IdentityError::Forbidden(_) => "forbidden",
        IdentityError::Replaced(_) => "replaced",
        IdentityError::Unavailable(_) => "unavailable",
        _ => "another",
    };
    (kind, error.to_string())
}

#[tokio::test]
async fn an_account_is_its_uid_and_its_annotations() {
    let cluster = Internet::start(cluster);

    let account = api(&cluster.url()).get("shop", "cart").await.unwrap();

    let annotations = [("example.com/role".to_owned(), "puller".to_owned())].into();
    assert_eq!(account, ServiceAccount { uid: "u-sa".into(), annotations });
}

#[tokio::test]
async fn a_token_is_bound_to_the_pod_and_asked_for_under_the_accounts_uid() {
    let logs = LogCapture::start();
    let cluster = Internet::start(cluster);

    let token = api(&cluster.url()).token(&wanted()).await.unwrap();

    assert_eq!(
        sent(&cluster),
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {"uid": "u-sa"},
            "spec": {
                "audiences": ["registry.example"],
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "cart-1", "uid": "u-pod"},
            },
        })
    );
    assert_eq!(token.token.expose(), TOKEN);
    assert_eq!(token.expires, SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_003_607));
    assert_eq!(token.lifetime, Some(Duration::from_secs(3607)));
    LeakCheck::new([TOKEN]).text("the log", &logs.text()).debug("a token", &token);
}

#[tokio::test]
async fn only_what_is_wanted_is_asked_for() {
    let cluster = Internet::start(cluster);
    let wanted = TokenRequest {
        pod: None,
        service_account_uid: String::new(),
        expiration_seconds: Some(600),
        ..wanted()
    };

    api(&cluster.url()).token(&wanted).await.unwrap();

    assert_eq!(
        sent(&cluster),
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {},
            "spec": {"audiences": ["registry.example"], "expirationSeconds": 600},
        })
    );
}

#[tokio::test]
async fn a_pod_whose_uid_nobody_gave_is_looked_up() {
    let cluster = Internet::start(cluster);
    let api = api(&cluster.url());
    let pod = Some(PodReference { name: "cart-1".into(), uid: String::new() });

    api.token(&TokenRequest { pod, ..wanted() }).await.unwrap();

    assert_eq!(sent(&cluster)["spec"]["boundObjectRef"]["uid"], "u-pod");
    let record = api.pod("shop", "cart-1").await.unwrap();
    assert_eq!((record.service_account.as_str(), record.node.as_str()), ("cart", "n1"));
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_not_asked_about() {
    let cluster = Internet::start(cluster);
    let api = api(&cluster.url());

    for name in ["", "..", "cart/token", "cart?x", "%2e%2e", "a b"] {
        let error = api.get("shop", name).await.unwrap_err();
        assert_eq!(told(&error).0, "not found", "{name}");
        assert!(api.get(name, "cart").await.is_err(), "{name}");
    }
    assert_eq!(cluster.requests().len(), 0);
}

/// A `Status`, as the API server writes it.
fn status(code: u16, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code,
    });
    Response::json(status.to_string()).with_status(code)
}

#[tokio::test]
async fn a_refusal_is_told_in_the_servers_words() {
    let forbidden = r#"serviceaccounts "cart" is forbidden: User "eve" cannot get it"#;
    let [long, cut] = [3_000, 2_000].map(|length| "x".repeat(length));
    let rows = [
        (status(404, "there is none"), "not found", "there is none"),
        (status(403, forbidden), "forbidden", forbidden),
        (status(401, "Unauthorized"), "forbidden", "SERVER does not know who asks: Unauthorized"),
        (status(409, "the UID does not match"), "replaced", "the UID does not match"),
        (status(422, "no"), "forbidden", "no"),
        (status(422, &long), "forbidden", &cut),
        (status(503, "wait"), "unavailable", "SERVER: 503 Service Unavailable: wait"),
        // A proxy's page, say. It is not quoted.
        (Response::text(TOKEN).with_status(403), "forbidden", "SERVER: 403 Forbidden"),
        (Response::text(TOKEN).with_status(502), "unavailable", "SERVER: 502 Bad Gateway"),
    ];
    let logs = LogCapture::start();
    for (response, kind, words) in rows {
        let cluster = Internet::start(move |_| response.clone());
        let error = api(&cluster.url()).get("shop", "cart").await.unwrap_err();
        assert_eq!(told(&error), (kind, words.replace("SERVER", &cluster.url())));
    }
    LeakCheck::new([TOKEN]).text("the log", &logs.text());
}

#[tokio::test]
async fn an_answer_that_is_none_is_not_quoted() {
    let expiry = "2030-03-17T18:46:47Z";
    let answer = |value: Value| Response::json(value.to_string());
    let other = "its answer is not what an API server's would be";
    let rows = [
        (Response::text(TOKEN), other),
        (answer(json!({"status": {"token": [TOKEN]}})), other),
        (answer(json!({"kind": "Pod", "metadata": {"name": TOKEN}})), other),
        (answer(json!({})), "its answer has no token"),
        (
            answer(json!({"status": {"token": "", "expirationTimestamp": expiry}})),
            "its answer has no token",
        ),
        (
            answer(json!({"status": {"token": TOKEN}})),
            "its answer does not say when the token ends",
        ),
        (Response::text("x".repeat(5 << 20)), "its answer broke off, or does not end"),
    ];
    let logs = LogCapture::start();
    for (response, why) in rows {
        let cluster = Internet::start(move |_| response.clone());
        let error = api(&cluster.url()).token(&wanted()).await.unwrap_err();
        assert_eq!(told(&error), ("unavailable", format!("{}: {why}", cluster.url())));
    }
    LeakCheck::new([TOKEN]).text("the log", &logs.text());
}

#[tokio::test]
async fn an_account_without_a_uid_is_none() {
    let cluster = Internet::start(|_| Response::json("{}"));
    let error = api(&cluster.url()).get("shop", "cart").await.unwrap_err();
    assert!(error.to_string().ends_with(": its answer has no uid"), "{error}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_not_waited_for() {
    let cluster = Internet::start(|_| Response::never());
    let api = api(&cluster.url()).timeout(Duration::from_millis(20));

    let (kind, words) = told(&api.get("shop", "cart").await.unwrap_err());

    assert_eq!(kind, "unavailable");
    assert_eq!(words, format!("{}: it gave no answer within 20ms", cluster.url()));
}

#[tokio::test]
async fn an_error_can_be_asked_for_what_it_was_made_of() {
    let gone = api(&format!("http://{}", free_address()));
    let IdentityError::Unavailable(error) = gone.get("shop", "cart").await.unwrap_err() else {
        panic!("nobody answers")
    };
    let Some(KubernetesError::NoResponse { error, .. }) = error.downcast_ref() else {
        panic!("{error:?}")
    };
    assert!(matches!(error, ApiError::NotAnswered(kube::Error::Service(_))), "{error:?}");

    let refusing = Internet::start(|_| status(429, "later"));
    let IdentityError::Unavailable(error) =
        api(&refusing.url()).get("shop", "cart").await.unwrap_err()
    else {
        panic!("it is busy")
    };
    let Some(KubernetesError::Refused { status, .. }) = error.downcast_ref() else {
        panic!("{error:?}")
    };
    assert_eq!(status.as_u16(), 429);
}

#[tokio::test]
async fn a_server_that_comes_back_is_asked_again() {
    let address = free_address();
    let api = api(&format!("http://{address}"));

    let (kind, words) = told(&api.get("shop", "cart").await.unwrap_err());
    assert_eq!(kind, "unavailable");
    assert!(words.contains(&format!("http://{address}: Connection refused")), "{words}");

    let _cluster = Internet::start_at(address, cluster);
    assert_eq!(api.get("shop", "cart").await.unwrap().uid, "u-sa");
    assert_eq!(api.token(&wanted()).await.unwrap().token.expose(), TOKEN);
}

/// One that nobody listens at.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_told_nothing() {
    let cluster = Internet::start(cluster);
    let api = api(&format!("https://localhost:{}", cluster.address().port()));

    let (kind, words) = told(&api.token(&wanted()).await.unwrap_err());

    assert_eq!(kind, "unavailable");
    assert!(words.contains("invalid peer certificate"), "{words}");
    assert_eq!(cluster.requests().len(), 0);
}
