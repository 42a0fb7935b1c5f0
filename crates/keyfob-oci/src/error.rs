//! Why an image was not pulled.

use std::time::Duration;

use keyfob_api::SecretSet;
use keyfob_net::ConnectionError;
use thiserror::Error;

use crate::{Digest, LayoutError, ManifestError, Platform};

/// Why an image was not pulled. It holds no secret: what servers say is cut, redacted and on one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PullError {
    /// A server answers something that it must not. Nobody can help but its owner.
    #[error("{what}: {reason}")]
    BadAnswer {
        /// What was asked.
        what: String,
        /// What is wrong with the answer. A text, because secrets that the server repeated are cut out of it.
        reason: String,
    },
    /// No connection can be made, and none could be made later: the settings are wrong, or the other side is.
    #[error("{what} failed")]
    Connection {
        /// What was asked.
        what: String,
        /// What is wrong.
        #[source]
        reason: ConnectionError,
    },
    /// Something is wrong on this side.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A document is none that can be used.
    #[error("{what} gave no manifest that can be used")]
    Manifest {
        /// What was asked.
        what: String,
        /// What is wrong.
        #[source]
        reason: ManifestError,
    },
    /// There is no such image, or content of one.
    #[error("{what}: not found{}", said(.reason))]
    NotFound {
        /// What was asked.
        what: String,
        /// What the server says.
        reason: String,
    },
    /// The image is not for the platform that was asked for.
    #[error("{image} is not for {wanted}: it is for {}", listed(.offered))]
    Platform {
        /// Which image.
        image: String,
        /// For what it was asked for.
        wanted: Box<Platform>,
        /// For what it is.
        offered: Vec<Platform>,
    },
    /// Plain http, where it is not allowed. Nothing was sent.
    #[error(
        "{address}: plain http is spoken only with this machine and with hosts that are named as insecure, and {why}"
    )]
    PlainHttp {
        /// Where it leads.
        address: String,
        /// Who wanted it.
        why: &'static str,
    },
    /// The registry in an image's name is an address to no host.
    #[error("{image}: its registry is no host that can be asked")]
    Registry {
        /// Which image.
        image: String,
    },
    /// The registry or its token server refused the credential, or wants one. Another may do.
    #[error("{what}: refused with status code {status}{}", said(.reason))]
    Refused {
        /// What was asked.
        what: String,
        /// 401 or 403, mostly.
        status: u16,
        /// What the server says.
        reason: String,
    },
    /// The registry, its token server or its storage cannot be reached or does not work. It was asked several times.
    #[error("{what}: {reason}{}", tried(*.attempts))]
    Unavailable {
        /// What was asked.
        what: String,
        /// What happened.
        reason: String,
        /// For how long it does not want to be asked again, if it says so.
        retry_after: Option<Duration>,
        /// How often it was asked.
        attempts: u32,
    },
    /// A content is not what its name says.
    #[error("{what}: the content has the digest {found} and not {wanted}")]
    WrongDigest {
        /// What was asked.
        what: String,
        /// The name.
        wanted: Digest,
        /// The content's own.
        found: Digest,
    },
}

impl PullError {
    /// The same without the secrets that a server may have repeated: in an address, a message, or the name of a platform.
    pub(crate) fn redacted(self, secrets: &SecretSet) -> Self {
        let hide = |text: String| secrets.redact(&text);
        match self {
            Self::BadAnswer { what, reason } => {
                Self::BadAnswer { what: hide(what), reason: hide(reason) }
            }
            Self::Connection { what, reason } => {
                let reason = reason.map_text(|text| secrets.redact(text));
                Self::Connection { what: hide(what), reason }
            }
            Self::Manifest { what, reason } => {
                let reason = reason.map_text(|text| secrets.redact(text));
                Self::Manifest { what: hide(what), reason }
            }
            Self::NotFound { what, reason } => {
                Self::NotFound { what: hide(what), reason: hide(reason) }
            }
            Self::Platform { image, wanted, offered } => {
                let offered = offered.into_iter().map(|each| each.map_text(hide)).collect();
                Self::Platform { image, wanted, offered }
            }
            Self::PlainHttp { address, why } => Self::PlainHttp { address: hide(address), why },
            Self::Refused { what, status, reason } => {
                Self::Refused { what: hide(what), status, reason: hide(reason) }
            }
            Self::Unavailable { what, reason, retry_after, attempts } => {
                let (what, reason) = (hide(what), hide(reason));
                Self::Unavailable { what, reason, retry_after, attempts }
            }
            Self::WrongDigest { what, wanted, found } => {
                let name = wanted.to_string();
                if secrets.redact(&name) == name {
                    return Self::WrongDigest { what: hide(what), wanted, found };
                }
                let reason = "the content has another digest than its name says".into();
                Self::BadAnswer { what: hide(what), reason }
            }
            Self::Layout(_) | Self::Registry { .. } => self,
        }
    }

    /// No answer, or one that broke off.
    pub(crate) fn unanswered(what: String, error: ConnectionError) -> Self {
        if error.may_pass() {
            Self::unavailable(what, error.to_string())
        } else {
            Self::Connection { what, reason: error }
        }
    }

    pub(crate) fn unavailable(what: String, reason: String) -> Self {
        Self::Unavailable { what, reason, retry_after: None, attempts: 1 }
    }

    /// The same, after so many attempts.
    pub(crate) fn after(mut self, tried: u32) -> Self {
        if let Self::Unavailable { attempts, .. } = &mut self {
            *attempts = tried;
        }
        self
    }
}

fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

fn tried(attempts: u32) -> String {
    if attempts > 1 { format!(" (tried {attempts} times)") } else { String::new() }
}

/// There may be many, and they are a stranger's words.
fn listed(platforms: &[Platform]) -> String {
    const MOST: usize = 20;
    let shown = platforms.iter().take(MOST).map(ToString::to_string).collect::<Vec<_>>();
    let more = if platforms.len() > MOST { ", …" } else { "" };
    let text = keyfob_exec::on_one_line(&format!("{}{more}", shown.join(", ")));
    match text.as_str() {
        "" => "no platform that it names".into(),
        _ => keyfob_exec::shortened(&text, 500),
    }
}
