//! Why a request has no answer.

use std::{error::Error, fmt, time::Duration};

use thiserror::Error;

/// What was asked, and why there is no answer to it. Neither queries nor bodies are quoted.
#[derive(Debug, Clone)]
pub struct HttpError {
    what: String,
    fault: Fault,
    attempts: u32,
}

impl HttpError {
    pub(super) fn new(what: String, fault: Fault) -> Self {
        Self { what, fault, attempts: 1 }
    }

    pub(super) fn after(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// The status, if there was an answer of the wrong kind.
    pub fn status(&self) -> Option<u16> {
        match self.fault {
            Fault::Status { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether no answer came in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self.fault, Fault::TooSlow(_))
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.fault)?;
        if self.attempts > 1 {
            write!(f, " (tried {} times)", self.attempts)?;
        }
        Ok(())
    }
}

impl Error for HttpError {}

/// What went wrong.
#[derive(Debug, Clone, Error)]
pub(super) enum Fault {
    #[error("not an address that can be asked")]
    NotAUrl,
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}: is the authority of this certificate the one to trust? --ca-file names another")]
    Certificate(String),
    #[error("no answer within {:.1} s", .0.as_secs_f32())]
    TooSlow(Duration),
    #[error("the answer is larger than {} KiB", .0 >> 10)]
    TooLarge(usize),
    #[error("responded with status code {status}{}", said(.reason))]
    Status { status: u16, reason: String },
    #[error("the answer is not the JSON that was expected: {0}")]
    NotTheJson(String),
    #[error("{0}")]
    Roots(String),
    #[error("the proxy that the environment names has no valid address")]
    Proxy,
}

impl Fault {
    /// The innermost cause: what stands above it repeats the address. But it may be about a proxy.
    pub(super) fn of(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut cause: &dyn Error = &error;
        let mut is_about_a_proxy = false;
        while let Some(below) = below(cause) {
            is_about_a_proxy |= below.to_string().starts_with("tunnel error");
            cause = below;
        }
        if is_about_a_proxy {
            return Self::Unreachable(format!("the proxy that the environment names: {cause}"));
        }
        match cause.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(_)) => Self::Certificate(cause.to_string()),
            _ => Self::Unreachable(cause.to_string()),
        }
    }
}

/// An I/O error keeps what it was made of to itself.
fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// `POST https://host/path`, without what may be a secret: what follows the path, and a login before the host.
pub(super) fn named(method: &http::Method, url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(url) if url.has_host() => {
            let host = url.host_str().unwrap_or_default();
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{method} {}://{host}{port}{}", url.scheme(), url.path())
        }
        _ => method.to_string(),
    }
}
