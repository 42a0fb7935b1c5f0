//! A client of the agent's sockets, for Rust programs and the command line.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use keyfob_api::Secret;
use keyfob_exec::probe_socket;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    net::UnixStream,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// The longest answer that is read.
const MAX_ANSWER: usize = 8 << 20;
/// How long an answer may take: longer than the agent's own limit, so that the agent says what is wrong.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a client waits for a place in the queue of a socket, and how often it tries.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
const CONNECT_PAUSE: Duration = Duration::from_millis(10);
/// How long the answer to a probe may take.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// Asks an agent over one of its sockets. Each request has a connection of its own.
#[derive(Clone, Debug)]
pub struct AgentClient {
    socket: PathBuf,
}

/// What an agent hands out for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCredentials {
    /// The rule that allowed it.
    pub rule: String,
    /// The credentials, in the order in which they should be tried.
    pub credentials: Vec<AgentCredential>,
}

/// One credential.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCredential {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret<String>,
    /// The provider that it comes from.
    pub provider: String,
    /// When it expires, in RFC 3339, if that is known.
    pub expires: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentClientError {
    /// Nobody listens on the socket, or there is none.
    #[error("the agent is not running: {}", socket.display())]
    Down {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// This user may not connect to the socket.
    #[error("no access to the agent: {}", socket.display())]
    NoAccess {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// So many connections wait for the agent that it takes no more: it is stopped or overloaded.
    #[error("the agent is busy, and its queue of connections is full: {}", socket.display())]
    Busy {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket cannot be used for another reason, such as a file in the place of a directory.
    #[error("cannot connect to the agent: {}", socket.display())]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The agent refuses, in its own words.
    #[error("{message}")]
    Refused {
        /// The status of the answer.
        status: StatusCode,
        /// What is wrong.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// The conversation broke off.
    #[error("the agent did not answer")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer is not one of an agent.
    #[error("the answer is not one of a Keyfob agent")]
    NotAnAgent,
}

impl AgentClientError {
    fn connecting(socket: &Path, source: io::Error) -> Self {
        let socket = socket.to_owned();
        match source.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Self::Down { socket, source },
            ErrorKind::PermissionDenied => Self::NoAccess { socket, source },
            ErrorKind::WouldBlock => Self::Busy { socket },
            _ => Self::Unreachable { socket, source },
        }
    }

    /// Whether there was no connection. Then the error names the socket.
    pub fn is_connect(&self) -> bool {
        match self {
            Self::Down { .. }
            | Self::NoAccess { .. }
            | Self::Busy { .. }
            | Self::Unreachable { .. } => true,
            Self::Refused { .. } | Self::Broken(_) | Self::NotAnAgent => false,
        }
    }
}

impl AgentClient {
    /// A client of this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The credentials for an image.
    pub async fn credentials(&self, image: &str) -> Result<AgentCredentials, AgentClientError> {
        #[derive(Deserialize)]
        struct Answer {
            rule: String,
            credentials: Vec<Credential>,
        }
        #[derive(Deserialize)]
        struct Credential {
            username: String,
            password: String,
            provider: String,
            expires: Option<String>,
        }
        let body = json!({ "image": image });
        let answer = self.request(Method::POST, "/v1/credentials", body.to_string()).await?;
        let answer: Answer =
            serde_json::from_slice(answer.expose()).map_err(|_| AgentClientError::NotAnAgent)?;
        let credentials = answer.credentials.into_iter().map(|each| AgentCredential {
            username: each.username,
            password: Secret::new(each.password),
            provider: each.provider,
            expires: each.expires,
        });
        Ok(AgentCredentials { rule: answer.rule, credentials: credentials.collect() })
    }

    /// Which rule decides about an image, for the caller itself or (for root) for another one.
    pub async fn explain(
        &self,
        image: &str,
        other: Option<&str>,
    ) -> Result<Value, AgentClientError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("image", image);
        if let Some(other) = other {
            query.append_pair("as", other);
        }
        self.json(Method::GET, &format!("/v1/explain?{}", query.finish()), String::new()).await
    }

    /// How the agent is doing. Only on the administrators' socket, as are the following.
    pub async fn status(&self) -> Result<Value, AgentClientError> {
        self.json(Method::GET, "/v1/status", String::new()).await
    }

    /// Lets the agent read its files again.
    pub async fn reload(&self) -> Result<Value, AgentClientError> {
        self.json(Method::POST, "/v1/reload", String::new()).await
    }

    /// Lets the agent forget cached answers, all or those of an image or a provider.
    pub async fn forget(
        &self,
        image: Option<&str>,
        provider: Option<&str>,
    ) -> Result<Value, AgentClientError> {
        let body = json!({ "image": image, "provider": provider });
        self.json(Method::POST, "/v1/forget", body.to_string()).await
    }

    /// The metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String, AgentClientError> {
        let answer = self.request(Method::GET, "/metrics", String::new()).await?;
        String::from_utf8(answer.expose().clone()).map_err(|_| AgentClientError::NotAnAgent)
    }

    /// Whether the agent is ready for requests: an error says why it is not. Only on the socket of `listeners.http`.
    pub async fn ready(&self) -> Result<(), AgentClientError> {
        self.probe("/readyz").await
    }

    /// Whether the agent answers at all. Only on the socket of `listeners.http`.
    pub async fn alive(&self) -> Result<(), AgentClientError> {
        self.probe("/healthz").await
    }

    /// Whether somebody listens on the socket, which an agent that is busy does too. An error says why nobody can be reached.
    pub fn check_listening(&self) -> Result<(), AgentClientError> {
        probe_socket(&self.socket)
            .map_err(|error| AgentClientError::connecting(&self.socket, error))
    }

    async fn probe(&self, path: &str) -> Result<(), AgentClientError> {
        let asked = timeout(PROBE_PATIENCE, self.exchange(Method::GET, path, String::new())).await;
        let (status, answer) = asked.map_err(|late| AgentClientError::Broken(Box::new(late)))??;
        if status.is_success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(answer.expose()).trim_end().to_owned();
        Err(AgentClientError::Refused { status, message, help: None })
    }

    async fn json(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Value, AgentClientError> {
        let answer = self.request(method, path, body).await?;
        serde_json::from_slice(answer.expose()).map_err(|_| AgentClientError::NotAnAgent)
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Secret<Vec<u8>>, AgentClientError> {
        let asked = timeout(PATIENCE, self.exchange(method, path, body)).await;
        let (status, answer) = asked.map_err(|late| AgentClientError::Broken(Box::new(late)))??;
        if status.is_success() { Ok(answer) } else { Err(refused(status, answer.expose())) }
    }

    /// Connects, also if so many others do at this moment that the queue of the socket is full.
    async fn connect(&self) -> Result<UnixStream, AgentClientError> {
        let begun = Instant::now();
        loop {
            match UnixStream::connect(&self.socket).await {
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock
                        && begun.elapsed() < CONNECT_PATIENCE =>
                {
                    sleep(CONNECT_PAUSE).await;
                }
                connected => {
                    return connected
                        .map_err(|error| AgentClientError::connecting(&self.socket, error));
                }
            }
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<(StatusCode, Secret<Vec<u8>>), AgentClientError> {
        let stream = self.connect().await?;
        let broken = |error: hyper::Error| AgentClientError::Broken(Box::new(error));
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // Ends with this function.
        let _driver = AbortOnDrop(tokio::spawn(connection));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "keyfob-agent")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| AgentClientError::Broken(Box::new(error)))?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let answer = answer.map_err(AgentClientError::Broken)?;
        Ok((status, Secret::new(answer.to_bytes().to_vec())))
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn refused(status: StatusCode, body: &[u8]) -> AgentClientError {
    #[derive(Deserialize)]
    struct Answer {
        error: Refusal,
    }
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
        help: Option<String>,
    }
    match serde_json::from_slice::<Answer>(body) {
        Ok(Answer { error }) => {
            AgentClientError::Refused { status, message: error.message, help: error.help }
        }
        Err(_) => AgentClientError::NotAnAgent,
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_an_agent_that_nobody_listens_for_is_not_running() {
        let message = |errno: Errno| {
            let error = AgentClientError::connecting(Path::new("/a.sock"), errno.into());
            assert!(error.is_connect());
            error.to_string()
        };
        for (errnos, expected) in [
            ([Errno::NOENT, Errno::CONNREFUSED], "the agent is not running: /a.sock"),
            ([Errno::ACCESS, Errno::PERM], "no access to the agent: /a.sock"),
            (
                [Errno::AGAIN, Errno::WOULDBLOCK],
                "the agent is busy, and its queue of connections is full: /a.sock",
            ),
            ([Errno::NOTDIR, Errno::MFILE], "cannot connect to the agent: /a.sock"),
        ] {
            assert_eq!(errnos.map(message), [expected; 2]);
        }
    }
}
