//! The audit log: one JSON object for each decision.
//!
//! A decision never waits for the log: events go through a bounded queue to a thread that writes them. If the queue is full or the disk
//! refuses, events are counted as lost, and credentials are handed out all the same. Nothing secret is in an event: a credential is
//! represented by a keyed hash, whose key lives as long as the process, so that two events can be compared and nothing can be
//! guessed from one. Characters that control a terminal or change the direction of text are escaped.

mod event;
mod repeats;
mod sink;

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use aws_lc_rs::hmac;
use keyfob_agent_config::AuditConfig;
use keyfob_api::Secret;
use keyfob_exec::printable_json;
use prometheus_client::{metrics::counter::Counter, registry::Registry};
use serde::Serialize;
use tokio::sync::broadcast;

pub(crate) use self::event::{
    AuditCaller, AuditCredential, AuditEvent, AuditPod, Outcome, Suppressed,
};
pub(crate) use self::repeats::LoggedGrants;
use self::sink::Sink;

/// How many events may wait for the disk.
const QUEUE: usize = 4096;
/// How long the writer leaves further events in the queue, so that not every request has to wake it: that takes 12 µs of the 100 in which an
/// answer from the cache is to be given.
const WRITE_PAUSE: Duration = Duration::from_millis(1);
/// How many events a reader of the stream may be behind.
const STREAM: usize = 1024;
/// How many hexadecimal digits of the keyed hash an event has.
const HASH_DIGITS: usize = 16;

/// Where decisions are logged.
#[derive(Debug)]
pub(crate) struct AuditLog {
    queue: Mutex<Option<SyncSender<Arc<str>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Nothing once the agent stops.
    stream: Mutex<Option<broadcast::Sender<Arc<str>>>>,
    counts: AuditCounts,
    key: hmac::Key,
}

/// What became of the events. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditCounts {
    pub(crate) written: Counter,
    pub(crate) lost: Counter,
}

impl AuditLog {
    /// Opens the log. A file that cannot be opened is an error now; later failures only count lost events.
    pub(crate) fn open(config: &AuditConfig) -> io::Result<Self> {
        let counts = AuditCounts::default();
        let (queue, writer) = match Sink::open(config)? {
            None => (None, None),
            Some(mut sink) => {
                let (queue, events) = mpsc::sync_channel::<Arc<str>>(QUEUE);
                let counts = counts.clone();
                let writer = thread::Builder::new().name("audit".to_owned()).spawn(move || {
                    let mut write = |event: Arc<str>| {
                        match sink.write(&event) {
                            Ok(()) => counts.written.inc(),
                            Err(error) => {
                                tracing::debug!(%error, "an audit event could not be written");
                                counts.lost.inc()
                            }
                        };
                    };
                    while let Ok(event) = events.recv() {
                        write(event);
                        #[expect(clippy::disallowed_methods, reason = "nothing depends on it")]
                        thread::sleep(WRITE_PAUSE);
                        events.try_iter().for_each(&mut write);
                    }
                })?;
                (Some(queue), Some(writer))
            }
        };
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
        Ok(Self {
            queue: Mutex::new(queue),
            writer: Mutex::new(writer),
            stream: Mutex::new(Some(broadcast::channel(STREAM).0)),
            counts,
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        })
    }

    /// Logs an event, without waiting.
    pub(crate) fn record(&self, event: &AuditEvent) {
        self.write(event);
    }

    /// Logs how many requests were not logged, if there is no event any more that could say so.
    pub(crate) fn record_suppressed(&self, time: String, suppressed: Suppressed) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Rest {
            time: String,
            #[serde(flatten)]
            suppressed: Suppressed,
        }
        self.write(&Rest { time, suppressed });
    }

    fn write(&self, event: &impl Serialize) {
        let Ok(line) = serde_json::to_string(event) else { return };
        // A caller chooses the path of its program, and people read the log and the stream in a terminal.
        let line: Arc<str> = printable_json(&line).into();
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            match queue.try_send(line.clone()) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.counts.lost.inc();
                }
            }
        }
        if let Some(stream) = &*self.stream() {
            // Nobody may be reading.
            stream.send(line).unwrap_or_default();
        }
    }

    /// The events from now on, as JSON; nothing if the streams have ended.
    pub(crate) fn subscribe(&self) -> Option<broadcast::Receiver<Arc<str>>> {
        self.stream().as_ref().map(broadcast::Sender::subscribe)
    }

    /// Ends the streams, so that an agent that stops does not wait for their readers.
    pub(crate) fn end_streams(&self) {
        drop(self.stream().take());
    }

    fn stream(&self) -> MutexGuard<'_, Option<broadcast::Sender<Arc<str>>>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Identifies a credential without revealing it: equal credentials have equal hashes until the agent restarts.
    pub(crate) fn credential_hash(&self, username: &str, password: &Secret<String>) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(username.len() as u64).to_be_bytes());
        context.update(username.as_bytes());
        context.update(password.expose().as_bytes());
        let mut hash = hex::encode(context.sign());
        hash.truncate(HASH_DIGITS);
        hash
    }

    /// How many events were written, and how many were lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts.written.get(), self.counts.lost.get())
    }

    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        let AuditCounts { written, lost } = self.counts.clone();
        registry.register(
            "keyfob_agent_audit_events_written",
            "Audit events that were written",
            written,
        );
        let about = "Audit events that were lost because the disk or the journal refused them";
        registry.register("keyfob_agent_audit_events_lost", about, lost);
    }

    /// Writes what is queued and closes the log.
    pub(crate) fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            tracing::error!("the thread of the audit log has failed");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
