//! From a program's request to the cluster's answer.

use std::convert::Infallible;

use http::{
    HeaderMap, HeaderName, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONNECTION, HOST, ORIGIN, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, on},
};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde_json::json;
use tokio::io::copy_bidirectional;

use super::{super::failure::said, doorkeeper::Doorkeeper};

/// As much as any API server reads.
const LONGEST_BODY: usize = 8 << 20;

/// What is between two neighbours only, beside what `Connection` names.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

pub(super) async fn forward(
    request: Request<Incoming>,
    door: &Doorkeeper,
    client: &Client,
) -> Result<Response<Body>, Infallible> {
    let answer = match door.refuses(request.method(), request.headers()) {
        Some(reason) => Err((StatusCode::FORBIDDEN, reason.to_owned())),
        None => pass_on(request, client).await,
    };
    Ok(answer.unwrap_or_else(|(code, message)| status(code, &message)))
}

async fn pass_on(
    mut request: Request<Incoming>,
    client: &Client,
) -> Result<Response<Body>, (StatusCode, String)> {
    let upgrades = request.headers().contains_key(UPGRADE);
    let ours = upgrades.then(|| on(&mut request));
    let (mut parts, body) = request.into_parts();
    // Whole, so that it can be sent again with a new credential.
    let body = Limited::new(body, LONGEST_BODY).collect().await.map_err(|error| {
        let is_long = error.is::<LengthLimitError>();
        let code = if is_long { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST };
        (code, error.to_string())
    })?;
    // A whole address in the request line is ours, not the cluster's.
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    parts.uri = target.parse().map_err(|_| (StatusCode::BAD_REQUEST, "no path".to_owned()))?;
    clean(&mut parts.headers, upgrades);
    let mut answer = client
        .send(Request::from_parts(parts, Body::from(body.to_bytes())))
        .await
        .map_err(|error| (StatusCode::BAD_GATEWAY, said(&error)))?;
    if let Some(ours) = ours.filter(|_| answer.status() == StatusCode::SWITCHING_PROTOCOLS) {
        tokio::spawn(join(ours, on(&mut answer)));
    } else {
        remove_hop_by_hop(answer.headers_mut());
    }
    Ok(answer)
}

/// Who asks is decided by the kubeconfig alone.
fn clean(headers: &mut HeaderMap, upgrades: bool) {
    for name in [AUTHORIZATION, HOST, ORIGIN] {
        headers.remove(name);
    }
    let impersonates = |name: &&HeaderName| name.as_str().starts_with("impersonate-");
    for name in headers.keys().filter(impersonates).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    if !upgrades {
        remove_hop_by_hop(headers);
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named =
        named.flat_map(|names| names.split(',')).filter_map(|name| name.trim().parse().ok());
    for name in named.collect::<Vec<HeaderName>>().into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

async fn join(ours: OnUpgrade, theirs: OnUpgrade) {
    if let (Ok(ours), Ok(theirs)) = (ours.await, theirs.await) {
        let copied = copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await;
        tracing::debug!(?copied, "an upgraded connection ended");
    }
}

/// A failure in the words of an API server.
fn status(code: StatusCode, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("keyfob kube proxy: {message}"), "code": code.as_u16(),
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        pairs.collect()
    }

    #[test]
    fn what_says_who_asks_and_what_is_between_neighbours_goes() {
        let mut asked = headers(&[
            ("accept", "application/json"),
            ("authorization", "Bearer mine"),
            ("connection", "keep-alive, X-Mine"),
            ("host", "localhost:8001"),
            ("impersonate-extra-scopes", "all"),
            ("impersonate-user", "root"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("x-mine", "1"),
        ]);
        clean(&mut asked, false);
        assert_eq!(asked, headers(&[("accept", "application/json")]));
    }

    #[test]
    fn an_upgrade_keeps_what_it_needs() {
        let upgrade = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        let mut asked = headers(&[upgrade[0], upgrade[1], ("authorization", "Bearer mine")]);
        clean(&mut asked, true);
        assert_eq!(asked, headers(&upgrade));
    }
}
