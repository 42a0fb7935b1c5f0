//! What is remembered of pulls: who may use what they brought.

use std::{fmt, sync::Arc};

use tokio::runtime::Handle;

use super::LocalImage;
use crate::{Abandoned, MustPull, PodCredentials, PullAccess, PullRecords, Recorded, RecordsError};

/// Intents and records of pulls: [`PullRecords`], or what a test has in their place. Its methods may wait for files, so they are
/// not called on the threads of a runtime.
///
/// Every intent is followed by exactly one of `record_pulled` and `record_failed`, unless nobody knows which of them is
/// true: then the intent stays, and whoever wants the image must prove that he may use it.
pub trait PullLedger: Send + Sync + fmt::Debug {
    /// An image will be pulled. If that cannot be recorded, it is not.
    fn record_intent(&self, image: &str) -> Result<(), RecordsError>;

    /// It was pulled, and this is who may use it. If that cannot be recorded, the intent stays.
    fn record_pulled(
        &self,
        image: &str,
        image_id: &str,
        access: &PullAccess,
    ) -> Result<(), RecordsError>;

    /// It was not pulled.
    fn record_failed(&self, image: &str);

    /// Whether an image that is here must be pulled for a pod, as far as that can be said without its credentials.
    fn must_pull(&self, image: &str, image_id: &str) -> MustPull;

    /// The same for a pod that has these credentials.
    fn settle(&self, recorded: Recorded, credentials: &PodCredentials) -> bool;

    /// There is nothing to decide by: the pod's credentials could not be looked for.
    fn unsettled(&self, recorded: Recorded);

    /// Pulls whose end nobody saw, and that nobody looked into yet.
    fn abandoned(&self) -> Abandoned;

    /// Records what came by them, and that nobody has proved access to it. `images` is every image that is here, listed after
    /// the abandoned pulls were asked for: an older list may lack what they brought.
    fn recover(&self, abandoned: Abandoned, images: &[LocalImage]);
}

impl PullLedger for PullRecords {
    fn record_intent(&self, image: &str) -> Result<(), RecordsError> {
        Self::record_intent(self, image)
    }

    fn record_pulled(
        &self,
        image: &str,
        image_id: &str,
        access: &PullAccess,
    ) -> Result<(), RecordsError> {
        Self::record_pulled(self, image, image_id, Some(access))
    }

    fn record_failed(&self, image: &str) {
        Self::record_failed(self, image);
    }

    fn must_pull(&self, image: &str, image_id: &str) -> MustPull {
        Self::must_pull(self, image, image_id)
    }

    fn settle(&self, recorded: Recorded, credentials: &PodCredentials) -> bool {
        Self::settle(self, recorded, credentials)
    }

    fn unsettled(&self, recorded: Recorded) {
        Self::unsettled(self, recorded);
    }

    fn abandoned(&self) -> Abandoned {
        Self::abandoned(self)
    }

    fn recover(&self, abandoned: Abandoned, images: &[LocalImage]) {
        Self::recover(self, abandoned, images);
    }
}

/// Asks a ledger about an image that is here.
pub(super) async fn must_pull(
    ledger: &Arc<dyn PullLedger>,
    image: &str,
    image_id: &str,
) -> MustPull {
    let (ledger, image, image_id) = (ledger.clone(), image.to_owned(), image_id.to_owned());
    let decided = waiting_for_files(move || ledger.must_pull(&image, &image_id)).await;
    decided.unwrap_or(MustPull::Yes)
}

/// Lets a ledger decide by the pod's credentials.
pub(super) async fn settle(
    ledger: &Arc<dyn PullLedger>,
    recorded: Recorded,
    credentials: PodCredentials,
) -> bool {
    let ledger = ledger.clone();
    let decided = waiting_for_files(move || ledger.settle(recorded, &credentials)).await;
    decided.unwrap_or(true)
}

/// Does what may wait for files where nobody else waits. Nothing if the runtime is shutting down. It is done to its end
/// even if nobody waits for it any more.
pub(super) async fn waiting_for_files<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.ok(),
        Err(_) => Some(work()),
    }
}
