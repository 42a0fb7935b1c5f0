//! Why a request has no answer.

use std::{error::Error, fmt, time::Duration};

use keyfob_net::{ConnectionError, NotTheJson};
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

impl Error for HttpError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.fault {
            Fault::Connection(error) => error.source(),
            _ => None,
        }
    }
}

/// What went wrong.
#[derive(Debug, Clone, Error)]
pub(super) enum Fault {
    #[error("not an address that can be asked")]
    NotAUrl,
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("no answer within {:.1} s", .0.as_secs_f32())]
    TooSlow(Duration),
    #[error("the answer is larger than {} KiB", .0 >> 10)]
    TooLarge(usize),
    #[error("responded with status code {status}{}", said(.reason))]
    Status { status: u16, reason: String },
    #[error(transparent)]
    NotTheJson(#[from] NotTheJson),
}

fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
