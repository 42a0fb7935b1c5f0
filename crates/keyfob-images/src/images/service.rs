//! What an image manager needs of the world.

use std::{error::Error, fmt};

use keyfob_api::ImageRef;
use keyfob_exec::BoxFuture;
use thiserror::Error;

use keyfob_keyring::Credential;

/// Whoever has the images: a container runtime, or a directory.
pub trait ImageService: Send + Sync + fmt::Debug {
    /// The id of an image that is here; nothing if it is not.
    fn image_id<'a>(
        &'a self,
        spec: &'a ImageSpec,
    ) -> BoxFuture<'a, Result<Option<String>, ImageServiceError>>;

    /// Pulls an image with one credential, or without any; its id.
    fn pull<'a>(
        &'a self,
        spec: &'a ImageSpec,
        attempt: &'a Attempt,
    ) -> BoxFuture<'a, Result<String, PullFailure>>;

    /// How large an image is that is here; nothing if that cannot be told.
    fn size<'a>(&'a self, spec: &'a ImageSpec) -> BoxFuture<'a, Option<u64>>;

    /// Every image that is here.
    fn list(&self) -> BoxFuture<'_, Result<Vec<LocalImage>, ImageServiceError>>;
}

/// Which image is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what the CRI knows an image by")]
pub struct ImageSpec {
    /// The image as the pod names it, with `:latest` if it names neither tag nor digest.
    pub image: String,
    /// The pod's annotations.
    pub annotations: Vec<(String, String)>,
    /// The pod's runtime handler; empty if it has none.
    pub runtime_handler: String,
}

/// An image that is here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct LocalImage {
    /// Its id: what records know it by.
    pub id: String,
    /// Its names with a tag.
    pub repo_tags: Vec<String>,
    /// Its names with a digest.
    pub repo_digests: Vec<String>,
}

/// One way to pull an image.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct Attempt {
    /// Where it is pulled from: the image itself, or the same on a mirror.
    pub from: ImageRef,
    /// What with; nothing is a pull without credentials.
    pub credential: Option<Credential>,
}

/// What may be tried for a pull. It is asked at most once for each image that is ensured, and only when it is needed.
pub trait PullCredentials: Send + Sync + fmt::Debug {
    /// The attempts, in order. An error is told to whoever wants the image.
    fn attempts(&self) -> BoxFuture<'_, Result<Vec<Attempt>, CredentialLookupError>>;

    /// What to try in the place of an attempt whose credential a registry refused: asked once for each.
    fn refused<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Option<Attempt>>;

    /// What went wrong while credentials were looked for, in a sentence each: whoever reads why a pull failed wants to
    /// know it. No secret is in it.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why credentials could not be looked for: the error of whoever looked, and its message.
#[derive(Error)]
#[error(transparent)]
pub struct CredentialLookupError(Box<dyn Error + Send + Sync>);

/// The message only: what an error shows to a developer may be a secret.
impl fmt::Debug for CredentialLookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialLookupError").field(&self.0.to_string()).finish()
    }
}

impl CredentialLookupError {
    /// From the error of whoever looks for credentials, or from a text.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    pub(super) fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

/// Why nothing can be said about images: the error of the service, and its message.
#[derive(Error)]
#[error(transparent)]
pub struct ImageServiceError(Box<dyn Error + Send + Sync>);

/// The message only: what an error shows to a developer may be a secret.
impl fmt::Debug for ImageServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ImageServiceError").field(&self.0.to_string()).finish()
    }
}

impl ImageServiceError {
    /// From the service's own error, or from a text.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    pub(super) fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

/// Why an image was not pulled: the error of the service, and its message. It never holds a secret.
pub struct PullFailure {
    kind: PullFailureKind,
    error: Box<dyn Error + Send + Sync>,
}

/// The kind and the message only: what an error shows to a developer may be a secret.
impl fmt::Debug for PullFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullFailure")
            .field("kind", &self.kind)
            .field("error", &self.error.to_string())
            .finish()
    }
}

impl PullFailure {
    /// From the service's own error, or from a text. Who gets to see the failed attempt can ask it for the error again:
    /// [`FailedAttempt::downcast_ref`](super::FailedAttempt::downcast_ref).
    pub fn new(kind: PullFailureKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, error: error.into() }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> PullFailureKind {
        self.kind
    }

    pub(super) fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.error
    }

    /// What a container runtime's error means, which its text begins with.
    ///
    /// Upstream: `evalCRIPullErr`.
    pub fn of_runtime(error: &str) -> Self {
        let kinds = [
            ("RegistryUnavailable", PullFailureKind::RegistryUnavailable),
            ("SignatureValidationFailed", PullFailureKind::SignatureValidationFailed),
        ];
        for (name, kind) in kinds {
            if let Some(detail) = error.strip_prefix(name) {
                return Self::new(kind, detail.trim_start_matches([':', ' ']));
            }
        }
        Self::new(PullFailureKind::Other, error)
    }
}

impl fmt::Display for PullFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for PullFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// What matters about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PullFailureKind {
    /// The registry refused the credential, or wants one.
    Refused,
    /// The registry cannot be reached, or does not work.
    RegistryUnavailable,
    /// The image's signature is wrong.
    SignatureValidationFailed,
    /// Anything else.
    Other,
}
