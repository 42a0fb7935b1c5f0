//! Live updates of the page: server-sent events with the parts that changed.
//!
//! A stream keeps nothing but what its reader has seen. While a reader is slow, later changes replace earlier ones, so that a stream does
//! not grow; the server closes connections that are not read.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::Stream;
use hyper::body::{Bytes, Frame};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::timeout,
};

use super::{
    history::Changes,
    page::{Section, StatusPage, sections},
};
use crate::agent::Shared;

/// At most so often a reader gets an update; longer than a gathered status is kept, so that an update has what caused it.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a stream looks for what changes by itself, such as answers that expire.
const LOOK: Duration = Duration::from_secs(5);
/// After so many looks without a change, a comment shows that the connection lives.
const SILENT_LOOKS: u32 = 3;

/// What one reader has seen.
struct Follower {
    shared: Arc<Shared>,
    changes: watch::Receiver<Changes>,
    seen: Vec<Section>,
    is_first: bool,
    silent: u32,
    _place: OwnedSemaphorePermit,
}

impl StatusPage {
    /// Updates from now on, beginning with the whole page. Nothing if too many follow it already.
    pub(crate) fn events(
        &self,
        shared: &Arc<Shared>,
    ) -> Option<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + use<>> {
        let place = self.followers.clone().try_acquire_owned().ok()?;
        let follower = Follower {
            shared: shared.clone(),
            changes: shared.history.changes(),
            seen: Vec::new(),
            is_first: true,
            silent: 0,
            _place: place,
        };
        Some(futures_util::stream::unfold(follower, |mut follower| async move {
            let event = follower.next().await?;
            Some((Ok(Frame::data(Bytes::from(event))), follower))
        }))
    }
}

impl Follower {
    /// The next event; nothing once the agent stops.
    async fn next(&mut self) -> Option<String> {
        loop {
            if !self.is_first {
                // Whether something happened or not: some things change by themselves.
                drop(timeout(LOOK, self.changes.changed()).await);
                if !self.changes.borrow().has_ended {
                    let ended = self.changes.wait_for(|changes| changes.has_ended);
                    drop(timeout(PAUSE, ended).await);
                }
            }
            if self.changes.borrow_and_update().has_ended {
                return None;
            }
            self.is_first = false;
            if let Some(event) = self.update().await {
                self.silent = 0;
                return Some(event);
            }
            self.silent += 1;
            if self.silent >= SILENT_LOOKS {
                self.silent = 0;
                return Some(": nothing has changed\n\n".to_owned());
            }
        }
    }

    /// The parts that differ from what the reader has seen.
    async fn update(&mut self) -> Option<String> {
        let view = self.shared.status_page.view(&self.shared, false).await?;
        let current = sections(&view);
        let is_new = |section: &&Section| !self.seen.contains(section);
        let changed: Map<String, Value> = current
            .iter()
            .filter(is_new)
            .map(|section| (section.id.to_owned(), section.html.clone().into()))
            .collect();
        if changed.is_empty() {
            return None;
        }
        self.seen = current;
        let update = json!({ "now": view.status.now, "title": view.title(), "sections": changed });
        // JSON has no line breaks of its own.
        Some(format!("event: sections\ndata: {update}\n\n"))
    }
}
