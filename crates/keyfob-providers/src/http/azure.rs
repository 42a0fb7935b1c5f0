//! Our client as the transport of Azure's libraries.
//!
//! It tries again by our rules, inside the plugin's deadline, and turns every status that is no success into an error of
//! ours: theirs quote bodies.

use async_trait::async_trait;
use azure_core::{
    Error,
    error::ErrorKind,
    http::{AsyncRawResponse, Body, HttpClient, Request, Url, headers::Headers},
};
use keyfob_plugin::Call;

use super::{Http, Reply, Sending};

/// Where Azure's libraries look for the metadata service, and nowhere else.
const IMDS: &str = "169.254.169.254";

/// Sends what Azure's libraries put together.
#[derive(Debug)]
pub(crate) struct AzureTransport {
    http: Http,
    call: Call,
    imds: Option<Url>,
}

impl AzureTransport {
    /// For one run. The metadata service may be elsewhere: in a test, or behind a proxy of its own.
    pub(crate) fn new(http: Http, call: Call, imds: Option<Url>) -> Self {
        Self { http, call, imds }
    }

    fn address(&self, request: &Request) -> Url {
        let mut url = request.url().clone();
        if let Some(imds) = self.imds.as_ref().filter(|_| url.host_str() == Some(IMDS)) {
            let (path, query) = (url.path().to_owned(), url.query().map(str::to_owned));
            url = imds.clone();
            url.set_path(&path);
            url.set_query(query.as_deref());
        }
        url
    }

    fn translated(&self, request: &Request) -> azure_core::Result<http::Request<Vec<u8>>> {
        let Body::Bytes(body) = request.body() else {
            return Err(Error::with_message(ErrorKind::Other, "a body of unknown length"));
        };
        let address = self.address(request);
        let mut translated =
            http::Request::builder().method(request.method().as_str()).uri(address.as_str());
        for (name, value) in request.headers().iter() {
            translated = translated.header(name.as_str(), value.as_str());
        }
        translated.body(body.to_vec()).map_err(|error| Error::new(ErrorKind::Other, error))
    }
}

#[async_trait]
impl HttpClient for AzureTransport {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let sending = Sending::of(&self.http, self.translated(request)?);
        let reply = sending.send(&self.call).await.and_then(Reply::success);
        let reply = reply.map_err(|error| Error::new(ErrorKind::Other, error))?;
        let body = reply.body().expose().clone();
        Ok(AsyncRawResponse::from_bytes(reply.status().into(), Headers::new(), body))
    }
}
