//! Pull records, as what an image manager remembers pulls with.

use std::{error::Error, sync::Arc};

use super::{AbandonedPulls, Access, AccessCheck, LocalImage, OpenCheck, PullLedger};
use crate::{Abandoned, MustPull, PodCredentials, PullAccess, PullRecords, Recorded};

impl PullLedger for PullRecords {
    fn record_intent(&self, image: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(Self::record_intent(self, image)?)
    }

    fn record_pulled(
        &self,
        image: &str,
        image_id: &str,
        access: &PullAccess,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(Self::record_pulled(self, image, image_id, Some(access))?)
    }

    fn record_failed(&self, image: &str) {
        Self::record_failed(self, image);
    }

    fn check(self: Arc<Self>, image: &str, image_id: &str) -> AccessCheck {
        match self.must_pull(image, image_id) {
            MustPull::Yes => AccessCheck::Settled(Access::MustPull),
            MustPull::No => AccessCheck::Settled(Access::MayUse),
            MustPull::Depends(recorded) => {
                AccessCheck::Depends(Box::new(Open { records: self, recorded }))
            }
        }
    }

    fn abandoned(self: Arc<Self>) -> Option<Box<dyn AbandonedPulls>> {
        let abandoned = Self::abandoned(&self);
        (!abandoned.is_empty()).then(|| Box::new(Halfway { records: self, abandoned }) as _)
    }
}

#[derive(Debug)]
struct Open {
    records: Arc<PullRecords>,
    recorded: Recorded,
}

impl OpenCheck for Open {
    fn settle(self: Box<Self>, credentials: &PodCredentials) -> Access {
        let must_pull = self.records.settle(self.recorded, credentials);
        if must_pull { Access::MustPull } else { Access::MayUse }
    }

    fn give_up(self: Box<Self>) {
        self.records.unsettled(self.recorded);
    }
}

#[derive(Debug)]
struct Halfway {
    records: Arc<PullRecords>,
    abandoned: Abandoned,
}

impl AbandonedPulls for Halfway {
    fn recover(self: Box<Self>, images: &[LocalImage]) {
        self.records.recover(self.abandoned, images);
    }
}
