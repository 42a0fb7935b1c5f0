//! What is remembered of pulls: who may use what they brought.

use std::{error::Error, fmt, sync::Arc};

use tokio::runtime::Handle;

use super::LocalImage;
use crate::{PodCredentials, PullAccess};

/// Intents and records of pulls. Its methods may wait for files, so they are not called on the threads of a runtime.
///
/// Every intent is followed by exactly one of `record_pulled` and `record_failed`, unless nobody knows which of them is
/// true: then the intent stays, and whoever wants the image must prove that he may use it.
pub trait PullLedger: Send + Sync + fmt::Debug {
    /// An image will be pulled. If that cannot be recorded, it is not.
    fn record_intent(&self, image: &str) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// It was pulled, and this is who may use it. If that cannot be recorded, the intent stays.
    fn record_pulled(
        &self,
        image: &str,
        image_id: &str,
        access: &PullAccess,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// It was not pulled.
    fn record_failed(&self, image: &str);

    /// Whether a pod may use an image that is here.
    fn check(self: Arc<Self>, image: &str, image_id: &str) -> AccessCheck;

    /// Pulls whose end nobody saw, and that nobody looked into yet; nothing if there are none.
    fn abandoned(self: Arc<Self>) -> Option<Box<dyn AbandonedPulls>>;
}

/// Pulls whose end nobody saw.
pub trait AbandonedPulls: Send + fmt::Debug {
    /// Records what came by them, and that nobody has proved access to it. `images` is every image that is here, listed after
    /// the abandoned pulls were asked for: an older list may lack what they brought.
    fn recover(self: Box<Self>, images: &[LocalImage]);
}

/// What a ledger says of an image that is here.
#[derive(Debug)]
#[non_exhaustive]
pub enum AccessCheck {
    /// It is known without looking at the pod's credentials.
    Settled(Access),
    /// The pod's credentials decide.
    Depends(Box<dyn OpenCheck>),
}

/// Whether a pod may use an image that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// It may.
    MayUse,
    /// It must prove that it may, by pulling it.
    MustPull,
}

/// A check that waits for the pod's credentials.
pub trait OpenCheck: Send + fmt::Debug {
    /// Decides.
    fn settle(self: Box<Self>, credentials: &PodCredentials) -> Access;

    /// There is nothing to decide by: the credentials could not be looked for.
    fn give_up(self: Box<Self>);
}

/// Asks a ledger about an image that is here.
pub(super) async fn check(
    ledger: &Arc<dyn PullLedger>,
    image: &str,
    image_id: &str,
) -> AccessCheck {
    let (ledger, image, image_id) = (ledger.clone(), image.to_owned(), image_id.to_owned());
    let checked = waiting_for_files(move || ledger.check(&image, &image_id)).await;
    checked.unwrap_or(AccessCheck::Settled(Access::MustPull))
}

/// Lets an open check decide.
pub(super) async fn settle(open: Box<dyn OpenCheck>, credentials: PodCredentials) -> Access {
    let settled = waiting_for_files(move || open.settle(&credentials)).await;
    settled.unwrap_or(Access::MustPull)
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
