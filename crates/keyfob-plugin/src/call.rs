//! One run of a plugin.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_api::{Redactor, Secret};
use keyfob_exec::{Clock, on_one_line};
use tokio::time::Instant;

use crate::Failure;

/// What a provider can ask and say about the run it is part of.
#[derive(Debug, Clone)]
pub struct Call(Arc<Run>);

struct Run {
    clock: Arc<dyn Clock>,
    began: Instant,
    deadline: Duration,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    step: Option<(String, Instant)>,
    hidden: Vec<Secret<String>>,
}

impl Call {
    pub(crate) fn new(clock: Arc<dyn Clock>, deadline: Duration) -> Self {
        let noted = Mutex::default();
        Self(Arc::new(Run { clock, began: Instant::now(), deadline, noted }))
    }

    /// The wall clock.
    pub fn now(&self) -> SystemTime {
        self.0.clock.now()
    }

    /// What is left until the plugin gives up.
    pub fn remaining(&self) -> Duration {
        self.0.deadline.saturating_sub(self.0.began.elapsed())
    }

    /// Names what is done next: "asking STS for the role". When the time runs out, the message says where it went.
    pub fn step(&self, what: impl Into<String>) {
        self.noted().step = Some((what.into(), Instant::now()));
    }

    /// Keeps a secret out of whatever this run prints for people, in every encoding in which a server may repeat it. One of
    /// a few letters is hidden where it stands as a word of its own.
    pub fn hide(&self, secret: &Secret<String>) {
        self.noted().hidden.push(secret.clone());
    }

    pub(crate) fn out_of_time(&self) -> Failure {
        let seconds = self.0.deadline.as_secs_f32();
        let place = match &self.noted().step {
            Some((step, since)) => {
                format!(", the last {:.1} s of them {step}", since.elapsed().as_secs_f32())
            }
            None => String::new(),
        };
        Failure::new(format!("gave up after {seconds:.1} s{place}"))
    }

    /// A message for people: on one line, without what is hidden.
    pub(crate) fn tell(&self, text: &str) -> String {
        on_one_line(&Redactor::new(&self.noted().hidden).redact(text))
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
