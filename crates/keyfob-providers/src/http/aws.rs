//! Our client as the one of Amazon's SDK, which would bring roots, proxies and limits of its own.

use std::time::Duration;

use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
    },
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
    runtime_components::RuntimeComponents,
};
use aws_smithy_types::body::SdkBody;
use keyfob_net::named;

use super::{Http, HttpError, Reply, error::Fault};

/// Sends what the SDK asks for, once for each time it asks.
#[derive(Debug, Clone)]
pub(crate) struct AwsHttp(pub(crate) Http);

/// The same, with the time that one attempt may take.
#[derive(Debug)]
struct Connector {
    http: Http,
    limit: Duration,
}

impl HttpClient for AwsHttp {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        const CONNECT: Duration = Duration::from_secs(3);
        const READ: Duration = Duration::from_secs(10);
        let connect = settings.connect_timeout().unwrap_or(CONNECT);
        let limit = connect + settings.read_timeout().unwrap_or(READ);
        SharedHttpConnector::new(Connector { http: self.0.clone(), limit })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (http, limit) = (self.http.clone(), self.limit);
        HttpConnectorFuture::new(async move {
            let request = plain(request)?;
            let what = named(request.method(), &request.uri().to_string());
            match http.attempt(request, limit).await {
                Ok(reply) => answer(&reply),
                Err(fault) => Err(unanswered(what, fault)),
            }
        })
    }
}

/// None of the calls we make streams its body.
fn plain(request: HttpRequest) -> Result<http::Request<Vec<u8>>, ConnectorError> {
    let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
    let (head, body) = request.into_parts();
    let body =
        body.bytes().ok_or_else(|| ConnectorError::user("a body that is not in memory".into()))?;
    Ok(http::Request::from_parts(head, body.to_vec()))
}

fn answer(reply: &Reply) -> Result<HttpResponse, ConnectorError> {
    let mut response = http::Response::builder().status(reply.status());
    if let Some(headers) = response.headers_mut() {
        headers.clone_from(reply.headers());
    }
    let response = response
        .body(SdkBody::from(reply.body().expose().as_slice()))
        .map_err(|error| ConnectorError::user(error.into()))?;
    HttpResponse::try_from(response).map_err(|error| ConnectorError::user(error.into()))
}

/// What may pass is tried again by the SDK; what is wrong here is not.
fn unanswered(what: String, fault: Fault) -> ConnectorError {
    let kind = match fault {
        Fault::TooSlow(_) => ConnectorError::timeout,
        Fault::Connection(ref error) if error.may_pass() => ConnectorError::io,
        _ => ConnectorError::user,
    };
    kind(HttpError::new(what, fault).into())
}
