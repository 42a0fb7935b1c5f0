//! The objects as they are now, and what lately became of them.
//!
//! Whoever reads takes a snapshot and is in nobody's way. Every change has a number, the `resourceVersion`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keyfob_control::objects::{Kind, Objects};
use serde_json::Value;
use tokio::sync::watch;

use super::{metadata, resources::Resource, status::Refusal};

/// How many changes a watch may be behind.
const REMEMBERED: usize = 1024;

/// The live objects.
#[derive(Debug)]
pub(super) struct Store {
    state: Mutex<State>,
    newest: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    objects: Arc<Objects>,
    newest: u64,
    history: VecDeque<Arc<Change>>,
}

/// What became of one object.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) kind: Kind,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// The objects at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) objects: Arc<Objects>,
    pub(super) revision: u64,
}

impl Store {
    pub(super) fn empty() -> Self {
        let (objects, history) = (Arc::default(), VecDeque::new());
        let state = Mutex::new(State { objects, newest: 0, history });
        Self { state, newest: watch::Sender::new(0) }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        Snapshot { objects: Arc::clone(&state.objects), revision: state.newest }
    }

    /// Changes objects; nobody else does in the meantime.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&mut Changing<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut state = self.lock();
        let done = change(&mut Changing(&mut state));
        self.newest.send_replace(state.newest);
        done
    }

    /// The changes after a revision, or the oldest revision from which they are known.
    pub(super) fn since(&self, revision: u64) -> Result<Vec<Arc<Change>>, u64> {
        let state = self.lock();
        let oldest = state.history.front().map_or(state.newest, |first| first.revision - 1);
        if revision < oldest {
            return Err(oldest);
        }
        let after = state.history.iter().filter(|change| change.revision > revision);
        Ok(after.cloned().collect())
    }

    /// Shows the newest revision, whenever there is a new one.
    pub(super) fn revisions(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The objects, while they are changed.
#[derive(Debug)]
pub(super) struct Changing<'a>(&'a mut State);

impl Changing<'_> {
    pub(super) fn objects(&self) -> &Objects {
        &self.0.objects
    }

    /// Puts an object in, and says how it is kept.
    pub(super) fn put(&mut self, resource: &Resource, name: &str, mut object: Value) -> Value {
        let revision = self.0.newest + 1;
        metadata::set(&mut object, "resourceVersion", &revision.to_string());
        let namespace = metadata::get(&object, "namespace").to_owned();
        let objects = Arc::make_mut(&mut self.0.objects);
        let before = objects.put(resource.kind, &namespace, name, object.clone());
        self.0.remember(resource.kind, before, Some(object.clone()));
        object
    }

    /// Takes an object out.
    pub(super) fn remove(&mut self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        let mut gone = Arc::make_mut(&mut self.0.objects).remove(kind, namespace, name)?;
        metadata::set(&mut gone, "resourceVersion", &(self.0.newest + 1).to_string());
        self.0.remember(kind, Some(gone.clone()), None);
        Some(gone)
    }
}

impl State {
    fn remember(&mut self, kind: Kind, before: Option<Value>, after: Option<Value>) {
        self.newest += 1;
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(Arc::new(Change { revision: self.newest, kind, before, after }));
    }
}
