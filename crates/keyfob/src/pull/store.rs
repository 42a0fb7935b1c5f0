//! A layout as the images of a node. It tells what it does, and remembers what was in its way.

use std::sync::{Mutex, MutexGuard, PoisonError};

use keyfob_api::{ImageRef, Quoted, SecretSet};
use keyfob_exec::shortened;
use keyfob_images::{
    Attempt, FailedAttempt, ImageService, ImageServiceError, ImageSpec, LocalImage, PullFailure,
    PullFailureKind, Serving,
};
use keyfob_keyring::Credential;
use keyfob_oci::{PullError, Puller, StoredImage};

use super::screen::Screen;

/// What is in the way of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The registry lets nobody in without a credential, or not with this one.
    Refused,
    /// The registry is away, or busy.
    Unavailable,
    /// There is no such image, or none for the platform.
    NoSuchImage,
    /// Plain http, or no TLS that can be trusted.
    Connection,
    /// The disk is full, or somebody else's.
    Unwritable,
    /// Anything else.
    Other,
}

/// A layout that is pulled into.
#[derive(Debug)]
pub(super) struct Store {
    puller: Puller,
    screen: Screen,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The image was here when it was asked for.
    is_here: bool,
    obstacles: Vec<Obstacle>,
}

impl Store {
    pub(super) fn new(puller: Puller, screen: Screen) -> Self {
        Self { puller, screen, seen: Mutex::default() }
    }

    /// The secrets of everything that is tried.
    pub(super) fn secrets(&self) -> &SecretSet {
        self.puller.client().secrets()
    }

    /// What was in the way, in the order of the attempts.
    pub(super) fn obstacles(&self) -> Vec<Obstacle> {
        self.lock().obstacles.clone()
    }

    /// The image in the layout. One that cannot be read is not there: whoever wanted it was told.
    pub(super) fn stored(&self, image: &ImageRef) -> Option<StoredImage> {
        self.puller.layout().find(image, self.puller.platform()).ok()?
    }

    fn begin(&self, attempt: &Attempt) {
        let seen = self.lock();
        if seen.is_here && seen.obstacles.is_empty() {
            self.screen.say("it is here, and whoever pulls has not proved that it may be used");
        }
        drop(seen);
        self.screen.say(&format!("pulling {}", described(attempt)));
    }

    fn failed(&self, attempt: &Attempt, error: PullError) -> PullFailure {
        self.lock().obstacles.push(Obstacle::of(&error));
        let failure = PullFailure::from(error);
        // Without what a registry may have repeated of a credential.
        let told = FailedAttempt::new(attempt, &failure, self.secrets()).failure;
        self.screen.say(&format!("{}: {told}", verb(told.kind)));
        failure
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ImageService for Store {
    fn image_id<'a>(
        &'a self,
        spec: &'a ImageSpec,
    ) -> Serving<'a, Result<Option<String>, ImageServiceError>> {
        Box::pin(async {
            let found = self.puller.image_id(spec).await?;
            self.lock().is_here = found.is_some();
            Ok(found)
        })
    }

    fn pull<'a>(
        &'a self,
        spec: &'a ImageSpec,
        attempt: &'a Attempt,
    ) -> Serving<'a, Result<String, PullFailure>> {
        Box::pin(async {
            let name = ImageRef::parse(&spec.image).map_err(|error| PullFailure {
                kind: PullFailureKind::Other,
                message: error.to_string(),
            })?;
            self.begin(attempt);
            let login = attempt.credential.as_ref().map(Credential::login);
            let pulled = self.puller.pull_image(&name, &attempt.from, login).await;
            let image = pulled.map_err(|error| self.failed(attempt, error))?;
            Ok(image.id.to_string())
        })
    }

    fn size<'a>(&'a self, spec: &'a ImageSpec) -> Serving<'a, Option<u64>> {
        self.puller.size(spec)
    }

    fn list(&self) -> Serving<'_, Result<Vec<LocalImage>, ImageServiceError>> {
        self.puller.list()
    }
}

impl Obstacle {
    fn of(error: &PullError) -> Self {
        match error {
            PullError::Refused { .. } => Self::Refused,
            PullError::Unavailable { .. } => Self::Unavailable,
            PullError::NotFound { .. } | PullError::Platform { .. } => Self::NoSuchImage,
            PullError::Connection { .. } | PullError::PlainHttp { .. } => Self::Connection,
            PullError::Layout(_) => Self::Unwritable,
            _ => Self::Other,
        }
    }
}

fn verb(kind: PullFailureKind) -> &'static str {
    match kind {
        PullFailureKind::Refused => "refused",
        PullFailureKind::RegistryUnavailable => "unavailable",
        _ => "failed",
    }
}

/// From where, and with what.
fn described(Attempt { from, credential }: &Attempt) -> String {
    match credential {
        None => format!("{from} without credentials"),
        Some(login) => {
            let (source, username) = (login.source(), shortened(login.username(), 64));
            format!("{from} with {source} as {}", Quoted(username))
        }
    }
}
