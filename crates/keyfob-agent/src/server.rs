//! The HTTP API: paths, bodies and statuses. What is allowed is decided in `access`.

mod admin;
mod docker;
mod explain;
mod http;
mod kubelet;

use std::{convert::Infallible, sync::Arc, time::Duration};

use ::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Bytes, service::service_fn};
use keyfob_exec::PeerProcess;
use keyfob_net::server::{Limits, RequestBody, serve_counted};
use serde::{Deserialize, Serialize};
use tokio::{net::UnixListener, time::timeout};
use tracing::Instrument as _;

pub(crate) use self::http::serve_http;
use crate::{
    access::{Attempt, Granted, RequestKind, Requester, Wanted, rfc3339},
    agent::Shared,
    error::{ApiError, ErrorCode},
    repository::Repository,
    spans,
};

/// How long the body of a request and the identification of its caller may take, beyond the time for credentials.
const READING: Duration = Duration::from_secs(15);

/// A response: most are one piece, the stream of audit events is not.
type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves the socket for credentials.
pub(crate) async fn serve_agent(
    shared: Arc<Shared>,
    listener: UnixListener,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let open = shared.metrics.connections().agent.clone();
    let service = service_fn(move |request: Request<RequestBody>| {
        let shared = shared.clone();
        async move {
            let is_probe = request.method() == Method::GET && request.uri().path() == ALIVE;
            Ok::<_, Infallible>(if is_probe { alive() } else { answer(&shared, request).await })
        }
    });
    serve_counted(listener, None, service, (limits, open), stop).await;
}

/// Where anybody is told that the agent runs. It waits for nothing, so that a busy agent is not taken for one that hangs: the relay would
/// run a plugin itself, which the limits of the agent are there to prevent. There is nothing to learn from the answer, so nobody is
/// identified and nothing is logged.
const ALIVE: &str = "/v1/alive";

fn alive() -> Response<Body> {
    respond(StatusCode::OK, b"{\"alive\":true}".to_vec())
}

/// Serves the socket for administrators.
pub(crate) async fn serve_admin(
    shared: Arc<Shared>,
    listener: UnixListener,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let open = shared.metrics.connections().admin.clone();
    let service = service_fn(move |request: Request<RequestBody>| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(admin::answer(&shared, request).await) }
    });
    serve_counted(listener, None, service, (limits, open), stop).await;
}

/// What there is at the socket for credentials.
#[derive(Clone, Copy, Debug)]
enum Endpoint {
    Credentials,
    Provider,
    DockerGet,
    DockerList,
    Explain,
}

impl Endpoint {
    fn of(method: &Method, path: &str) -> Option<Self> {
        match (method, path) {
            (&Method::POST, "/v1/credentials") => Some(Self::Credentials),
            (&Method::POST, "/v1/provider") => Some(Self::Provider),
            (&Method::POST, "/v1/docker/get") => Some(Self::DockerGet),
            (&Method::GET, "/v1/docker/list") => Some(Self::DockerList),
            (&Method::GET, "/v1/explain") => Some(Self::Explain),
            _ => None,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Credentials => "/v1/credentials",
            Self::Provider => "/v1/provider",
            Self::DockerGet => "/v1/docker/get",
            Self::DockerList => "/v1/docker/list",
            Self::Explain => "/v1/explain",
        }
    }
}

/// What metrics, traces and the log call a path that does not exist: a client can ask for anything.
const NO_PATH: &str = "other";

/// Answers in bounded time, whatever happens, and logs it. Asking for credentials has a time limit of its own.
async fn answer(shared: &Arc<Shared>, request: Request<RequestBody>) -> Response<Body> {
    let peer = request.extensions().get::<PeerProcess>().cloned();
    let endpoint = Endpoint::of(request.method(), request.uri().path());
    let kind = RequestKind {
        path: endpoint.map_or(NO_PATH, Endpoint::path),
        gives_logins: !matches!(endpoint, None | Some(Endpoint::Explain)),
    };
    let mut attempt = Attempt::new(shared, peer.as_ref(), kind);
    let limit = shared.config().limits.request_timeout.saturating_add(READING);
    let span = spans::request(kind.path);
    let routing = route(shared, &mut attempt, endpoint, request).instrument(span.clone());
    let answered = timeout(limit, routing).await;
    let late = |_| Err(ApiError::new(ErrorCode::Unavailable, "the request took too long"));
    let answered = answered.unwrap_or_else(late);
    attempt.finish(answered.as_ref().map(drop));
    let answer = answered.unwrap_or_else(|error| refusal(&error));
    span.record("status", answer.status().as_u16());
    answer
}

/// Nothing of a request is read or parsed before its caller is known and may ask now.
async fn route(
    shared: &Arc<Shared>,
    attempt: &mut Attempt<'_>,
    endpoint: Option<Endpoint>,
    request: Request<RequestBody>,
) -> Result<Response<Body>, ApiError> {
    let requester = attempt.identify().await?;
    let (parts, body) = request.into_parts();
    match endpoint {
        Some(Endpoint::Credentials) => {
            credentials(shared, attempt, &requester, &read(body).await?).await
        }
        Some(Endpoint::Provider) => {
            kubelet::respond(shared, attempt, &requester, &read(body).await?).await
        }
        Some(Endpoint::DockerGet) => {
            docker::get(shared, attempt, &requester, &read(body).await?).await
        }
        Some(Endpoint::DockerList) => docker::list(shared, attempt, &requester).await,
        Some(Endpoint::Explain) => {
            explain::explain(shared, &requester, parts.uri.query().unwrap_or_default()).await
        }
        None => Err(no_such_path(parts.uri.path())),
    }
}

fn no_such_path(path: &str) -> ApiError {
    let path: String = path.chars().take(100).collect();
    let message = format!("there is nothing at {path:?} with this method");
    ApiError::new(ErrorCode::NotFound, message).help("docs/agent-api.md lists the paths")
}

async fn read(body: RequestBody) -> Result<Bytes, ApiError> {
    body.into_bytes().await.map_err(|error| {
        ApiError::new(ErrorCode::BadRequest, format!("the request cannot be read: {error}"))
    })
}

/// `POST /v1/credentials`.
async fn credentials(
    shared: &Shared,
    attempt: &mut Attempt<'_>,
    requester: &Requester,
    body: &[u8],
) -> Result<Response<Body>, ApiError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        image: String,
    }
    #[derive(Serialize)]
    struct Answer<'a> {
        image: &'a str,
        rule: &'a str,
        credentials: Vec<OneCredential<'a>>,
    }
    #[derive(Serialize)]
    struct OneCredential<'a> {
        username: &'a str,
        password: &'a str,
        provider: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        expires: Option<String>,
    }
    let Ok(asked) = serde_json::from_slice::<Asked>(body) else {
        return Err(ApiError::new(
            ErrorCode::BadRequest,
            "the body is not an object with an image",
        )
        .help(r#"send {"image": "registry.example/app:v1"}"#));
    };
    let repository = Repository::of_image(&asked.image)?;
    let wanted = Wanted { repository: &repository, fresh_for: Duration::ZERO, token: None };
    let Granted { rule, credentials } = shared.grant(attempt, requester, wanted).await?;
    let credentials = credentials.iter().map(|each| OneCredential {
        username: each.credential.username(),
        password: each.credential.password().expose(),
        provider: &each.provider,
        expires: each.expires.map(rfc3339),
    });
    Ok(json(&Answer { image: &asked.image, rule: &rule, credentials: credentials.collect() }))
}

fn json(body: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(body) {
        Ok(body) => respond(StatusCode::OK, body),
        Err(_) => refusal(&ApiError::new(ErrorCode::Unavailable, "the answer cannot be written")),
    }
}

fn refusal(error: &ApiError) -> Response<Body> {
    respond(error.code.status(), error.body())
}

fn respond(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
