//! Why a host could not be asked.

use std::{error::Error, io, path::PathBuf, sync::Arc};

use rustls::{client::VerifierBuilderError, pki_types::pem};
use thiserror::Error;

/// Why there is no answer. Neither addresses nor bodies are quoted.
///
/// What went wrong with a server is a text and no source: the errors of reqwest and hyper quote the address, with its query, and the
/// innermost one what the server wrote into its certificate, which callers redact ([`ConnectionError::map_text`]).
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The certificate is not one to trust.
    #[error("{0}: is the authority of this certificate the one to trust? --ca-file names another")]
    Certificate(String),
    /// What the environment names as a proxy is none.
    #[error("the proxy that the environment names has no valid address")]
    Proxy,
    /// There is nobody to trust.
    #[error(transparent)]
    Roots(#[from] RootsError),
    /// The other side was silent for longer than the clients were told to wait. It may speak the next time.
    #[error("it is silent for too long")]
    Stalled,
    /// There is no way to the host, or the way ended. It may be there the next time.
    #[error("{0}")]
    Unreachable(String),
}

/// Why there are no certificates to trust. It says nothing of a server, so it has no secret.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum RootsError {
    /// Nothing is trusted on this machine.
    #[error(
        "this machine has no trusted certificates: install ca-certificates, or name a file with --ca-file"
    )]
    NoneOnMachine,
    /// What was named holds no certificate.
    #[error("no certificate in {0}: it must be PEM")]
    NoCertificate(String),
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: Arc<io::Error>,
    },
    /// What was named is no PEM.
    #[error("{named} is not PEM")]
    Pem {
        /// The file, or what else has the certificates.
        named: String,
        /// What is wrong.
        source: Arc<pem::Error>,
    },
    /// The certificates cannot be trusted.
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
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
            Self::Unreachable(text) => Self::Unreachable(change(&text)),
            Self::Proxy | Self::Roots(_) | Self::Stalled => self,
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
