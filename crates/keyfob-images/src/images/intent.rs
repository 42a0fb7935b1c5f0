//! An intent to pull that is written down, and how it comes off the books.
//!
//! Differs: a pull that is given up, because whoever wanted it left, may have brought the image all the same: then its
//! intent stays. Upstream waits for its end.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{PullLedger, ledger::waiting_for_files};
use crate::{PullAccess, RecordsError};

/// Off the books when it is dropped, as if the pull had failed, unless the image may have come meanwhile.
#[derive(Debug)]
pub(super) struct Intent {
    written: Option<Written>,
    may_have_landed: bool,
}

#[derive(Debug)]
struct Written {
    ledger: Arc<dyn PullLedger>,
    image: String,
}

impl Intent {
    /// Writes it down, if there is a ledger.
    pub(super) async fn record(
        ledger: Option<&Arc<dyn PullLedger>>,
        image: &str,
    ) -> Result<Self, RecordsError> {
        let Some(ledger) = ledger else {
            return Ok(Self { written: None, may_have_landed: false });
        };
        let (ledger, image) = (ledger.clone(), image.to_owned());
        // If nobody waits for it any more, it is dropped where it was written.
        let recorded = waiting_for_files(move || {
            ledger.record_intent(&image)?;
            Ok(Self { written: Some(Written { ledger, image }), may_have_landed: false })
        });
        recorded.await.unwrap_or(Err(RecordsError::Lost))
    }

    /// From now on the image may be here, even if nobody hears of it.
    pub(super) fn pulling(&mut self) {
        self.may_have_landed = true;
    }

    /// It is known not to have come.
    pub(super) fn missed(&mut self) {
        self.may_have_landed = false;
    }

    /// The image is here. An error says why it could not be recorded who may use it.
    pub(super) async fn pulled(
        mut self,
        image_id: &str,
        access: PullAccess,
    ) -> Result<(), RecordsError> {
        let Some(Written { ledger, image }) = self.written.take() else { return Ok(()) };
        let image_id = image_id.to_owned();
        let recorded = waiting_for_files(move || ledger.record_pulled(&image, &image_id, &access));
        recorded.await.unwrap_or(Err(RecordsError::Lost))
    }

    /// It is not.
    pub(super) async fn failed(mut self) {
        if let Some(written) = self.written.take() {
            waiting_for_files(move || written.failed()).await;
        }
    }
}

impl Written {
    fn failed(self) {
        self.ledger.record_failed(&self.image);
    }
}

impl Drop for Intent {
    fn drop(&mut self) {
        let Some(written) = self.written.take() else { return };
        if self.may_have_landed {
            let image = written.image;
            tracing::info!(
                image,
                "a pull was given up, and its intent stays: the image may be here"
            );
            return;
        }
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || written.failed())),
            Err(_) => written.failed(),
        }
    }
}
