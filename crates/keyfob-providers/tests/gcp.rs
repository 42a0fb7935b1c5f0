//! `auth-provider-gcp` against a metadata service and a Google of our own.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

#[path = "gcp/credentials_file.rs"]
mod credentials_file;
#[path = "gcp/node.rs"]
mod node;
#[path = "gcp/workload_identity.rs"]
mod workload_identity;

use clap::Parser as _;
use keyfob_plugin::{CacheKeyType, testing::Asking};
use keyfob_providers::gcp::Args;
use keyfob_testkit::{LeakCheck, Response};
use node::*;
use serde_json::json;

#[tokio::test]
async fn the_node_s_token_is_one_request_away() {
    let node = Node::usual();
    let answer = node.answer(Asking::about(IMAGE)).await.unwrap();

    assert_eq!(keys(&answer), [&GOOGLE[..], &["us-central1-docker.pkg.dev"]].concat());
    for (_, auth) in &answer.auth {
        assert_eq!(
            (auth.username.as_str(), auth.password.expose().as_str()),
            ("_token", NODE_TOKEN)
        );
    }
    assert_eq!(answer.cache_key_type, CacheKeyType::Image);
    assert_eq!(duration(&answer).as_deref(), Some("54m59s"), "its life less five minutes");
    // The peer asks for the account's e-mail address too, and has no answer when that fails.
    assert_eq!(node.asked(), [format!("GET 127.0.0.1{TOKEN_PATH}")]);
    let request = &node.internet.requests()[0];
    assert_eq!(request.header("Metadata-Flavor"), Some("Google"));
    assert_eq!(request.header("User-Agent"), Some("GKE auth-provider-gcp image pull"));
}

#[tokio::test]
async fn a_host_that_is_not_google_s_is_offered_the_token_only_when_named() {
    for image in ["registry.k8s.io/pause", "noslash"] {
        let answer = Node::usual().answer(Asking::about(image)).await.unwrap();
        assert_eq!(keys(&answer), GOOGLE, "{image}");
    }
    let node = Node::usual().args(&["--registry", "registry.k8s.io", "--registry", "r.test:5000"]);
    for (image, key) in
        [("registry.k8s.io/pause", "registry.k8s.io"), ("r.test:5000/a", "r.test:5000")]
    {
        let answer = node.answer(Asking::about(image)).await.unwrap();
        assert_eq!(keys(&answer).last(), Some(&key));
    }
}

#[tokio::test]
async fn a_token_is_not_kept_beyond_its_life() {
    for (life, kept) in [("3600", "55m0s"), ("300", "0s"), ("10", "0s")] {
        let body = format!(r#"{{"access_token":"{NODE_TOKEN}","expires_in":{life}}}"#);
        let node = Node::new(move |_| Response::json(body.clone()));
        let answer = node.answer(Asking::about(IMAGE)).await.unwrap();
        assert_eq!(duration(&answer).as_deref(), Some(kept), "{life}");
    }
    let unsaid = Node::new(|_| Response::json(format!(r#"{{"access_token":"{NODE_TOKEN}"}}"#)));
    let answer = unsaid.answer(Asking::about(IMAGE)).await.unwrap();
    assert_eq!(duration(&answer).as_deref(), Some("0s"));
    for (body, reason) in [
        (r#"{"access_token":"x","expires_in":0}"#, "ended at"),
        (r#"{"access_token":"x","expires_in":-5}"#, "ended at"),
        (r#"{"access_token":"","expires_in":3600}"#, "the token in the answer is empty"),
        ("{}", "a field is missing"),
    ] {
        let failure = Node::new(move |_| Response::json(body)).failure(Asking::about(IMAGE)).await;
        assert!(failure.contains(reason), "{body}: {failure}");
    }
}

#[tokio::test]
async fn the_environment_says_for_what_and_how_long_an_answer_is_kept() {
    let kept = async |name: &'static str, value: &'static str| {
        let answer = Node::usual().var(name, value).answer(Asking::about(IMAGE)).await?;
        Ok::<_, String>((answer.cache_key_type, duration(&answer).unwrap()))
    };
    let by = "KUBE_SIDECAR_CACHE_TYPE";
    for (word, expected) in [
        ("", CacheKeyType::Image),
        ("image", CacheKeyType::Image),
        ("registry", CacheKeyType::Registry),
        ("global", CacheKeyType::Global),
    ] {
        assert_eq!(kept(by, word).await.unwrap().0, expected, "{word}");
    }
    assert!(kept(by, "Registry").await.unwrap_err().contains("must be image, registry or global"));

    let long = "KUBE_SIDECAR_CACHE_DURATION";
    for (text, expected) in [("", "54m59s"), ("0", "0s"), ("30m", "30m0s"), ("1h", "59m59s")] {
        assert_eq!(kept(long, text).await.unwrap().1, expected, "{text}");
    }
    for text in ["x", "-1h"] {
        assert!(kept(long, text).await.unwrap_err().contains("must be a duration"), "{text}");
    }
}

#[tokio::test]
async fn a_metadata_service_that_refuses_is_a_failure_with_the_reason() {
    let failure = Node::new(|_| Response::status(404)).failure(Asking::about(IMAGE)).await;

    assert!(failure.contains("the node's identity: asking the metadata service: GET"), "{failure}");
    assert!(failure.ends_with("/default/token: responded with status code 404\n"), "{failure}");
}

#[tokio::test]
async fn flags_are_the_peer_s() {
    let parses = |args: &[&str]| {
        Args::try_parse_from(["auth-provider-gcp", "get-credentials"].iter().chain(args)).is_ok()
    };
    for flow in ["gcr", "dockercfg", "dockercfg-url"] {
        assert!(
            parses(&["--authFlow", flow]) && parses(&[&format!("--auth-flow={flow}")]),
            "{flow}"
        );
    }
    for flow in ["", "Gcrauthflow", "GCR"] {
        assert!(!parses(&["--authFlow", flow]), "{flow}");
    }
    assert!(parses(&["-v", "3", "--v=3", "--logtostderr", "--alsologtostderr=false"]));
    assert!(parses(&["--log_file=/x", "--vmodule", "a=1"]));
    for url in ["http://sts.test/v1/token", "sts.test", "https://a:b@sts.test/"] {
        assert!(!parses(&["--sts-url", url]), "{url}");
    }
    assert!(!parses(&["--impersonate", "a@b.iam.gserviceaccount.com"]), "without a pod's identity");
    for flow in ["gcr", "dockercfg-url"] {
        let node = Node::usual().args(&["--authFlow", flow, "--identity-provider", CLUSTER]);
        assert!(node.failure(pod()).await.contains("project-id required"), "{flow}");
    }
}

#[tokio::test]
async fn a_docker_configuration_may_stand_in_the_metadata() {
    let node = Node::new(|request| match request.path() {
        "/computeMetadata/v1/instance/attributes/google-dockercfg" => Response::text(DOCKER_CONFIG),
        _ => Response::status(404),
    });
    // An identity provider has no part in this flow, and does no harm.
    let node = node.with_workload_identity().args(&["--authFlow", "dockercfg"]);
    let answer = node.answer(pod()).await.unwrap();

    assert_eq!(keys(&answer), ["https://hello.kubernetes.io"]);
    assert_eq!((answer.auth[0].1.username.as_str(), password(&answer)), ("foo", "bar"));
    assert_eq!((answer.cache_key_type, duration(&answer)), (CacheKeyType::Image, None));
}

#[tokio::test]
async fn what_is_no_docker_configuration_is_a_failure() {
    for auth in ["cGFudHM=", "Zm9vOmJhcg== ", "pants"] {
        let config = json!({ "r.test": { "auth": auth } }).to_string();
        let node = Node::new(move |_| Response::text(config.clone()));
        let failure =
            node.args(&["--authFlow", "dockercfg"]).failure(Asking::about("r.test/a")).await;
        assert!(failure.contains(r#"auth: expected "USER:PASSWORD" in base64"#), "{failure}");
    }
    for config in ["{}", r#"{"r.test":{"email":false}}"#, r#"{"r.test":{"username":"u"}}"#] {
        let node = Node::new(move |_| Response::text(config));
        let failure =
            node.args(&["--authFlow", "dockercfg"]).failure(Asking::about("r.test/a")).await;
        assert!(failure.contains("there is no login in it"), "{failure}");
    }
}

#[tokio::test]
async fn a_docker_configuration_elsewhere_is_fetched_without_headers() {
    let node = Node::new(|request| match (request.host.as_str(), request.path()) {
        ("127.0.0.1", "/computeMetadata/v1/instance/attributes/google-dockercfg-url") => {
            Response::text("http://foo.bar.com/my/value\n")
        }
        ("foo.bar.com", "/my/value") => Response::text(DOCKER_CONFIG),
        _ => Response::status(404),
    });
    let answer = node.args(&["--authFlow", "dockercfg-url"]);
    let (node, answer) =
        (&answer, answer.answer(Asking::about("hello.kubernetes.io/a")).await.unwrap());

    assert_eq!((answer.auth[0].1.username.as_str(), password(&answer)), ("foo", "bar"));
    let fetched = &node.internet.requests()[1];
    assert_eq!(fetched.host, "foo.bar.com");
    assert_eq!((fetched.header("Metadata-Flavor"), fetched.header("User-Agent")), (None, None));
}

#[tokio::test]
async fn the_address_of_a_docker_configuration_is_an_http_one() {
    for url in ["file:///etc/shadow", "httpx://foo.bar.com", ""] {
        let node = Node::new(move |_| Response::text(url)).args(&["--authFlow", "dockercfg-url"]);
        let failure = node.failure(Asking::about("r.test/a")).await;
        assert!(failure.contains("must hold an http:// or https:// address"), "{url}: {failure}");
        assert_eq!(node.asked().len(), 1);
    }
}

#[tokio::test]
async fn no_secret_gets_into_messages() {
    let leaks = LeakCheck::new(SECRETS);
    // `Node::answer` looks at every failure and every answer above as well.
    let node = Node::new(|_| {
        let body = json!({ "error": format!("no {POD_TOKEN}"), "access_token": FEDERATED });
        Response::json(body.to_string()).with_status(403)
    });
    let node = node.with_workload_identity();
    assert!(node.failure(pod()).await.contains("status code 403: no [redacted]"));
    let args = Args::try_parse_from(["x", "--identity-provider", CLUSTER]).unwrap();
    leaks.debug("the arguments", &args);
}
