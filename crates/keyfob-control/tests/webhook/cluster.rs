//! What a live cluster is asked, and what is made of its answers.

use std::{
    convert::Infallible,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Method, Request, Response},
};
use http_body_util::BodyExt as _;
use keyfob_control::{
    facts::{Cluster, ClusterError, FactSource as _, judge, judge_into},
    objects::{Kind, Objects},
    rbac::{Attributes, authorize},
    rule::{Asked, BoundObject, Facts, Policy, Question},
};
use keyfob_net::api_server::ApiError;
use kube::Client;
use serde_json::{Value, json};
use tower::service_fn;

/// Every request to an API server, and how it answers.
#[derive(Clone, Default)]
struct ApiServer(Arc<Mutex<Vec<(Method, String, Value)>>>);

impl ApiServer {
    fn answering(&self, answer: fn(&str) -> (u16, Value)) -> Cluster {
        let requests = Arc::clone(&self.0);
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let requests = Arc::clone(&requests);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let path = parts.uri.path().to_owned();
                let (code, answer) = answer(&path);
                requests.lock().unwrap().push((parts.method, path, body));
                let answer = Response::builder().status(code).body(Body::from(answer.to_string()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        Cluster::new(Client::new(service, "default"))
    }

    fn requests(&self) -> Vec<(Method, String)> {
        let requests = self.0.lock().unwrap();
        requests.iter().map(|(method, path, _)| (method.clone(), path.clone())).collect()
    }
}

/// A pod with a claim, whose volume is of a driver that asks for tokens for `vault`.
fn cluster(path: &str) -> (u16, Value) {
    let last = path.rsplit('/').next().unwrap_or_default();
    let object = match path {
        "/api/v1/namespaces/team/pods/app" => {
            let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
            let spec = json!({"nodeName": "n", "containers": [], "volumes": [claim]});
            json!({"metadata": {"name": last, "uid": "u1"}, "spec": spec})
        }
        "/api/v1/namespaces/team/persistentvolumeclaims/data" => {
            json!({"metadata": {"name": last}, "spec": {"volumeName": "pv-1"}})
        }
        "/api/v1/persistentvolumes/pv-1" => {
            let csi = json!({"driver": "disk.example", "volumeHandle": "1"});
            json!({"metadata": {"name": last}, "spec": {"csi": csi}})
        }
        "/apis/storage.k8s.io/v1/csidrivers/disk.example" => {
            let requests = json!([{"audience": "vault"}]);
            json!({"metadata": {"name": last}, "spec": {"tokenRequests": requests}})
        }
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            json!({"spec": {}, "status": {"allowed": false, "evaluationError": "role gone"}})
        }
        "/.well-known/openid-configuration" => json!({"issuer": "https://api.example", "keys": 1}),
        "/version" => json!({
            "major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        }),
        _ => return (404, failure(404, "NotFound", &format!("{last} not found"))),
    };
    (200, object)
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
           "code": code, "reason": reason, "message": message})
}

fn asked(audience: &str) -> Asked {
    Asked {
        namespace: "team".to_owned(),
        service_account: "builder".to_owned(),
        audiences: vec![audience.to_owned()],
        bound: Some(BoundObject::pod("app", "u1")),
        ..Asked::by_node("n")
    }
}

#[tokio::test]
async fn only_what_the_rule_needs_is_asked_for() {
    let (enough, all) = (ApiServer::default(), ApiServer::default());

    let allowed = judge(&asked("vault"), &Policy::default(), &enough.answering(cluster)).await;
    let refused = judge(&asked("other"), &Policy::default(), &all.answering(cluster)).await;

    let gets = [
        "/api/v1/namespaces/team/pods/app",
        "/api/v1/namespaces/team/persistentvolumeclaims/data",
        "/api/v1/persistentvolumes/pv-1",
        "/apis/storage.k8s.io/v1/csidrivers/disk.example",
    ];
    let mut expected = gets.map(|path| (Method::GET, path.to_owned())).to_vec();
    assert_eq!((allowed.name(), enough.requests()), ("csi-driver", expected.clone()));
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    expected.push((Method::POST, reviews.to_owned()));
    assert_eq!((refused.name(), all.requests()), ("authorizer-error", expected));
    let review = all.0.lock().unwrap().last().unwrap().2.clone();
    assert_eq!(
        review["spec"],
        json!({
            "user": "system:node:n",
            "groups": ["system:nodes", "system:authenticated"],
            "resourceAttributes": {
                "verb": "request-serviceaccounts-token-audience", "group": "", "version": "v1",
                "resource": "other", "subresource": "", "name": "builder", "namespace": "team",
            },
        })
    );
}

#[tokio::test]
async fn the_role_of_the_deployment_allows_what_is_asked_and_no_more() {
    let server = ApiServer::default();
    let live = server.answering(cluster);
    judge(&asked("other"), &Policy::default(), &live).await;
    live.answers().await.unwrap();
    assert_eq!(live.issuer().await.unwrap(), "https://api.example");

    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/base/rbac.yaml"));
    let objects = Objects::read_files(&[file]).unwrap();
    let requests: Vec<Attributes> = server.requests().iter().map(attributes).collect();
    for request in &requests {
        assert!(authorize(&objects, request).allowed, "{request:?}");
    }
    // Every word of the role is used.
    let role = objects.get(Kind::ClusterRole, "", "keyfob-audience").unwrap();
    for rule in role["rules"].as_array().unwrap() {
        let texts = |field: &str| -> Vec<String> {
            serde_json::from_value(rule[field].clone()).unwrap_or_default()
        };
        assert_eq!(texts("verbs").len(), 1);
        for resource in texts("resources") {
            let used = |each: &&Attributes| {
                each.resource == resource && texts("verbs") == [each.verb.clone()]
            };
            assert!(requests.iter().any(|each| used(&each)), "{resource}");
        }
        for path in texts("nonResourceURLs") {
            let used = requests.iter().any(|each| each.path.as_ref() == Some(&path));
            assert!(used, "{path}");
        }
    }
}

/// A request as an authorizer sees it.
fn attributes((method, path): &(Method, String)) -> Attributes {
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let (api_group, rest) = match words.as_slice() {
        ["apis", group, "v1", rest @ ..] => (*group, rest),
        ["api", "v1", rest @ ..] | rest => ("", rest),
    };
    let (namespace, resource, name) = match rest {
        ["namespaces", namespace, resource, name] => (*namespace, *resource, *name),
        [resource, name] => ("", *resource, *name),
        [resource] => ("", *resource, ""),
        other => panic!("what is {other:?}?"),
    };
    Attributes {
        user: "system:serviceaccount:keyfob-system:keyfob-audience".to_owned(),
        verb: if method == Method::POST { "create" } else { "get" }.to_owned(),
        api_group: api_group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        path: (!path.starts_with("/api")).then(|| path.clone()),
        ..Attributes::default()
    }
}

#[tokio::test]
async fn what_an_api_server_refuses_is_unanswered_in_its_words() {
    let server = ApiServer::default();
    let live = server.answering(|_| (403, failure(403, "Forbidden", "pods \"app\" is forbidden")));
    let mut facts = Facts::default();

    let verdict = judge_into(&mut facts, &asked("vault"), &Policy::default(), &live).await;

    assert_eq!(verdict.name(), "pod-unknown");
    assert_eq!(facts.unanswered, ["pods \"app\" is forbidden"]);
}

#[tokio::test]
async fn a_pod_that_is_not_there_is_an_answer() {
    let server = ApiServer::default();
    let live = server.answering(cluster);
    let mut facts = Facts::default();
    let mut gone = asked("vault");
    gone.bound = Some(BoundObject::pod("gone", "u1"));

    let verdict = judge_into(&mut facts, &gone, &Policy::default(), &live).await;

    assert_eq!((verdict.name(), facts.unanswered.len()), ("pod-not-found", 0));
}

#[tokio::test]
async fn a_name_that_is_a_path_is_asked_of_nobody() {
    let server = ApiServer::default();
    let live = server.answering(cluster);
    for name in ["../secrets/x", "app/log", "app?watch=true", "%2e%2e", "..", ""] {
        let mut facts = Facts::default();
        live.learn(Question::Pod("team".to_owned(), name.to_owned()), &mut facts).await;
        live.learn(Question::Claim(name.to_owned(), "app".to_owned()), &mut facts).await;
        live.learn(Question::Volume(name.to_owned()), &mut facts).await;
        let answered = (facts.pods.len(), facts.claims.len(), facts.volumes.len());
        assert_eq!((answered, facts.unanswered.len()), ((1, 1, 1), 0));
    }
    assert_eq!(server.requests(), []);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_down_or_slow_is_unanswered() {
    let down = service_fn(|_: Request<kube::client::Body>| async {
        Err::<Response<Body>, _>(io::Error::from(io::ErrorKind::ConnectionRefused))
    });
    let slow = service_fn(|_: Request<kube::client::Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let down = Cluster::new(Client::new(down, "default"));
    let slow = Cluster::new(Client::new(slow, "default"));

    let refused = down.answers().await.unwrap_err();
    assert_eq!(refused.to_string(), "the API server cannot be reached: connection refused");
    let ClusterError::Unreachable { error: ApiError::NotAnswered(error), .. } = refused else {
        panic!("{refused:?}")
    };
    assert!(matches!(error, kube::Error::Service(_)), "{error}");
    let late = slow.answers().await.unwrap_err();
    assert!(
        matches!(late, ClusterError::Timeout(after) if after == Duration::from_secs(10)),
        "{late}"
    );
    let late = "the API server did not answer within 10s".to_owned();
    let mut facts = Facts::default();
    let verdict = judge_into(&mut facts, &asked("vault"), &Policy::default(), &slow).await;
    assert_eq!((verdict.allowed(), facts.unanswered), (false, vec![late]));
}
