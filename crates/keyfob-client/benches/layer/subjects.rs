//! Requests, with and without the layer.

use std::{
    hint::black_box,
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{HeaderValue, Method, Request, Response, Uri, header};
use keyfob_api::{ExecCredentialStatus, ExecVersion, Timestamp};
use keyfob_client::{
    Authenticator, Authenticators, Behaviour, ExecConfig, ExecLayer, InteractiveMode, World,
};
use keyfob_exec::{Clock as _, SystemClock};
use keyfob_testkit::FakeRunner;
use kube::client::Body;
use tower::{BoxError, Layer as _, Service, service_fn};

/// Something that is repeated, and what it is called. Those `without` are what the next ones are compared with.
pub(crate) struct Subject {
    pub(crate) what: &'static str,
    pub(crate) request: Box<dyn FnMut()>,
}

pub(crate) fn subjects() -> Vec<Subject> {
    let mut subjects = Vec::new();
    for shape in [Shape::Get, Shape::Create] {
        let [bare, rows @ ..] = shape.titles();
        subjects.push(Subject { what: bare, request: asking(Server, shape) });
        let fixed = service_fn(|mut request: Request<Body>| {
            static VALUE: LazyLock<HeaderValue> =
                LazyLock::new(|| "Bearer t".parse().expect("a value"));
            request.headers_mut().insert(header::AUTHORIZATION, VALUE.clone());
            Server.call(request)
        });
        let what = "a fixed header, set by hand";
        subjects.push(Subject { what, request: asking(fixed, shape) });
        let expires = [false, true, false, true];
        for ((what, expires), replays) in
            rows.into_iter().zip(expires).zip([false, false, true, true])
        {
            let authenticator = authenticator(expires);
            let layer = if replays {
                ExecLayer::new(authenticator)
            } else {
                ExecLayer::without_replay(authenticator)
            };
            subjects.push(Subject { what, request: asking(layer.layer(Server), shape) });
        }
    }
    subjects
}

/// What kube sends: a list, and an object to create.
#[derive(Clone, Copy)]
enum Shape {
    Get,
    Create,
}

impl Shape {
    fn titles(self) -> [&'static str; 5] {
        match self {
            Self::Get => [
                "without, a GET",
                "with it, token without an end",
                "with it, token with an end",
                "with it, and a copy to send again, token without an end",
                "with it, and a copy to send again, token with an end",
            ],
            Self::Create => [
                "without, a POST of 1 kB",
                "with it, token without an end",
                "with it, token with an end",
                "with it, and a copy to send again, token without an end",
                "with it, and a copy to send again, token with an end",
            ],
        }
    }
}

/// Sends a request, of which the header is there already, as every client has one.
fn asking<S, R, F, E>(mut service: S, shape: Shape) -> Box<dyn FnMut()>
where
    S: Service<Request<Body>, Response = Response<R>, Future = F, Error = E> + 'static,
    F: Future<Output = Result<Response<R>, E>>,
{
    let address = "https://cluster.example:6443/api/v1/namespaces/default/pods?&limit=500";
    let address: Uri = address.parse().expect("an address");
    let agent: HeaderValue = "a-program/1.0".parse().expect("a value");
    drop((address.clone(), agent.clone()));
    Box::new(move || {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = address.clone();
        request.headers_mut().insert(header::USER_AGENT, agent.clone());
        if let Shape::Create = shape {
            *request.method_mut() = Method::POST;
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(header::CONTENT_TYPE, json);
            request.extensions_mut().insert("create");
            let mut body = Vec::with_capacity(1_500);
            body.resize(1_000, b'x');
            *request.body_mut() = body.into();
        }
        let answer = pin!(service.call(black_box(request)));
        let Poll::Ready(Ok(answer)) = answer.poll(&mut Context::from_waker(Waker::noop())) else {
            unreachable!("the server answers at once");
        };
        black_box(answer);
    })
}

/// Answers at once.
#[derive(Clone, Copy)]
struct Server;

/// Makes the answer when it is asked for, as a connection does.
struct Answer;

impl Service<Request<Body>> for Server {
    type Response = Response<()>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        black_box(&request);
        Answer
    }
}

impl Future for Answer {
    type Output = Result<Response<()>, BoxError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(black_box(Response::new(()))))
    }
}

/// One that has its credential.
fn authenticator(expires: bool) -> Authenticator {
    let end = Timestamp::from(SystemClock.now() + Duration::from_hours(24));
    let status = ExecCredentialStatus {
        expiration: expires.then_some(end),
        token: Some("x".repeat(1_000).into()),
        identity: None,
    };
    let answer = status.encode(ExecVersion::V1).expose().clone();
    let mut world = World::system();
    world.runner = Arc::new(FakeRunner::printing(answer));
    let config = ExecConfig {
        command: "/opt/plugin".into(),
        api_version: ExecVersion::V1.api_version().into(),
        interactive_mode: InteractiveMode::Never,
        ..ExecConfig::default()
    };
    let authenticators = Authenticators::new(world, Behaviour::default());
    let authenticator = authenticators.get(&config, None).expect("a usable plugin");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(authenticator.credential()).expect("a credential");
    authenticator
}
