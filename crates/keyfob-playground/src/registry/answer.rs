//! From a request to its answer.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
    request::Parts,
};
use keyfob_net::server::{Connection, RequestBody};
use serde_json::{Value, json};
use tracing::debug;

use super::{
    Server,
    access::Right,
    authorize::Identified,
    body::Pieces,
    fault::{Instead, Struck},
    journal::SeenRequest,
    refusal::{Code, Refusal},
    route::Route,
    scope::Scope,
};

/// What goes into an answer, beside the request's body.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) parts: &'a Parts,
    pub(super) struck: Struck,
    pub(super) connection: &'a Connection,
}

impl Server {
    /// The answer to a request. It is written down; what goes wrong with it on command, goes wrong here.
    pub(super) async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let mut seen = SeenRequest::of(&request);
        let struck = self.faults.strike(&request);
        if struck.tokens_end() {
            self.tokens.clear();
        }
        let (parts, mut body) = request.into_parts();
        let connection = &body.connection().clone();
        let asked = Asked { parts: &parts, struck, connection };
        let answer = match asked.struck.instead() {
            None => {
                let mut pieces = Pieces::new(&mut body);
                self.routed(&asked, &mut pieces, &mut seen.who).await
            }
            Some(Instead::Status(status, retry_after)) => Err(broken(status, retry_after)),
            Some(Instead::Silence) => {
                self.journal.add(seen);
                self.stopped().await;
                return broken(StatusCode::SERVICE_UNAVAILABLE, None).into_response();
            }
        };
        let mut response = match answer {
            Ok(response) => response,
            Err(refusal) => {
                debug!(method = seen.method, path = seen.path, ?refusal, "refused");
                body.discard().await;
                refusal.into_response()
            }
        };
        let version = HeaderValue::from_static("registry/2.0");
        response.headers_mut().insert("docker-distribution-api-version", version);
        seen.status = Some(response.status().as_u16());
        self.journal.add(seen);
        match asked.struck.pause() {
            Some(pause) => response.map(|body| byte_by_byte(body, pause)),
            None => response,
        }
    }

    async fn routed(
        &self,
        asked: &Asked<'_>,
        pieces: &mut Pieces<'_>,
        who: &mut Option<String>,
    ) -> Result<Response<Body>, Refusal> {
        let route = Route::parse(asked.parts.uri.path())?;
        match (&route, &asked.parts.method) {
            (Route::Token, &Method::GET) => {
                return self.issue_token(&asked.parts.uri, &asked.parts.headers, who);
            }
            (Route::Token, _) => return Err(Refusal::method("GET")),
            (Route::Exchange, &Method::POST) => {
                return self.exchange(asked.parts, pieces, who).await;
            }
            (Route::Exchange, _) => return Err(Refusal::method("POST")),
            _ => {}
        }
        let visitor = self.admitted(asked, &route, who)?;
        self.served(asked, &route, pieces, &visitor).await
    }

    /// Who asks, if they may.
    fn admitted(
        &self,
        asked: &Asked<'_>,
        route: &Route,
        who: &mut Option<String>,
    ) -> Result<Identified, Refusal> {
        let right = match asked.parts.method {
            Method::GET | Method::HEAD if !matches!(route, Route::Upload(..)) => Right::Pull,
            _ => Right::Push,
        };
        let wanted = route.repository().map(|name| Scope { repository: name.clone(), right });
        let visitor = self.identify(&asked.parts.headers, wanted.as_ref())?;
        *who = visitor.visitor.name().map(str::to_owned);
        if let Some(wanted) = &wanted {
            self.authorize(&visitor, wanted)?;
        }
        Ok(visitor)
    }

    async fn served(
        &self,
        asked: &Asked<'_>,
        route: &Route,
        pieces: &mut Pieces<'_>,
        visitor: &Identified,
    ) -> Result<Response<Body>, Refusal> {
        match (route, &asked.parts.method) {
            (Route::Base, &Method::GET | &Method::HEAD) => Ok(json_response(&json!({}))),
            (Route::Tags(name), &Method::GET | &Method::HEAD) => {
                self.list_tags(name, &asked.parts.uri)
            }
            (Route::Manifest(name, reference), &Method::GET | &Method::HEAD) => {
                self.get_manifest(name, reference, asked)
            }
            (Route::Manifest(name, reference), &Method::PUT) => {
                self.put_manifest(name, reference, asked, pieces).await
            }
            (Route::Blob(name, digest), &Method::GET | &Method::HEAD) => {
                self.get_blob(name, digest, asked).await
            }
            (Route::Uploads(name), &Method::POST) => {
                self.start_upload(name, asked, pieces, visitor).await
            }
            (Route::Upload(name, id), &Method::GET) => self.uploads.status(name, id),
            (Route::Upload(name, id), &Method::PATCH) => {
                self.continue_upload(name, id, asked, pieces).await
            }
            (Route::Upload(name, id), &Method::PUT) => {
                self.end_upload(name, id, asked, pieces).await
            }
            (Route::Upload(name, id), &Method::DELETE) => self.cancel_upload(name, id),
            (Route::Manifest(..), _) => Err(Refusal::method("GET, HEAD, PUT")),
            (Route::Uploads(_), _) => Err(Refusal::method("POST")),
            (Route::Upload(..), _) => Err(Refusal::method("GET, PATCH, PUT, DELETE")),
            _ => Err(Refusal::method("GET, HEAD")),
        }
    }
}

/// With a pause before each.
fn byte_by_byte(body: Body, pause: Duration) -> Body {
    let bytes = |piece: Bytes| (0..piece.len()).map(move |at| Ok(piece.slice(at..=at)));
    let bytes = body.into_data_stream().map_ok(move |piece| stream::iter(bytes(piece)));
    Body::from_stream(bytes.try_flatten().then(
        move |byte: Result<Bytes, axum::Error>| async move {
            tokio::time::sleep(pause).await;
            byte
        },
    ))
}

fn broken(status: StatusCode, retry_after: Option<u32>) -> Refusal {
    let code = match status {
        StatusCode::TOO_MANY_REQUESTS => Code::TooManyRequests,
        _ => Code::Unknown,
    };
    let refusal = Refusal::new(code, "as was told").status(status);
    match retry_after {
        Some(seconds) => refusal.header(RETRY_AFTER, seconds.into()),
        None => refusal,
    }
}

/// The pairs of a query or of a form.
pub(super) fn pairs(encoded: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(encoded.as_bytes()).into_owned().collect()
}

/// The last value of this name in a query.
pub(super) fn query(parts: &Parts, name: &str) -> Option<String> {
    let pairs = pairs(parts.uri.query().unwrap_or_default());
    pairs.into_iter().rev().find(|(each, _)| each == name).map(|(_, value)| value)
}

/// An answer with these headers.
pub(super) fn respond(
    status: StatusCode,
    headers: &[(HeaderName, String)],
    body: Body,
) -> Result<Response<Body>, Refusal> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body).map_err(|_| Refusal::internal("a header that cannot be written"))
}

/// What says which content an answer is about.
pub(super) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

pub(super) fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
