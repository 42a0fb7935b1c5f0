use std::{convert::Infallible, future};

use futures_util::{future::join_all, stream};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame};
use keyfob_api::Chain;
use keyfob_testkit::{LeakCheck, LogCapture};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{advance, sleep};

use super::*;

const SECRET: &str = "hunter2-d41d8cd9";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// An API server inside this process: what it was asked for, and what it answers.
#[derive(Clone)]
struct ApiServer(Arc<Mutex<State>>);

struct State {
    asked: Vec<String>,
    /// Nothing: it does not answer.
    answer: Arc<dyn Fn() -> Option<Answer> + Send + Sync>,
}

impl ApiServer {
    fn new(answer: impl Fn() -> Option<Answer> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Mutex::new(State { asked: Vec::new(), answer: Arc::new(answer) })))
    }

    fn listing(pods: &Value) -> Self {
        let server = Self::new(|| None);
        server.list(pods);
        server
    }

    fn list(&self, pods: &Value) {
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods});
        self.answer(move || Some(answer(200, list.to_string())));
    }

    fn answer(&self, answer: impl Fn() -> Option<Answer> + Send + Sync + 'static) {
        self.0.lock().unwrap().answer = Arc::new(answer);
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().asked.len()
    }

    fn pods(&self) -> KubernetesPods {
        let state = self.0.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut state = state.lock().unwrap();
            state.asked.push(request.uri().to_string());
            let answer = (state.answer)();
            async move {
                match answer {
                    Some(answer) => Ok::<_, Infallible>(answer),
                    None => future::pending().await,
                }
            }
        });
        let secrets = SecretSet::default();
        KubernetesPods::new(Client::new(service, "default"), "node-1", secrets)
    }
}

fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).boxed();
    Response::builder().status(status).body(body).unwrap()
}

fn pod(uid: &str, name: &str, account: Option<&str>) -> Value {
    let mut pod = json!({
        "metadata": {"uid": uid, "name": name, "namespace": "team", "labels": {"a": "b"}},
        "spec": {"nodeName": "node-1", "containers": [{"env": [{"name": "PASSWORD", "value": SECRET}]}]},
    });
    if let Some(account) = account {
        pod["spec"]["serviceAccountName"] = json!(account);
    }
    pod
}

async fn name_of(pods: &KubernetesPods, uid: &str) -> Option<String> {
    pods.pod(uid).await.unwrap().map(|pod| pod.name.clone())
}

/// What an error says with all its sources.
async fn error_of(pods: &KubernetesPods) -> String {
    Chain(&pods.pod("uid").await.unwrap_err()).to_string()
}

#[tokio::test]
async fn pods_of_the_node_are_known_by_their_uids() {
    let server =
        ApiServer::listing(&json!([pod("u1", "web", Some("cart")), pod("u2", "job", None)]));
    let pods = server.pods();
    let want = |uid: &str, name: &str, service_account: &str| NodePod {
        namespace: "team".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        service_account: service_account.to_owned(),
    };
    assert_eq!(*pods.pod("u1").await.unwrap().unwrap(), want("u1", "web", "cart"));
    assert_eq!(*pods.pod("u2").await.unwrap().unwrap(), want("u2", "job", "default"));
    let asked = server.0.lock().unwrap().asked.clone();
    assert_eq!(asked, ["/api/v1/pods?&fieldSelector=spec.nodeName%3Dnode-1"], "once");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_uid_causes_at_most_one_listing_a_second() {
    const HALF: Duration = LISTING_INTERVAL.checked_div(2).unwrap();
    let server = ApiServer::listing(&json!([]));
    let (pods, start) = (server.pods(), Instant::now());
    for _ in 0..10 {
        assert_eq!(name_of(&pods, "new").await, None);
    }
    assert_eq!((server.asked(), start.elapsed()), (1, Duration::ZERO));
    advance(HALF).await;
    let callers = join_all((0..10).map(|_| name_of(&pods, "elsewhere"))).await;
    assert_eq!(callers, vec![None; 10]);
    assert_eq!(server.asked(), 2, "they wait for one listing that is newer than their request");
    assert!(start.elapsed() >= LISTING_INTERVAL, "{:?}", start.elapsed());
    assert!(start.elapsed() < LISTING_INTERVAL + HALF, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_created_after_the_latest_listing_is_found() {
    let server = ApiServer::listing(&json!([pod("old", "web", None)]));
    let pods = server.pods();
    assert_eq!(name_of(&pods, "old").await.as_deref(), Some("web"));
    advance(LISTING_INTERVAL / 2).await;
    server.list(&json!([pod("old", "web", None), pod("new", "job", None)]));
    assert_eq!(name_of(&pods, "new").await.as_deref(), Some("job"));
    assert_eq!(server.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_created_during_a_listing_is_found() {
    let server = ApiServer::new(|| {
        let list = json!({"kind": "PodList", "items": []}).to_string();
        let pieces = stream::once(async move {
            sleep(Duration::from_secs(3)).await;
            Ok(Frame::data(list.into()))
        });
        Some(Response::new(StreamBody::new(pieces).boxed()))
    });
    let (pods, start) = (server.pods(), Instant::now());
    let new = async {
        sleep(Duration::from_secs(1)).await;
        server.list(&json!([pod("new", "job", None)]));
        name_of(&pods, "new").await
    };
    let (first, new) = tokio::join!(name_of(&pods, "elsewhere"), new);
    assert_eq!((first, new.as_deref()), (None, Some("job")));
    assert_eq!(server.asked(), 2);
    assert!(start.elapsed() >= Duration::from_secs(4), "{:?}", start.elapsed());
}

#[tokio::test]
async fn nothing_is_listed_for_a_static_pod() {
    let server = ApiServer::listing(&json!([]));
    let pods = server.pods();
    assert_eq!(name_of(&pods, "0123456789abcdef0123456789abcdef").await, None);
    assert_eq!(server.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn callers_share_a_listing_that_goes_on_without_them() {
    let server = ApiServer::new(|| None);
    let pods = server.pods();
    let callers = join_all((0..10).map(|_| pods.pod("uid")));
    let given_up = timeout(Duration::from_secs(4), callers).await;
    assert!(given_up.is_err(), "the server does not answer");
    let others = join_all((0..10).map(|_| error_of(&pods))).await;
    let want = "the pods of this node cannot be listed: the API server did not answer within 10 s";
    assert_eq!(others, vec![want; 10]);
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_listing_counts_for_a_second_and_what_is_known_stays() {
    let server = ApiServer::listing(&json!([pod("old", "web", None)]));
    let pods = server.pods();
    assert_eq!(name_of(&pods, "old").await.as_deref(), Some("web"));
    server.answer(|| {
        let status = json!({"kind": "Status", "message": format!("no {SECRET}"), "code": 403});
        Some(answer(403, status.to_string()))
    });
    advance(LISTING_INTERVAL).await;
    let want = "the pods of this node cannot be listed: the API server answered 403 Forbidden";
    for _ in 0..10 {
        assert_eq!(error_of(&pods).await, want);
    }
    assert_eq!(name_of(&pods, "old").await.as_deref(), Some("web"));
    assert_eq!(server.asked(), 2);
    server.list(&json!([pod("uid", "job", None)]));
    advance(LISTING_INTERVAL).await;
    assert_eq!(name_of(&pods, "uid").await.as_deref(), Some("job"));
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    const PIECE: usize = 1 << 20;
    let sent = Arc::new(Mutex::new(0));
    let counted = sent.clone();
    let server = ApiServer::new(move || {
        let (counted, piece) = (counted.clone(), Bytes::from(vec![b' '; PIECE]));
        let pieces = stream::repeat_with(move || {
            *counted.lock().unwrap() += PIECE;
            Ok(Frame::data(piece.clone()))
        });
        Some(Response::new(StreamBody::new(pieces).boxed()))
    });
    let error = error_of(&server.pods()).await;
    assert!(error.ends_with("broke off, or is longer than 32 MiB"), "{error}");
    assert!(*sent.lock().unwrap() <= 34 * PIECE, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_of_an_answer_reaches_an_error_or_the_log() {
    let logs = LogCapture::start();
    let server = ApiServer::listing(&json!([pod("known", "web", None)]));
    let pods = server.pods();
    assert_eq!(name_of(&pods, "known").await.as_deref(), Some("web"));
    let secret = json!(SECRET);
    for (status, body) in [
        (500, secret.clone()),
        (200, secret.clone()),
        (200, json!({"kind": "PodList", "items": secret})),
        (200, json!({"kind": "PodList", "items": [{"metadata": {"uid": [SECRET]}}]})),
        (200, json!({"kind": SECRET, "items": []})),
        (404, json!({"kind": "Status", "message": SECRET, "reason": SECRET})),
    ] {
        server.answer(move || Some(answer(status, body.to_string())));
        advance(LISTING_INTERVAL).await;
        let error = error_of(&pods).await;
        let leaks = LeakCheck::new([SECRET]);
        leaks.text("an error", &error).text("the log", &logs.text());
    }
    assert_eq!(server.asked(), 7);
}
