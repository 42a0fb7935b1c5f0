//! What happened lately: decisions, reloads, runs of plugins. Everything here is bounded.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_exec::Clock;
use keyfob_host::{CallError, PluginAttempt, PluginObserver};
use serde::Serialize;
use tokio::sync::watch;

use super::{
    hour::{Hour, Minute},
    time::Moment,
};
use crate::audit::{AuditEvent, Outcome};

/// How many decisions are remembered.
const DECISIONS: usize = 100;
/// How many reloads are remembered.
const RELOADS: usize = 20;
/// How many providers are remembered, those that a reload removed too until somebody looks.
const PROVIDERS: usize = 4096;

/// What happened lately, for as long as the agent runs.
#[derive(Debug)]
pub(crate) struct History {
    clock: Arc<dyn Clock>,
    recorded: Mutex<Recorded>,
    /// Tells whoever follows that something happened.
    changes: watch::Sender<Changes>,
}

/// How often something happened, and whether nothing will any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    count: u64,
    pub(crate) has_ended: bool,
}

#[derive(Debug, Default)]
struct Recorded {
    /// The newest last, as are the reloads.
    decisions: VecDeque<AuditEvent>,
    reloads: VecDeque<ReloadRecord>,
    providers: BTreeMap<String, ProviderHistory>,
    hour: Hour,
}

/// A reload of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReloadRecord {
    pub(crate) time: Moment,
    /// Why the old configuration stayed; nothing if the new one is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The hash of the provider configuration that is in use since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider_config_hash: Option<String>,
    /// The providers that are new or changed, and those that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) started: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<String>,
}

/// What a provider's plugin did.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderHistory {
    pub(crate) runs: u64,
    pub(crate) failures: u64,
    pub(crate) failures_in_a_row: u64,
    /// The first of the failures in a row.
    pub(crate) failing_since: Option<SystemTime>,
    pub(crate) last: Option<LastAttempt>,
    pub(crate) last_error: Option<LastError>,
}

/// The last attempt to get an answer.
#[derive(Clone, Debug)]
pub(crate) struct LastAttempt {
    pub(crate) time: SystemTime,
    pub(crate) image: String,
    pub(crate) took: Option<Duration>,
    pub(crate) succeeded: bool,
}

/// The last attempt that failed.
#[derive(Clone, Debug)]
pub(crate) struct LastError {
    pub(crate) time: SystemTime,
    pub(crate) image: String,
    pub(crate) error: Arc<CallError>,
}

/// A copy of all that is known, the newest first.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) decisions: Vec<AuditEvent>,
    pub(crate) reloads: Vec<ReloadRecord>,
    pub(crate) providers: BTreeMap<String, ProviderHistory>,
    pub(crate) minutes: Vec<Minute>,
}

impl History {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, recorded: Mutex::default(), changes: watch::Sender::default() }
    }

    /// A request was answered. Every one is counted.
    pub(crate) fn answered(&self, outcome: Outcome) {
        let now = self.clock.now();
        if let Some(counts) = self.lock().hour.at(now) {
            counts.count(outcome);
        }
        self.changed();
    }

    /// A decision was logged. Only the latest are remembered, and those that were not logged are not: a caller that is refused all the
    /// time shall not push the others out.
    pub(crate) fn decided(&self, decision: AuditEvent) {
        push(&mut self.lock().decisions, decision, DECISIONS);
        self.changed();
    }

    pub(crate) fn reloaded(&self, reload: ReloadRecord) {
        push(&mut self.lock().reloads, reload, RELOADS);
        self.changed();
    }

    /// What is known now. Providers that are not configured any more are forgotten.
    pub(crate) fn snapshot(&self, is_configured: impl Fn(&str) -> bool) -> Snapshot {
        let now = self.clock.now();
        let mut recorded = self.lock();
        recorded.providers.retain(|name, _| is_configured(name));
        Snapshot {
            decisions: recorded.decisions.iter().rev().cloned().collect(),
            reloads: recorded.reloads.iter().rev().cloned().collect(),
            providers: recorded.providers.clone(),
            minutes: recorded.hour.minutes(now),
        }
    }

    /// Something has changed that is shown.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|changes| changes.count += 1);
    }

    /// Tells of changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<Changes> {
        self.changes.subscribe()
    }

    /// Ends all streams, so that an agent that stops does not wait for their readers.
    pub(crate) fn end_streams(&self) {
        self.changes.send_modify(|changes| changes.has_ended = true);
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PluginObserver for History {
    fn ended(&self, attempt: &PluginAttempt<'_>) {
        let now = self.clock.now();
        let mut recorded = self.lock();
        if let Some(counts) = recorded.hour.at(now) {
            counts.plugin_runs += u64::from(attempt.took.is_some());
            counts.plugin_failures += u64::from(attempt.result.is_err());
        }
        let known = recorded.providers.contains_key(attempt.provider);
        if known || recorded.providers.len() < PROVIDERS {
            let provider = recorded.providers.entry(attempt.provider.to_owned()).or_default();
            provider.ended(attempt, now);
        }
        drop(recorded);
        self.changed();
    }
}

impl ProviderHistory {
    fn ended(&mut self, attempt: &PluginAttempt<'_>, time: SystemTime) {
        let image = attempt.image.to_owned();
        self.runs += u64::from(attempt.took.is_some());
        match attempt.result {
            Ok(_) => {
                self.failures_in_a_row = 0;
                self.failing_since = None;
            }
            Err(error) => {
                self.failures += 1;
                self.failures_in_a_row += 1;
                self.failing_since.get_or_insert(time);
                let error = error.clone();
                self.last_error = Some(LastError { time, image: image.clone(), error });
            }
        }
        let succeeded = attempt.result.is_ok();
        self.last = Some(LastAttempt { time, image, took: attempt.took, succeeded });
    }
}

fn push<T>(ring: &mut VecDeque<T>, item: T, most: usize) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(item);
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::ManualClock;

    use super::*;

    fn reload(second: u64) -> ReloadRecord {
        ReloadRecord {
            time: Moment(SystemTime::UNIX_EPOCH + Duration::from_secs(second)),
            error: None,
            provider_config_hash: None,
            started: Vec::new(),
            removed: Vec::new(),
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest_comes_first() {
        let history = History::new(Arc::new(ManualClock::default()));
        let seconds = 2 * RELOADS as u64;
        (0..seconds).for_each(|second| history.reloaded(reload(second)));
        let reloads = history.snapshot(|_| true).reloads;
        assert_eq!((reloads.len(), &reloads[0]), (RELOADS, &reload(seconds - 1)));
    }

    #[test]
    fn whoever_follows_is_told_of_changes_and_of_the_end() {
        let history = History::new(Arc::new(ManualClock::default()));
        let mut changes = history.changes();
        changes.borrow_and_update();
        history.answered(Outcome::Allowed);
        assert!(changes.has_changed().unwrap());
        history.end_streams();
        assert!(changes.borrow_and_update().has_ended);
    }
}
