//! Requests to a Kubernetes API server, and what can be said of those that fail.
//!
//! `kube` could decode the responses itself, but it logs refusals and what it cannot decode, and either may contain a token.

use std::{error::Error as StdError, fmt, time::Duration};

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use keyfob_api::{GoDuration, Secret};
use kube::{
    Client, Error,
    client::{AuthError, Body},
    core::Status,
};
use serde::de::DeserializeOwned;

use crate::NotTheJson;

/// A client of one API server, with limits for each response.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    longest_response: usize,
    timeout: Duration,
}

impl ApiClient {
    /// Limits the length of each response in bytes, and the time until all of it has arrived.
    pub fn new(client: Client, longest_response: usize, timeout: Duration) -> Self {
        Self { client, longest_response, timeout }
    }

    /// Changes how long each response may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends a request and reads the response, whatever its status.
    pub async fn exchange(&self, request: Request<Vec<u8>>) -> Result<ApiResponse, ApiError> {
        let exchange = async {
            let response = self.client.send(request.map(Body::from)).await;
            let response = response.map_err(ApiError::NotAnswered)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), self.longest_response).collect().await;
            let body = body.map_err(|_| ApiError::Incomplete)?;
            Ok(ApiResponse { status, body: Secret::new(body.to_bytes().to_vec()) })
        };
        let response = tokio::time::timeout(self.timeout, exchange).await;
        response.unwrap_or(Err(ApiError::Timeout(self.timeout)))
    }
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiClient")
    }
}

/// What an API server answered. The body may be a token, so it is not shown in `Debug`.
#[derive(Debug)]
pub struct ApiResponse {
    status: StatusCode,
    body: Secret<Vec<u8>>,
}

impl ApiResponse {
    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The body as it came.
    pub fn body(&self) -> &[u8] {
        self.body.expose()
    }

    /// The body as an object. The error does not quote it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, NotTheJson> {
        crate::json(self.body())
    }
}

/// Why there is no complete response. `Debug` does not show the error of `kube`, which may quote what a credential plugin printed;
/// [`plain`] describes it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The server cannot be reached, or the client has no credentials for it.
    #[error("the API server did not answer")]
    NotAnswered(Error),
    /// The server took too long.
    #[error("it gave no answer within {}", GoDuration::from(*.0))]
    Timeout(Duration),
    /// The response ended early, or is longer than any that is expected.
    #[error("its answer broke off, or does not end")]
    Incomplete,
}

impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnswered(_) => "NotAnswered",
            Self::Timeout(_) => "Timeout",
            Self::Incomplete => "Incomplete",
        })
    }
}

/// Whether an object can have this name: a DNS subdomain, roughly. Such a name cannot lead to another path.
pub fn is_name(name: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(fits)
}

/// The message of a `Status`, which may be empty; nothing if the body is no `Status`. It may repeat what the server was sent.
pub fn status_message(body: &[u8]) -> Option<String> {
    serde_json::from_slice(body).ok().map(|status: Status| status.message)
}

/// Describes why `kube` got no response, without anything that a credential plugin printed. It may repeat what the server was
/// sent.
pub fn plain(error: &Error) -> String {
    match error {
        Error::Api(status) if status.message.is_empty() => {
            format!("the API server answered {} {}", status.code, status.reason)
                .trim_end()
                .to_owned()
        }
        Error::Api(status) => status.message.clone(),
        // A parser may quote what it read.
        Error::SerdeError(_) => "the API server's answer is none of Kubernetes".to_owned(),
        Error::Auth(error) => no_credentials(error),
        Error::Service(service) => match credentials_error(error) {
            Some(error) => no_credentials(error),
            None => format!("the API server cannot be reached: {}", chain(&**service)),
        },
        other => chain(other),
    }
}

/// The innermost cause of an error of `kube`; nothing if the client has no credentials, which that cause may quote.
pub fn root_cause(error: &Error) -> Option<String> {
    match credentials_error(error) {
        Some(_) => None,
        None => causes(error).last().map(ToString::to_string),
    }
}

/// `kube` reports that it has no credentials by itself at first, and within other errors when it tries again.
fn credentials_error(error: &Error) -> Option<&AuthError> {
    match error {
        Error::Auth(error) => Some(error),
        error => causes(error).find_map(|cause| cause.downcast_ref()),
    }
}

/// Some of these errors quote what a credential plugin printed, which may be a token.
fn no_credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => {
            format!("the credential plugin of the kubeconfig cannot be started: {error}")
        }
        AuthError::AuthExecRun { out, .. } => {
            format!("the credential plugin of the kubeconfig failed: {}", out.status)
        }
        AuthError::ReadTokenFile(error, file) => {
            format!("the token file {} cannot be read: {error}", file.display())
        }
        _ => "the user of the kubeconfig has no usable credentials".to_owned(),
    }
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn chain(error: &(dyn StdError + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::ExitStatusExt as _,
        process::{ExitStatus, Output},
    };

    use super::*;

    #[test]
    fn what_a_credential_plugin_printed_is_not_shown() {
        let failed = || {
            let status = ExitStatus::from_raw(256);
            let out = Output { status, stdout: b"hunter2".into(), stderr: b"hunter2".into() };
            AuthError::AuthExecRun { cmd: "TOKEN=hunter2 plugin".to_owned(), out: Box::new(out) }
        };
        for error in [Error::Auth(failed()), Error::Service(Box::new(failed()))] {
            let shown = plain(&error);
            assert_eq!(shown, "the credential plugin of the kubeconfig failed: exit status: 1");
            assert_eq!(root_cause(&error), None);
            assert_eq!(format!("{:?}", ApiError::NotAnswered(error)), "NotAnswered");
        }
        let parsed = Error::Auth(AuthError::AuthExec("hunter2".to_owned()));
        assert_eq!(plain(&parsed), "the user of the kubeconfig has no usable credentials");
    }

    #[test]
    fn only_what_can_be_a_name_is_asked_for() {
        for name in ["app", "app-0", "com.example.csi", &"a".repeat(253)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../secrets/x", "a%2fb", "a?x", "A", &"a".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
