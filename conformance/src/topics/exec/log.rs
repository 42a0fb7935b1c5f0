//! What a client logs, and does nothing else about.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// Hears what this thread logs, while it lives.
pub(super) struct Listener {
    lines: Arc<Mutex<Vec<String>>>,
    _listening: DefaultGuard,
}

impl Listener {
    pub(super) fn start() -> Self {
        let lines = Arc::default();
        let ear = Ear(Arc::clone(&lines));
        Self { lines, _listening: tracing::subscriber::set_default(ear) }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

/// Warnings of ours.
struct Ear(Arc<Mutex<Vec<String>>>);

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("keyfob_")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.into_upstreams_words());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    error: String,
}

impl Line {
    /// We log a constant sentence and fields, upstream a sentence with the error in it.
    fn into_upstreams_words(self) -> String {
        match self.message.as_str() {
            "refreshing credentials after a 401 failed" => {
                format!("refreshing credentials: {}", self.error)
            }
            other => format!("{other}: {}", self.error),
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!("{value:?}"),
            _ => {}
        }
    }
}
