//! One run for everybody who needs a credential at the same time.
//!
//! The run is a task of its own. Who leaves does not stop it; if its runtime goes away, whoever still waits learns that it
//! was lost and starts another.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Inner, Outcome};

/// A run under way, from the side of those who wait.
pub(super) type Arrival = watch::Receiver<Option<Outcome>>;

/// Who must end the run. Dropped without having done so, it leaves the way free.
pub(super) struct Pilot {
    inner: Arc<Inner>,
    announce: watch::Sender<Option<Outcome>>,
}

impl Pilot {
    pub(super) fn new(inner: Arc<Inner>) -> (Self, Arrival) {
        let (announce, arrival) = watch::channel(None);
        (Self { inner, announce }, arrival)
    }

    /// Ends the run for those who wait. The desk already knows.
    pub(super) fn land(self, outcome: Outcome) {
        self.announce.send_replace(Some(outcome));
    }
}

impl Drop for Pilot {
    /// Only its own run: after landing there may already be another.
    fn drop(&mut self) {
        if self.announce.borrow().is_none() {
            self.inner.desk().flight = None;
        }
    }
}

/// Waits for the end of a run; nothing if it was lost.
pub(super) async fn wait(mut arrival: Arrival) -> Option<Outcome> {
    let arrived = arrival.wait_for(Option::is_some).await;
    arrived.ok().and_then(|arrived| arrived.clone())
}
