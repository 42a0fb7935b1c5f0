//! What becomes of objects, as it happens.
//!
//! A watch is never waited for: it reads what changed since it last looked, and ends with 410 if that was too long ago.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

use super::{
    Api, metadata,
    request::{RequestInfo, ResourcePath},
    resources::Resource,
    selector::{Fields, Labels},
    status::Refusal,
    store::{Change, Snapshot},
};

/// A watch that names no end has this one.
const DEFAULT_SECONDS: u64 = 1800;
const LONGEST_SECONDS: u64 = 3600;

/// The objects that a list or a watch is for.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) resource: &'static Resource,
    namespace: String,
    fields: Fields,
    labels: Labels,
}

impl Selection {
    pub(super) fn read(
        resource: &'static Resource,
        path: &ResourcePath,
        info: &RequestInfo,
    ) -> Result<Self, Refusal> {
        let labels = Labels::read(info.query("labelSelector"))?;
        let namespace = path.namespace.clone();
        Ok(Self { resource, namespace, fields: info.fields()?, labels })
    }

    pub(super) fn all(&self, snapshot: &Snapshot) -> Vec<Value> {
        let objects = snapshot.objects.list(self.resource.kind).map(|(_, _, object)| object);
        objects.filter(|object| self.matches(object)).cloned().collect()
    }

    fn matches(&self, object: &Value) -> bool {
        (!self.resource.namespaced
            || self.namespace.is_empty()
            || metadata::get(object, "namespace") == self.namespace)
            && self.fields.matches(object)
            && self.labels.matches(object)
    }

    /// What a change is to somebody who sees only these objects.
    fn event(&self, change: &Change) -> Option<Value> {
        if change.kind != self.resource.kind {
            return None;
        }
        let seen = |object: &Option<Value>| object.clone().filter(|object| self.matches(object));
        match (seen(&change.before), seen(&change.after)) {
            (None, Some(now)) => Some(event("ADDED", &now)),
            (Some(_), Some(now)) => Some(event("MODIFIED", &now)),
            (Some(mut gone), None) => {
                metadata::set(&mut gone, "resourceVersion", &change.revision.to_string());
                Some(event("DELETED", &gone))
            }
            (None, None) => None,
        }
    }
}

fn event(what: &str, object: &Value) -> Value {
    json!({"type": what, "object": object})
}

/// Somebody who watches.
struct Watcher {
    api: Arc<Api>,
    selection: Selection,
    /// What is to be sent.
    waiting: VecDeque<Value>,
    /// Up to where it has seen everything.
    seen: u64,
    revisions: Receiver<u64>,
    stopping: Receiver<bool>,
    until: Instant,
    ended: bool,
}

impl Api {
    /// An answer that goes on until its time is over.
    pub(super) fn watch(
        self: &Arc<Self>,
        selection: Selection,
        info: &RequestInfo,
    ) -> Result<Response, Refusal> {
        let revisions = self.store.revisions();
        let snapshot = self.store.snapshot();
        let (waiting, seen) = start(&selection, info, &snapshot)?;
        let seconds = info.query("timeoutSeconds").parse().unwrap_or(DEFAULT_SECONDS);
        let until = Instant::now() + Duration::from_secs(seconds.clamp(1, LONGEST_SECONDS));
        let (api, stopping) = (Arc::clone(self), self.stopping.clone());
        let watcher =
            Watcher { api, selection, waiting, seen, revisions, stopping, until, ended: false };
        let lines = stream::unfold(watcher, |mut watcher| async {
            let line = watcher.next().await?;
            Some((Ok::<_, std::convert::Infallible>(line), watcher))
        });
        Ok(([(CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response())
    }
}

/// What is sent at once, and from where on changes are.
fn start(
    selection: &Selection,
    info: &RequestInfo,
    snapshot: &Snapshot,
) -> Result<(VecDeque<Value>, u64), Refusal> {
    let with_all = info.is_set("sendInitialEvents");
    let asked = info.query("resourceVersion");
    if !with_all && !matches!(asked, "" | "0") {
        let wrong = |_| Refusal::bad_request(format!("invalid resource version {asked:?}"));
        return Ok((VecDeque::new(), asked.parse().map_err(wrong)?));
    }
    let mut waiting: VecDeque<Value> =
        selection.all(snapshot).iter().map(|object| event("ADDED", object)).collect();
    if with_all {
        let resource = selection.resource;
        waiting.push_back(event(
            "BOOKMARK",
            &json!({
                "kind": resource.name,
                "apiVersion": resource.api_version(),
                "metadata": {
                    "resourceVersion": snapshot.revision.to_string(),
                    "annotations": {"k8s.io/initial-events-end": "true"},
                },
            }),
        ));
    }
    Ok((waiting, snapshot.revision))
}

impl Watcher {
    /// The next event, on a line of its own.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(format!("{event}\n"));
            }
            if self.ended {
                return None;
            }
            // Marked as seen before they are read: a change in between is read twice as soon, never lost.
            self.revisions.mark_unchanged();
            if self.read() {
                continue;
            }
            tokio::select! {
                changed = self.revisions.changed() => changed.ok()?,
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                () = sleep_until(self.until) => return None,
            }
        }
    }

    /// Whether there is something to send.
    fn read(&mut self) -> bool {
        match self.api.store.since(self.seen) {
            Ok(changes) => {
                self.seen = changes.last().map_or(self.seen, |change| change.revision);
                let events = changes.iter().filter_map(|change| self.selection.event(change));
                self.waiting.extend(events);
            }
            Err(oldest) => {
                let status = Refusal::expired(self.seen, oldest).to_json();
                self.waiting.push_back(event("ERROR", &status));
                self.ended = true;
            }
        }
        !self.waiting.is_empty()
    }
}
