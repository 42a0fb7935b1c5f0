//! Requests through the layer.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response, StatusCode, Version, header::AUTHORIZATION};
use keyfob_client::{Authenticator, Authenticators, Behaviour, ExecError, ExecLayer, ReplayBody};
use keyfob_exec::{Finished, Invocation, Status, StderrTail};
use keyfob_testkit::FakeRunner;
use tokio::task::JoinSet;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::support::{Does, Stage, config, token};

/// What a server saw of a request.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    method: Method,
    address: String,
    version: Version,
    headers: HeaderMap,
    word: Option<&'static str>,
    body: Body,
}

/// A body that can be had again, or not.
#[derive(Clone, Debug, PartialEq)]
enum Body {
    Text(&'static str),
    Stream,
}

impl ReplayBody for Body {
    fn try_clone(&self) -> Option<Self> {
        (*self != Self::Stream).then(|| self.clone())
    }
}

/// A server that accepts one token at a time.
#[derive(Clone)]
struct Server {
    accepts: Arc<Mutex<&'static str>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    fn accepting(token: &'static str) -> Self {
        Self { accepts: Arc::new(Mutex::new(token)), seen: Arc::default() }
    }

    fn answer(&self, request: Request<Body>) -> Response<&'static str> {
        let wanted = format!("Bearer {}", self.accepts.lock().unwrap());
        let given = request.headers().get(AUTHORIZATION).cloned();
        let (parts, body) = request.into_parts();
        self.seen.lock().unwrap().push(Seen {
            method: parts.method,
            address: parts.uri.to_string(),
            version: parts.version,
            headers: parts.headers,
            word: parts.extensions.get().copied(),
            body,
        });
        let mut response = Response::new("answer");
        if given.is_none_or(|given| given.as_bytes() != wanted.as_bytes()) {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        response
    }

    fn tokens(&self) -> Vec<String> {
        let text = |seen: &Seen| {
            seen.headers
                .get(AUTHORIZATION)
                .map(|value| value.to_str().unwrap().trim_start_matches("Bearer ").to_owned())
        };
        self.seen.lock().unwrap().iter().map(|seen| text(seen).unwrap_or_default()).collect()
    }

    async fn ask(
        &self,
        authenticator: &Authenticator,
        request: Request<Body>,
    ) -> Result<StatusCode, tower::BoxError> {
        let server = self.clone();
        let service = service_fn(move |request| {
            let response = server.answer(request);
            async move { Ok::<_, Infallible>(response) }
        });
        let mut service = ExecLayer::new(authenticator.clone()).layer(service);
        Ok(service.ready().await?.call(request).await?.status())
    }

    async fn get(&self, authenticator: &Authenticator) -> StatusCode {
        self.ask(authenticator, Request::new(Body::Text(""))).await.unwrap()
    }
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

fn tokens(stage: &Stage, tokens: impl IntoIterator<Item = &'static str>) {
    stage.plugin.does(tokens.into_iter().map(|each| Does::Print(token(each))));
}

#[tokio::test]
async fn a_request_gets_the_header_and_an_accepted_credential_stays() {
    let (stage, server) = (Stage::new(), Server::accepting("one"));
    tokens(&stage, ["one"]);
    let authenticator = stage.authenticator();

    for _ in 0..3 {
        assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    }

    assert_eq!(server.tokens(), ["one", "one", "one"]);
    assert!(server.seen.lock().unwrap()[0].headers[AUTHORIZATION].is_sensitive());
    assert_eq!(stage.plugin.runs(), 1);
}

#[tokio::test]
async fn a_header_of_the_callers_own_is_left_alone_and_an_empty_one_is_none() {
    let (stage, server) = (Stage::new(), Server::accepting("one"));
    tokens(&stage, ["one"]);
    let authenticator = stage.authenticator();
    let with = |value: &'static str| {
        Request::builder().header(AUTHORIZATION, value).body(Body::Text("")).unwrap()
    };

    let own = server.ask(&authenticator, with("Basic YTpi")).await.unwrap();
    assert_eq!((own, stage.plugin.runs()), (StatusCode::UNAUTHORIZED, 0));
    let empty = server.ask(&authenticator, with("")).await.unwrap();

    assert_eq!((empty, stage.plugin.runs()), (StatusCode::OK, 1));
    assert_eq!(server.tokens(), ["Basic YTpi", "one"]);
}

#[tokio::test]
async fn after_a_401_the_same_request_is_sent_again_with_the_new_credential() {
    let (stage, server) = (Stage::new(), Server::accepting("one"));
    tokens(&stage, ["one", "two"]);
    let authenticator = stage.authenticator();
    server.get(&authenticator).await;
    *server.accepts.lock().unwrap() = "two";
    server.seen.lock().unwrap().clear();
    let mut request = Request::post("https://a.example:6443/api/v1/pods?watch=1")
        .version(Version::HTTP_10)
        .header("accept", "application/json")
        .header("x-several", "1")
        .header("x-several", "é")
        .body(Body::Text("hello"))
        .unwrap();
    request.extensions_mut().insert("create");

    let status = server.ask(&authenticator, request).await.unwrap();

    assert_eq!((status, stage.plugin.runs()), (StatusCode::OK, 2));
    assert_eq!(server.tokens(), ["one", "two"]);
    let mut seen = server.seen.lock().unwrap().clone();
    for seen in &mut seen {
        seen.headers.remove(AUTHORIZATION);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!((seen[1].word, &seen[1].body), (Some("create"), &Body::Text("hello")));
    assert_eq!(seen[1].headers.get_all("x-several").iter().count(), 2);
    assert_eq!(seen[1].address, "https://a.example:6443/api/v1/pods?watch=1");
}

#[tokio::test]
async fn a_body_that_cannot_be_sent_twice_gets_the_401_and_the_next_request_runs_the_plugin() {
    let (stage, server) = (Stage::new(), Server::accepting("two"));
    tokens(&stage, ["one", "two"]);
    let authenticator = stage.authenticator();

    let status = server.ask(&authenticator, Request::new(Body::Stream)).await.unwrap();

    // Nobody could have used a second answer yet.
    assert_eq!((status, stage.plugin.runs()), (StatusCode::UNAUTHORIZED, 1));
    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    assert_eq!(server.tokens(), ["one", "two"]);
    assert_eq!(stage.plugin.runs(), 2);
}

#[tokio::test]
async fn a_persistent_401_runs_the_plugin_only_for_answers_that_the_request_uses() {
    let (stage, server) = (Stage::new(), Server::accepting("none of them"));
    tokens(&stage, ["one", "two", "three", "four"]);
    let authenticator = stage.authenticator();

    assert_eq!(server.get(&authenticator).await, StatusCode::UNAUTHORIZED);
    assert_eq!((server.tokens(), stage.plugin.runs()), (texts(["one", "two"]), 2));
    let status = authenticator.status();
    assert!(authenticator.ready().is_none() && !status.is_usable && !status.is_running);

    // The next request does not start with the credential that was refused last.
    *server.accepts.lock().unwrap() = "three";
    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    assert_eq!((server.tokens(), stage.plugin.runs()), (texts(["one", "two", "three"]), 3));
}

#[tokio::test]
async fn a_refused_credential_is_used_again_if_the_plugin_fails() {
    let (stage, server) = (Stage::new(), Server::accepting("none of them"));
    stage.plugin.does([token("one"), token("two")].map(Does::Print));
    let authenticator = stage.authenticator();
    server.get(&authenticator).await;
    stage.plugin.does([Does::Exit(1)]);

    // The server has changed its mind, as it does when its token webhook was out of order.
    *server.accepts.lock().unwrap() = "two";
    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    assert_eq!((server.tokens(), stage.plugin.runs()), (texts(["one", "two", "two"]), 3));

    // It is good after all, so that nothing is run for the next request.
    stage.clock.advance(Duration::from_hours(1));
    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    assert_eq!(stage.plugin.runs(), 3);
}

#[tokio::test]
async fn requests_at_once_share_the_run_that_replaces_a_refused_credential() {
    let (stage, server) = (Stage::new(), Server::accepting("three"));
    tokens(&stage, ["one", "two", "three"]);
    let authenticator = stage.authenticator();
    assert_eq!(server.get(&authenticator).await, StatusCode::UNAUTHORIZED);

    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (server, authenticator) = (server.clone(), authenticator.clone());
        tasks.spawn(async move { server.get(&authenticator).await });
    }

    assert!(tasks.join_all().await.iter().all(|status| *status == StatusCode::OK));
    assert_eq!(stage.plugin.runs(), 3);
}

#[tokio::test]
async fn an_expired_answer_is_used_for_ten_seconds_unless_the_server_refuses_it() {
    let (stage, server) = (Stage::new(), Server::accepting("one"));
    let expired = |token: &str| Does::Print(stage.token(token, 0));
    stage.plugin.does([expired("one"), expired("two")]);
    let authenticator = stage.authenticator();

    for _ in 0..9 {
        assert_eq!(server.get(&authenticator).await, StatusCode::OK);
        stage.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(stage.plugin.runs(), 1);
    *server.accepts.lock().unwrap() = "two";
    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    assert_eq!(stage.plugin.runs(), 2);
}

#[tokio::test]
async fn as_client_go_nothing_is_sent_again() {
    let (stage, server) = (Stage::with(Behaviour::of_client_go()), Server::accepting("two"));
    tokens(&stage, ["one", "two"]);
    let authenticator = stage.authenticator();

    assert_eq!(server.get(&authenticator).await, StatusCode::UNAUTHORIZED);
    assert_eq!(stage.plugin.runs(), 2, "at once, as client-go does");
    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    assert_eq!(server.tokens(), ["one", "two"]);
}

#[tokio::test]
async fn a_server_that_never_accepts_gets_each_request_twice_and_soon_once() {
    let (stage, server) = (Stage::new(), Server::accepting("none of them"));
    tokens(&stage, ["t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
    let authenticator = stage.authenticator();

    for _ in 0..5 {
        assert_eq!(server.get(&authenticator).await, StatusCode::UNAUTHORIZED);
    }

    // Five are replaced at once, and then there is a pause.
    assert_eq!(stage.plugin.runs(), 6);
    assert_eq!(server.tokens(), ["t1", "t2", "t3", "t4", "t5", "t6", "t6", "t6"]);
}

#[tokio::test]
async fn a_credential_that_was_replaced_on_its_way_is_fetched_once_more() {
    let (stage, server) = (Stage::new(), Server::accepting("one"));
    tokens(&stage, ["one", "two", "three", "four"]);
    let authenticator = stage.authenticator();
    server.get(&authenticator).await;
    *server.accepts.lock().unwrap() = "three";

    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
    assert_eq!(server.tokens(), ["one", "one", "two", "three"]);

    // But not for ever.
    tokens(&stage, ["four", "five", "six", "seven"]);
    *server.accepts.lock().unwrap() = "seven";
    assert_eq!(server.get(&authenticator).await, StatusCode::UNAUTHORIZED);
    assert_eq!(server.get(&authenticator).await, StatusCode::OK);
}

#[tokio::test]
async fn errors_are_typed_and_in_upstreams_words() {
    let (stage, server) = (Stage::new(), Server::accepting("one"));
    stage.plugin.does([Does::Exit(5)]);
    let error = server.ask(&stage.authenticator(), Request::new(Body::Text(""))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "getting credentials: exec: executable /opt/plugin failed with exit code 5"
    );
    assert!(matches!(error.downcast_ref(), Some(ExecError::Credentials(_))));

    tokens(&stage, ["secret\nnewline"]);
    let authenticator = stage.authenticator();
    for _ in 0..2 {
        let error = server.ask(&authenticator, Request::new(Body::Text(""))).await.unwrap_err();
        assert_eq!(error.to_string(), "net/http: invalid header field value for \"Authorization\"");
        assert!(matches!(error.downcast_ref(), Some(ExecError::Token(_))));
    }
    assert!(server.seen.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_tokens_rotate_no_request_fails_and_each_token_is_fetched_once() {
    let server = RotatingServer::default();
    let plugin = server.clone();
    let stage = Stage::new();
    let runner = Arc::new(FakeRunner::new(move |invocation| Ok(plugin.issue(invocation))));
    let authenticators = Authenticators::new(stage.world(runner.clone()), Behaviour::default());
    let authenticator = authenticators.get(&config(), None).unwrap();
    let asked = server.clone();
    let service = service_fn(move |request| {
        let server = asked.clone();
        async move {
            tokio::task::yield_now().await;
            let answer = server.answer(&request);
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(answer)
        }
    });
    let service = ExecLayer::new(authenticator).layer(service);
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let mut service = service.clone();
        tasks.spawn(async move {
            for _ in 0..100 {
                let sent = service.ready().await.unwrap().call(Request::new(Body::Text("")));
                assert_eq!(sent.await.unwrap().status(), StatusCode::OK);
            }
        });
    }

    tasks.join_all().await;

    let rotations = server.requests.load(Ordering::SeqCst) / RotatingServer::EACH;
    assert!(rotations >= 20, "{rotations}");
    assert!(runner.runs() <= rotations + 1, "{} runs, {rotations} rotations", runner.runs());
}

/// Accepts another token after so many requests.
#[derive(Clone, Default)]
struct RotatingServer {
    requests: Arc<AtomicUsize>,
}

impl RotatingServer {
    const EACH: usize = 500;

    fn token(&self) -> String {
        format!("token-{}", self.requests.load(Ordering::SeqCst) / Self::EACH)
    }

    fn issue(&self, invocation: &Invocation) -> Finished {
        Finished {
            program: invocation.program().into(),
            status: Status::Exited(0),
            stdout: token(&self.token()).into(),
            stderr: StderrTail::default(),
            elapsed: Duration::ZERO,
        }
    }

    fn answer(&self, request: &Request<Body>) -> Response<()> {
        let accepts = format!("Bearer {}", self.token());
        self.requests.fetch_add(1, Ordering::SeqCst);
        let accepted = request.headers()[AUTHORIZATION].as_bytes() == accepts.as_bytes();
        let status = if accepted { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        Response::builder().status(status).body(()).unwrap()
    }
}
