//! Why a host could not be asked.

use std::{error::Error, io};

use thiserror::Error;

/// Why there is no answer. Neither addresses nor bodies are quoted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The certificate is not one to trust.
    #[error("{0}: is the authority of this certificate the one to trust? --ca-file names another")]
    Certificate(String),
    /// What the environment names as a proxy is none.
    #[error("the proxy that the environment names has no valid address")]
    Proxy,
    /// There is nobody to trust.
    #[error("{0}")]
    Roots(String),
    /// The other side was silent for longer than the clients were told to wait. It may speak the next time.
    #[error("it is silent for too long")]
    Stalled,
    /// There is no way to the host, or the way ended. It may be there the next time.
    #[error("{0}")]
    Unreachable(String),
}

impl ConnectionError {
    /// The innermost cause: what stands above it repeats the address. But it may be about a proxy.
    pub fn of(error: reqwest::Error) -> Self {
        let (timed_out, error) = (error.is_timeout(), error.without_url());
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
            // The system has a limit and words of its own.
            _ if timed_out && !cause.is::<io::Error>() => Self::Stalled,
            _ => Self::Unreachable(cause.to_string()),
        }
    }

    /// The same with another text: what a server wrote into its certificate is in it.
    #[must_use]
    pub fn map_text(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Certificate(text) => Self::Certificate(change(&text)),
            Self::Roots(text) => Self::Roots(change(&text)),
            Self::Unreachable(text) => Self::Unreachable(change(&text)),
            Self::Proxy | Self::Stalled => self,
        }
    }

    /// Whether the next attempt may find it otherwise.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Stalled | Self::Unreachable(_))
    }
}

/// An I/O error keeps what it was made of to itself.
fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
