//! From an image that a pod wants to one that it may use.
//!
//! Upstream: `EnsureImageExists` in `pkg/kubelet/images/image_manager.go` (1.37).
//! Differs: a pod that may never pull learns nothing of an image that is here for others, not even if its credentials
//! could not be looked for (upstream's error tells that then).
//! Differs: an image that cannot be inspected is named in the error (upstream names nothing).

mod build;
mod pull;
mod request;

use std::{fmt, sync::Arc};

use keyfob_api::{Chain, ImageRef, Quoted};
use keyfob_exec::Clock;

pub use build::ImageManagerBuilder;

use super::{
    EnsureError, EnsureReason, Ensured, EventReason, ImageEvent, ImageService, ImageServiceError,
    ImageSpec, PullCredentials, PullLedger, PullPolicy, Wanted,
    backoff::PullBackoff,
    events::{EventSink, ProgressSink},
    ledger::{self, waiting_for_files},
    limits::Gate,
    lookup::Lookup,
    metrics::Metrics,
};
use crate::{MustPull, PodCredentials};
use request::EnsureRequest;

/// Sees to it that images are here for the pods that may use them.
pub struct ImageManager {
    service: Arc<dyn ImageService>,
    /// Nothing if every pod may use what is here: upstream's gate `KubeletEnsureSecretPulledImages` is off.
    ledger: Option<Arc<dyn PullLedger>>,
    clock: Arc<dyn Clock>,
    events: Box<EventSink>,
    progress: Box<ProgressSink>,
    pub(super) metrics: Metrics,
    backoff: PullBackoff,
    gate: Gate,
}

/// What a pod wants, understood.
struct Order<'a> {
    wanted: &'a Wanted,
    image: ImageRef,
    spec: ImageSpec,
    /// Whether it is here, and not for this pod as far as is known.
    is_here: bool,
}

impl ImageManager {
    /// A manager of whatever images this service has.
    pub fn builder(service: Arc<dyn ImageService>) -> ImageManagerBuilder {
        ImageManagerBuilder::new(service)
    }

    /// Sees to it that an image is here and that the pod may use it. Credentials are asked for only if they are needed.
    ///
    /// Dropping the future gives up the pull. If the image may have come all the same, whoever wants it next must prove that
    /// he may use it.
    pub async fn ensure(
        &self,
        wanted: &Wanted,
        credentials: &dyn PullCredentials,
    ) -> Result<Ensured, EnsureError> {
        let mut request = EnsureRequest::new(&self.metrics, wanted.policy);
        let image = self.read(wanted)?;
        let mut order = Order { wanted, spec: wanted.spec(&image), image, is_here: false };
        let mut lookup = Lookup::new(credentials);
        if let Some(image_id) = self.present(&order, &mut request).await? {
            if !self.must_pull(&order, &image_id, &mut lookup).await? {
                request.pull_required = Some(false);
                self.tell_present(wanted);
                return Ok(Ensured { image_id, pulled: None });
            }
            order.is_here = true;
        }
        request.pull_required = Some(true);
        if wanted.policy == PullPolicy::Never {
            return Err(self.not_present(wanted));
        }
        self.pull(&order, &mut lookup).await
    }

    /// Sees what became of pulls whose end nobody saw: to be called at the start, and done before each pull. Images are listed
    /// only if there are such pulls.
    pub async fn recover(&self) -> Result<(), ImageServiceError> {
        let Some(ledger) = self.ledger.clone() else { return Ok(()) };
        let asked = ledger.clone();
        let abandoned = waiting_for_files(move || asked.abandoned()).await.unwrap_or_default();
        if !abandoned.is_empty() {
            let images = self.service.list().await?;
            waiting_for_files(move || ledger.recover(abandoned, &images)).await;
        }
        Ok(())
    }

    fn read(&self, wanted: &Wanted) -> Result<ImageRef, EnsureError> {
        ImageRef::parse(&wanted.image).map_err(|error| {
            let name = Quoted(&wanted.image);
            let message = format!("Failed to apply default image tag {name}: {error}");
            self.tell(wanted, EventReason::InspectFailed, &message);
            EnsureError::new(EnsureReason::InvalidImageName, message)
        })
    }

    /// The id of an image that is here; nothing if it must be pulled anyway.
    async fn present(
        &self,
        Order { wanted, spec, .. }: &Order<'_>,
        request: &mut EnsureRequest<'_>,
    ) -> Result<Option<String>, EnsureError> {
        if wanted.policy == PullPolicy::Always {
            return Ok(None);
        }
        let found = self.service.image_id(spec).await.map_err(|error| {
            let (name, why) = (Quoted(&spec.image), Chain(&error));
            let message = format!("Failed to inspect image {name}: {why}");
            self.tell(wanted, EventReason::InspectFailed, &message);
            EnsureError::new(EnsureReason::ImageInspectError, message).caused_by(error.into_inner())
        })?;
        let found = found.filter(|image_id| !image_id.is_empty());
        request.present_locally = Some(found.is_some());
        if found.is_none() && wanted.policy == PullPolicy::Never {
            return Err(self.not_present(wanted));
        }
        Ok(found)
    }

    /// Whether an image that is here must be pulled, because the pod may not use it yet.
    async fn must_pull(
        &self,
        Order { wanted, .. }: &Order<'_>,
        image_id: &str,
        lookup: &mut Lookup<'_>,
    ) -> Result<bool, EnsureError> {
        let Some(ledger) = &self.ledger else { return Ok(false) };
        let recorded = match ledger::must_pull(ledger, &wanted.image, image_id).await {
            MustPull::Yes => return Ok(true),
            MustPull::No => return Ok(false),
            MustPull::Depends(recorded) => recorded,
        };
        let proof = lookup.attempts().await.map(PodCredentials::of);
        match proof {
            Ok(proof) => Ok(ledger::settle(ledger, recorded, proof).await),
            Err(error) => {
                let ledger = ledger.clone();
                waiting_for_files(move || ledger.unsettled(recorded)).await;
                if wanted.policy != PullPolicy::Never {
                    return Err(error);
                }
                let image = &wanted.image;
                tracing::warn!(image, %error, "the pod cannot prove that it may use an image that is here");
                Err(self.not_present(wanted))
            }
        }
    }

    fn tell_present(&self, wanted: &Wanted) {
        let also = if self.ledger.is_some() { " and can be accessed by the pod" } else { "" };
        let name = Quoted(&wanted.image);
        let message = format!("Container image {name} already present on machine{also}");
        self.tell(wanted, EventReason::Pulled, &message);
    }

    /// The same for an image that is not here and for one that is not for this pod: it must not learn which.
    fn not_present(&self, wanted: &Wanted) -> EnsureError {
        let name = Quoted(&wanted.image);
        let message = format!("Container image {name} is not present with pull policy of Never");
        self.tell(wanted, EventReason::ErrImageNeverPull, &message);
        EnsureError::new(EnsureReason::ErrImageNeverPull, message)
    }

    fn tell(&self, wanted: &Wanted, reason: EventReason, message: &str) {
        (self.events)(wanted, &ImageEvent { reason, message: message.to_owned() });
    }
}

impl fmt::Debug for ImageManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, ledger, .. } = self;
        let mut shown = f.debug_struct("ImageManager");
        shown.field("service", service).field("ledger", ledger).finish_non_exhaustive()
    }
}
