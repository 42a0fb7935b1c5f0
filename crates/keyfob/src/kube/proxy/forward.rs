//! From a program's request to the cluster's answer.

use std::{convert::Infallible, sync::Arc};

use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{
        AUTHORIZATION, CONNECTION, FORWARDED, HOST, ORIGIN, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};
use hyper::upgrade::{OnUpgrade, on};
use hyper_util::rt::TokioIo;
use keyfob_net::server::RequestBody;
use kube::{Client, client::Body};
use serde_json::json;
use tokio::io::copy_bidirectional;

use super::{super::failure::said, doorkeeper::Doorkeeper};

/// Headers that are between two neighbours only, beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Headers by which a program would say who asks, or from where: API servers believe some of them if they come from an
/// authenticating proxy, or write them to their audit logs.
const WHO_ASKS: [HeaderName; 2] = [AUTHORIZATION, FORWARDED];
const WHO_ASKS_PREFIXES: [&str; 9] = [
    "impersonate-",
    "x-forwarded-",
    "x-original-forwarded-",
    "x-remote-",
    "x-real-ip",
    "x-client-ip",
    "client-ip",
    "true-client-ip",
    "audit-id",
];

/// A websocket's subprotocol that is a bearer token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

pub(super) async fn forward(
    request: Request<RequestBody>,
    door: Arc<Doorkeeper>,
    client: Client,
) -> Result<Response<Body>, Infallible> {
    let answer = match door.refuses(&request) {
        Some(reason) => Err((StatusCode::FORBIDDEN, reason.to_owned())),
        None => pass_on(request, &client).await,
    };
    Ok(answer.unwrap_or_else(|(code, message)| status(code, &message)))
}

async fn pass_on(
    mut request: Request<RequestBody>,
    client: &Client,
) -> Result<Response<Body>, (StatusCode, String)> {
    let protocol = upgrade_of(request.headers());
    let ours = protocol.is_some().then(|| on(&mut request));
    let (mut parts, body) = request.into_parts();
    // Whole, so that it can be sent again with a new credential.
    let body = body.into_bytes().await.map_err(|error| (error.status(), error.to_string()))?;
    // A whole address in the request line is ours, not the cluster's.
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    parts.uri = target.parse().map_err(|_| (StatusCode::BAD_REQUEST, "no path".to_owned()))?;
    // What the server attached is about our connection.
    parts.extensions.clear();
    clean(&mut parts.headers, protocol);
    let mut answer = client
        .send(Request::from_parts(parts, Body::from(body)))
        .await
        .map_err(|error| (StatusCode::BAD_GATEWAY, said(&error)))?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(ours) = ours else {
            let why = "the API server switched protocols without being asked to";
            return Err((StatusCode::BAD_GATEWAY, why.to_owned()));
        };
        tokio::spawn(join(ours, on(&mut answer)));
    } else {
        remove_hop_by_hop(answer.headers_mut());
    }
    Ok(answer)
}

/// The protocol that a request asks for, if it is one to pass on. A tunnel of HTTP/2 or TLS would carry requests of its own, past
/// everything that is taken out of this one.
fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = listed(headers, &CONNECTION).any(|name| name.eq_ignore_ascii_case("upgrade"));
    let is_http = |protocol: &str| {
        let name = protocol.split('/').next().unwrap_or_default();
        ["h2c", "h2", "http", "tls"].iter().any(|it| name.eq_ignore_ascii_case(it))
    };
    let mut protocols = headers.get_all(UPGRADE).iter();
    let protocol = protocols.next().filter(|_| asks && protocols.next().is_none())?;
    (!listed(headers, &UPGRADE).any(is_http)).then(|| protocol.clone())
}

/// Takes out what the kubeconfig alone decides, and what is meant for this proxy.
fn clean(headers: &mut HeaderMap, upgrade: Option<HeaderValue>) {
    remove_hop_by_hop(headers);
    for name in WHO_ASKS.into_iter().chain([HOST, ORIGIN]) {
        headers.remove(name);
    }
    // Some servers read `_` in a name as `-`.
    let says_who = |name: &&HeaderName| {
        let name = name.as_str().replace('_', "-");
        WHO_ASKS_PREFIXES.iter().any(|it| name.starts_with(it))
    };
    for name in headers.keys().filter(says_who).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    remove_token_protocols(headers);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

fn remove_token_protocols(headers: &mut HeaderMap) {
    let protocols: Vec<_> = listed(headers, &SEC_WEBSOCKET_PROTOCOL).collect();
    let is_token = |it: &&&str| {
        it.get(..TOKEN_PROTOCOL.len()).is_some_and(|it| it.eq_ignore_ascii_case(TOKEN_PROTOCOL))
    };
    if protocols.iter().any(|it| is_token(&it)) {
        let kept: Vec<_> = protocols.iter().filter(|it| !is_token(it)).copied().collect();
        let kept = (!kept.is_empty()).then(|| HeaderValue::from_str(&kept.join(", ")).ok());
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        if let Some(kept) = kept.flatten() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, kept);
        }
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = listed(headers, &CONNECTION).filter_map(|name| name.parse().ok());
    for name in named.collect::<Vec<HeaderName>>().into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// What a header lists, over all its values.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|names| names.split(',')).map(str::trim)
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
    let json = HeaderValue::from_static("application/json");
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
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-real-ip", "192.0.2.1"),
            ("x-remote-extra-scopes", "all"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "0"),
            ("x-remote-user", "root"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("x-mine", "1"),
        ]);
        clean(&mut asked, None);
        assert_eq!(asked, headers(&[("accept", "application/json")]));
    }

    #[test]
    fn an_upgrade_keeps_what_it_needs_and_nothing_that_connection_names() {
        let mut asked = headers(&[
            ("connection", "X-Mine, Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-mine", "1"),
            ("x-remote-user", "root"),
            ("authorization", "Bearer mine"),
        ]);
        let upgrade = upgrade_of(&asked);
        clean(&mut asked, upgrade);
        assert_eq!(asked, headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]));
    }

    #[test]
    fn an_upgrade_to_a_tunnel_of_requests_is_no_upgrade() {
        let asks = |connection: &str, protocols: &[&str]| {
            let pairs = protocols.iter().map(|it| ("upgrade", *it));
            let mut asked = HeaderMap::new();
            for (name, value) in pairs.chain([("connection", connection)]) {
                asked.append(name, value.parse().unwrap());
            }
            upgrade_of(&asked).is_some()
        };
        assert!(asks("keep-alive, upgrade", &["websocket"]));
        assert!(!asks("keep-alive", &["websocket"]));
        assert!(!asks("upgrade", &["websocket", "h2c"]));
        for protocol in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.3"] {
            assert!(!asks("upgrade", &[protocol]), "{protocol}");
        }
    }

    #[test]
    fn a_token_among_the_subprotocols_of_a_websocket_goes() {
        let token = "base64url.bearer.authorization.k8s.io.Zm9yZ2Vk, v4.channel.k8s.io";
        let mut asked = headers(&[("sec-websocket-protocol", token)]);
        clean(&mut asked, None);
        assert_eq!(asked, headers(&[("sec-websocket-protocol", "v4.channel.k8s.io")]));
        let mut asked = headers(&[("sec-websocket-protocol", token.split(',').next().unwrap())]);
        clean(&mut asked, None);
        assert_eq!(asked, headers(&[]));
    }
}
