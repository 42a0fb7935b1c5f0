//! A request that is tried until the answer is worth having or the time is up.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use keyfob_api::Secret;
use keyfob_net::{Patience, may_pass, named, retry_after};
use keyfob_plugin::Call;

use super::{Http, HttpError, Reply, error::Fault};

/// A request to come.
#[derive(Debug)]
#[must_use = "nothing is sent before `send`"]
pub struct Sending<'a> {
    http: &'a Http,
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Secret<Vec<u8>>,
    attempt_limit: Duration,
}

impl<'a> Sending<'a> {
    pub(super) fn new(http: &'a Http, method: Method, url: String) -> Self {
        let attempt_limit = Duration::from_secs(10);
        Self {
            http,
            method,
            url,
            headers: HeaderMap::new(),
            body: Secret::default(),
            attempt_limit,
        }
    }

    /// What another library has put together.
    #[cfg(feature = "acr")]
    pub(super) fn of(http: &'a Http, request: http::Request<Vec<u8>>) -> Self {
        let (parts, body) = request.into_parts();
        let sending = Self::new(http, parts.method, parts.uri.to_string());
        Self { headers: parts.headers, body: body.into(), ..sending }
    }

    /// With a header. What cannot stand in one is left out, as a server would.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            value.set_sensitive(name.eq_ignore_ascii_case("authorization"));
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// With the fields of a form.
    pub fn form(mut self, fields: &[(&str, &str)]) -> Self {
        let mut form = http_form();
        form.query_pairs_mut().extend_pairs(fields);
        self.body = Secret::new(form.query().unwrap_or_default().as_bytes().to_vec());
        self.header(CONTENT_TYPE_NAME, "application/x-www-form-urlencoded")
    }

    /// With JSON.
    pub fn json(mut self, body: &serde_json::Value) -> Self {
        self.body = Secret::new(body.to_string().into_bytes());
        self.header(CONTENT_TYPE_NAME, "application/json")
    }

    /// How long one attempt may take; ten seconds unless told.
    pub fn attempt_limit(mut self, limit: Duration) -> Self {
        self.attempt_limit = limit;
        self
    }

    /// Sends it, again if need be, within what is left of the run.
    pub async fn send(self, call: &Call) -> Result<Reply, HttpError> {
        let what = named(&self.method, &self.url);
        let mut attempt = 1;
        loop {
            let limit = self.attempt_limit.min(call.remaining());
            let outcome = match self.request() {
                Ok(request) => self.http.attempt(request, limit).await,
                Err(fault) => Err(fault),
            };
            match pause(&outcome, attempt).filter(|pause| *pause < call.remaining()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => {
                    return outcome
                        .map(|reply| reply.to(what.clone()))
                        .map_err(|fault| HttpError::new(what, fault).after(attempt));
                }
            }
            attempt += 1;
        }
    }

    fn request(&self) -> Result<http::Request<Vec<u8>>, Fault> {
        let mut request = http::Request::builder().method(self.method.clone()).uri(&self.url);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        let request = request.body(self.body.expose().clone()).map_err(|_| Fault::NotAUrl)?;
        let has_host = request.uri().host().is_some_and(|host| !host.is_empty());
        if has_host { Ok(request) } else { Err(Fault::NotAUrl) }
    }
}

/// How long to wait before the next attempt; `None` if there shall be none.
fn pause(outcome: &Result<Reply, Fault>, attempt: u32) -> Option<Duration> {
    let asked_for = match outcome {
        Ok(reply) if may_pass(reply.status()) => retry_after(reply.headers()),
        Err(Fault::Connection(error)) if error.may_pass() => None,
        Err(Fault::TooSlow(_)) => None,
        _ => return None,
    };
    Patience::default().pause(attempt, asked_for)
}

const CONTENT_TYPE_NAME: &str = "content-type";

/// Something to write a form to: its query is one.
fn http_form() -> reqwest::Url {
    const ANY: &str = "http://form/";
    #[expect(clippy::expect_used, reason = "a constant address")]
    ANY.parse().expect("an address")
}
