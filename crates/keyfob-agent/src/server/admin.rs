//! The administrators' socket: status, reload, forget, metrics and the stream of audit events.

use std::{convert::Infallible, sync::Arc};

use ::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use keyfob_api::Chain;
use keyfob_exec::PeerProcess;
use keyfob_net::server::RequestBody;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;

use super::{
    Body, NO_PATH,
    http::{self, OPEN_METRICS},
    json, no_such_path, read, refusal,
};
use crate::{
    access::{Attempt, RequestKind},
    agent::{Shared, blocking},
    error::{ApiError, ErrorCode},
    metrics::exposition,
    repository::Repository,
    status::gather,
};

const PATHS: [&str; 5] = ["/v1/status", "/v1/reload", "/v1/forget", "/metrics", "/v1/audit"];

/// Answers. Whoever is not root is refused, which is logged.
pub(super) async fn answer(shared: &Arc<Shared>, request: Request<RequestBody>) -> Response<Body> {
    let peer = request.extensions().get::<PeerProcess>().cloned();
    let path = PATHS.into_iter().find(|known| *known == request.uri().path());
    let kind = RequestKind { path: path.unwrap_or(NO_PATH), gives_logins: false };
    let mut attempt = Attempt::new(shared, peer.as_ref(), kind);
    let answered = route(shared, &mut attempt, request).await;
    attempt.finish(answered.as_ref().map(drop));
    answered.unwrap_or_else(|error| refusal(&error))
}

async fn route(
    shared: &Arc<Shared>,
    attempt: &mut Attempt<'_>,
    request: Request<RequestBody>,
) -> Result<Response<Body>, ApiError> {
    attempt.identify_administrator().await?;
    let (parts, body) = request.into_parts();
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/v1/status") => match gather(shared).await {
            Some(status) => Ok(json(&status)),
            None => Err(ApiError::new(ErrorCode::Unavailable, "the agent stops")),
        },
        (&Method::POST, "/v1/reload") => reload(shared).await,
        (&Method::POST, "/v1/forget") => forget(shared, &read(body).await?),
        (&Method::GET, "/metrics") => Ok(metrics(shared)),
        (&Method::GET, "/v1/audit") => audit(shared),
        (_, path) => Err(no_such_path(path)),
    }
}

async fn reload(shared: &Arc<Shared>) -> Result<Response<Body>, ApiError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Reloaded {
        kept: Vec<String>,
        started: Vec<String>,
        removed: Vec<String>,
        restart_needed: Vec<&'static str>,
    }
    let failed = || ApiError::new(ErrorCode::Unavailable, "the files could not be read again");
    match blocking(shared, Shared::reload).await.ok_or_else(failed)? {
        Ok(reloaded) => Ok(json(&Reloaded {
            kept: reloaded.kept,
            started: reloaded.started,
            removed: reloaded.removed,
            restart_needed: shared.reloads().restart_needed,
        })),
        Err(error) => {
            let message = format!("the old configuration stays: {}", Chain(&error));
            let help = format!("check the files with: keyfob validate {}", shared.path().display());
            Err(ApiError::new(ErrorCode::BadRequest, message).help(help))
        }
    }
}

fn forget(shared: &Shared, body: &[u8]) -> Result<Response<Body>, ApiError> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        image: Option<String>,
        provider: Option<String>,
    }
    #[derive(Serialize)]
    struct Forgotten {
        forgotten: usize,
    }
    let asked = if body.is_empty() { Ok(Asked::default()) } else { serde_json::from_slice(body) };
    let Ok(Asked { image, provider }) = asked else {
        return Err(ApiError::new(
            ErrorCode::BadRequest,
            "the body is not an object with an image or a provider",
        ));
    };
    let names = shared.host.providers();
    let names: Vec<&str> = names.iter().map(|provider| provider.name()).collect();
    if let Some(provider) = &provider
        && !names.contains(&provider.as_str())
    {
        let message = format!("there is no provider {provider:?}");
        let help = format!("the providers are: {}", names.join(", "));
        return Err(ApiError::new(ErrorCode::BadRequest, &message).help(help));
    }
    let forget = |image: Option<&str>| shared.host.forget(image, provider.as_deref());
    let forgotten = match image {
        None => forget(None),
        Some(image) => {
            let repository = Repository::of_image_or_registry(&image)?;
            let registry = repository.registry();
            // What docker asked for has no image in its name, and may be the same password.
            let of_registry =
                if registry == repository { 0 } else { forget(Some(registry.as_str())) };
            forget(Some(repository.as_str())) + of_registry
        }
    };
    shared.history.changed();
    Ok(json(&Forgotten { forgotten }))
}

fn metrics(shared: &Shared) -> Response<Body> {
    http::respond(StatusCode::OK, OPEN_METRICS, exposition(shared))
}

/// Audit events from now on, one JSON object a line, until the reader goes away or the agent stops. A reader that is too slow misses
/// events, and is told how many.
fn audit(shared: &Shared) -> Result<Response<Body>, ApiError> {
    let Some(events) = shared.audit.subscribe() else {
        return Err(ApiError::new(ErrorCode::Unavailable, "the agent stops"));
    };
    let events = futures_util::stream::unfold(events, |mut events| async move {
        let line = match events.recv().await {
            Ok(event) => format!("{event}\n"),
            Err(RecvError::Lagged(missed)) => format!("{{\"missedEvents\":{missed}}}\n"),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), events))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    let kind = HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}
