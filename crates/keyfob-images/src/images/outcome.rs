//! How it ended.
//!
//! Upstream: `pkg/kubelet/images/types.go`, `evalCRIPullErr` in `image_manager.go`.
//! Differs: the error of a failed pull tells every attempt: from where, with what, and why it failed. What went wrong
//! while credentials were looked for stands behind it (upstream logs that, and the pull fails for want of credentials).
//! Differs: several attempts that all find the registry unavailable, or all a wrong signature, keep that reason (upstream
//! forgets it if there are more than one).
//! Differs: if credentials cannot be looked for or the intent not be recorded, the reason is a word (upstream: the error).

use std::{error::Error, fmt, sync::Arc, time::Duration};

use keyfob_api::{Chain, ImageRef, Quoted, SecretSet};
use keyfob_exec::{on_one_line, shortened};
use keyfob_keyring::{Credential, Source};
use thiserror::Error;

use super::{Attempt, PullFailure, PullFailureKind};
use crate::RecordsError;

/// An image that is here for the pod to use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ensured {
    /// Its id.
    pub image_id: String,
    /// How it came here; nothing if it was here before.
    pub pulled: Option<Pulled>,
}

/// A pull that succeeded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pulled {
    /// From where, and with what.
    pub attempt: Attempt,
    /// What was tried before.
    pub failed: Vec<FailedAttempt>,
    /// How large the image is; nothing if nobody can tell.
    pub size: Option<u64>,
    /// How long the pull took.
    pub took: Duration,
    /// The same with the time that it waited for other pulls.
    pub took_with_waiting: Duration,
    /// Why it could not be recorded who may use the image; nothing if it was, or if nothing is recorded. A kubelet logs it
    /// and goes on. The intent stays, so that every pod must prove its access anew.
    pub unrecorded: Option<Arc<RecordsError>>,
}

/// Why an image is not here for the pod to use. The message is for people, and holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct EnsureError {
    /// Which kind of failure.
    pub reason: EnsureReason,
    /// What happened.
    pub message: String,
    /// What was tried, in order. During a back-off, what was tried before it.
    pub attempts: Vec<FailedAttempt>,
    cause: Option<Cause>,
}

/// An error that is kept for whoever knows its type. It is shown to nobody: whether it holds a secret of another attempt is
/// not known.
#[derive(Clone)]
struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cause(..)")
    }
}

/// Clones are equal.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cause {}

/// What a container's status has as the `reason` for which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EnsureReason {
    /// The image's name is none.
    InvalidImageName,
    /// Nobody can say whether the image is here.
    ImageInspectError,
    /// The image is not here, or not for this pod, and may not be pulled.
    ErrImageNeverPull,
    /// The credentials could not be looked for.
    CredentialLookupFailed,
    /// It could not be written down that the image will be pulled, so it is not.
    PullIntentNotRecorded,
    /// The pull failed a while ago and is not tried yet.
    ImagePullBackOff,
    /// The pull failed.
    ErrImagePull,
    /// The registry cannot be reached, or does not work.
    RegistryUnavailable,
    /// The image's signature is wrong.
    SignatureValidationFailed,
}

impl EnsureReason {
    /// The name that Kubernetes has for it, if it has one.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidImageName => "InvalidImageName",
            Self::ImageInspectError => "ImageInspectError",
            Self::ErrImageNeverPull => "ErrImageNeverPull",
            Self::CredentialLookupFailed => "CredentialLookupFailed",
            Self::PullIntentNotRecorded => "PullIntentNotRecorded",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::ErrImagePull => "ErrImagePull",
            Self::RegistryUnavailable => "RegistryUnavailable",
            Self::SignatureValidationFailed => "SignatureValidationFailed",
        }
    }
}

impl fmt::Display for EnsureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An attempt that failed: from where, with what, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// From where.
    pub from: ImageRef,
    /// With what; nothing if it was without credentials.
    pub with: Option<UsedLogin>,
    /// What kind of failure it was.
    pub kind: PullFailureKind,
    /// What happened, on one line, not too long, and without the secrets of any attempt.
    pub message: String,
    cause: Cause,
}

/// What may be said of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsedLogin {
    /// Where it came from.
    pub source: Source,
    /// Its user name.
    pub username: String,
}

impl FailedAttempt {
    /// An attempt and why it failed. The service promises not to tell secrets, but a registry may have had it repeat one: of
    /// this attempt, or of another. `secrets` are those of all attempts; this one's are learned.
    pub(super) fn new(attempt: &Attempt, failure: PullFailure, secrets: &SecretSet) -> Self {
        let credential = attempt.credential.as_ref();
        learn(secrets, credential);
        let message = secrets.redact(&Chain(&failure).to_string());
        Self {
            from: attempt.from.clone(),
            with: credential.map(|used| UsedLogin {
                source: used.source().clone(),
                username: used.username().to_owned(),
            }),
            kind: failure.kind(),
            message: on_one_line(&shortened(&message, 2_000)),
            cause: Cause(failure.into_inner().into()),
        }
    }

    /// The error that the [`ImageService`](super::ImageService) gave, if it is of this type. Decide by it, but show the message:
    /// only that is known to be without the secrets of other attempts.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    /// Without secrets that became known later.
    pub(super) fn redacted(mut self, secrets: &SecretSet) -> Self {
        self.message = secrets.redact(&self.message);
        self
    }

    /// Whether its credential is to blame.
    pub(super) fn was_refused(&self) -> bool {
        self.with.is_some() && self.kind == PullFailureKind::Refused
    }

    /// Whether there is nothing to tell but why.
    fn is_plain(&self, image: &ImageRef) -> bool {
        self.with.is_none() && self.from == *image
    }
}

impl fmt::Display for FailedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.with {
            None => write!(f, "{} without credentials", self.from)?,
            Some(UsedLogin { source, username }) => {
                let username = on_one_line(&shortened(username, 64));
                write!(f, "{} with {source} as {}", self.from, Quoted(username))?;
            }
        }
        write!(f, ": {}", self.message)
    }
}

/// From here on a credential is hidden.
pub(super) fn learn<'a>(
    secrets: &SecretSet,
    credentials: impl IntoIterator<Item = &'a Credential>,
) {
    for credential in credentials {
        secrets.learn_login(credential.username(), credential.password());
    }
}

impl EnsureError {
    pub(super) fn new(reason: EnsureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), attempts: Vec::new(), cause: None }
    }

    /// Keeps the error that is behind it.
    pub(super) fn caused_by(mut self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(Cause(error.into().into()));
        self
    }

    /// The error that is behind it, if it is of this type: of the service that cannot inspect the image, of whoever looked for
    /// credentials, or of the records. The errors of failed pulls are those of the attempts.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.cause.as_ref()?.downcast_ref()
    }

    /// What a pull says of which every attempt failed. `name` is what the pod calls the image.
    pub(super) fn of_attempts(
        name: &str,
        image: &ImageRef,
        attempts: Vec<FailedAttempt>,
        notes: &[String],
    ) -> Self {
        let (reason, what) = match common_kind(&attempts) {
            Some(PullFailureKind::RegistryUnavailable) => {
                (EnsureReason::RegistryUnavailable, "the registry is unavailable")
            }
            Some(PullFailureKind::SignatureValidationFailed) => {
                (EnsureReason::SignatureValidationFailed, "the signature validation failed")
            }
            _ => (EnsureReason::ErrImagePull, ""),
        };
        let told = match attempts.as_slice() {
            [only] if !what.is_empty() && only.is_plain(image) => only.message.clone(),
            all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        };
        let mut message = match (what, told.as_str()) {
            ("", told) => told.to_owned(),
            (what, "") => format!("image pull failed for {name} because {what}"),
            (what, told) => format!("image pull failed for {name} because {what}: {told}"),
        };
        for note in notes {
            message += "; ";
            message += note;
        }
        Self { reason, message, attempts, cause: None }
    }
}

/// What all attempts failed for.
fn common_kind(attempts: &[FailedAttempt]) -> Option<PullFailureKind> {
    let (first, rest) = attempts.split_first()?;
    let kind = first.kind;
    rest.iter().all(|each| each.kind == kind).then_some(kind)
}

#[cfg(test)]
mod tests;
