//! The runs of a plugin, and what was seen of each.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keyfob_api::{Chain, Secret};
use keyfob_exec::{Invocation, RunError, Runner, Status, StderrTail, Watch};
use tokio::task::JoinSet;

use crate::{PluginConformance, plugin::AT_ONCE, protocol::Protocol};

/// All there is to see of a run.
#[derive(Debug)]
pub(crate) struct Observed<P: Protocol> {
    pub(crate) probe: P::Probe,
    pub(crate) end: End,
    pub(crate) stdout: Secret<Vec<u8>>,
    /// As it came.
    pub(crate) stderr: Secret<Vec<u8>>,
    /// What may be shown of stderr, on one line; secrets of other runs are still to be cut out.
    pub(crate) stderr_line: String,
    /// Something that it started held its output when it had exited.
    pub(crate) held: bool,
    pub(crate) elapsed: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    NotStarted(String),
    Ended(Status),
    /// Killed after this time.
    Hung(Duration),
    /// Killed because it printed too much.
    Flood,
}

/// What the caller makes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard<R, E> {
    Answer(R),
    Unreadable(E),
    /// Exit code 0 and nothing on stdout.
    Nothing,
    /// Any other exit code, or a signal.
    Failed(Status),
    Hung(Duration),
    Flood,
    NotStarted,
}

impl<R, E> Heard<R, E> {
    /// What no plugin may do, whatever it is asked.
    pub(crate) fn crash(&self) -> Option<String> {
        match self {
            Self::Failed(status @ Status::Signaled(_)) => Some(format!("it crashed: {status}")),
            Self::Hung(after) => Some(format!("it was still running after {}", span(*after))),
            _ => None,
        }
    }
}

/// A time that a person can read.
pub(crate) fn span(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

impl<P: Protocol> Observed<P> {
    /// Runs it.
    async fn of(probe: P::Probe, invocation: Invocation, runner: &dyn Runner) -> Self {
        let seen = Arc::new(Seen::default());
        let (end, stdout, stderr_line, elapsed) =
            match runner.run(&invocation.watch(seen.clone())).await {
                Ok(run) => (End::Ended(run.status), run.stdout, run.stderr, run.elapsed),
                Err(error) => {
                    let elapsed = error.elapsed().unwrap_or_default();
                    let (end, stderr_line) = failed(error);
                    (end, Secret::default(), stderr_line, elapsed)
                }
            };
        let stderr = std::mem::take(&mut *seen.stderr());
        let (stderr, held) = (Secret::new(stderr), seen.held.load(Ordering::Relaxed));
        Self { probe, end, stdout, stderr, stderr_line: stderr_line.to_string(), held, elapsed }
    }

    pub(crate) fn was_started(&self) -> bool {
        !matches!(self.end, End::NotStarted(_))
    }

    /// Whether it came to an end by itself, or can be told to at least.
    pub(crate) fn has_an_end(&self) -> bool {
        matches!(self.end, End::Ended(_) | End::Flood)
    }

    pub(crate) fn went_well(&self) -> bool {
        self.end == End::Ended(Status::Exited(0))
    }

    /// Whether nothing is on stderr.
    pub(crate) fn is_silent(&self) -> bool {
        self.stderr.expose().trim_ascii().is_empty()
    }

    /// What a caller makes of the run that asked in the current version.
    pub(crate) fn heard(&self) -> Heard<P::Response, P::Error> {
        self.heard_by(P::decode)
    }

    pub(crate) fn heard_by(
        &self,
        decode: impl FnOnce(&[u8]) -> Result<P::Response, P::Error>,
    ) -> Heard<P::Response, P::Error> {
        match self.end {
            End::Ended(Status::Exited(0)) if self.stdout.expose().trim_ascii().is_empty() => {
                Heard::Nothing
            }
            End::Ended(Status::Exited(0)) => match decode(self.stdout.expose()) {
                Ok(response) => Heard::Answer(response),
                Err(error) => Heard::Unreadable(error),
            },
            End::Ended(status) => Heard::Failed(status),
            End::Hung(after) => Heard::Hung(after),
            End::Flood => Heard::Flood,
            End::NotStarted(_) => Heard::NotStarted,
        }
    }

    /// The response, even one of another version than was asked for.
    pub(crate) fn response(&self) -> Option<P::Response> {
        self.went_well().then(|| P::decode_any_version(self.stdout.expose()))?.ok()
    }
}

/// Runs the whole plan. A plugin that cannot be started, or does not end, is run only once.
pub(crate) async fn observe<P: Protocol>(
    PluginConformance { plugin, protocol }: &PluginConformance<P>,
    runner: &Arc<dyn Runner>,
) -> Vec<Observed<P>> {
    let mut runs = Vec::new();
    for probe in std::iter::once(P::FIRST).chain(protocol.further_probes()) {
        let invocation = plugin.invocation(protocol, probe, P::reference(&runs));
        let run = Observed::of(probe, invocation, &**runner).await;
        let has_an_end = run.has_an_end();
        runs.push(run);
        if probe == P::FIRST && !has_an_end {
            return runs;
        }
    }
    let reference = P::reference(&runs);
    let mut at_once = JoinSet::new();
    for _ in 0..AT_ONCE {
        let invocation = plugin.invocation(protocol, P::AT_ONCE, reference);
        let runner = Arc::clone(runner);
        at_once.spawn(async move { Observed::of(P::AT_ONCE, invocation, &*runner).await });
    }
    runs.extend(at_once.join_all().await);
    runs
}

fn failed(error: RunError) -> (End, StderrTail) {
    match error {
        RunError::TimedOut { after, stderr, .. } => (End::Hung(after), stderr),
        RunError::OutputTooLarge { stderr, .. } => (End::Flood, stderr),
        RunError::Failed { status, stderr, .. } => (End::Ended(status), stderr),
        other => (End::NotStarted(Chain(&other).to_string()), StderrTail::default()),
    }
}

/// What the runner does not tell by itself.
#[derive(Default)]
struct Seen {
    stderr: Mutex<Vec<u8>>,
    held: AtomicBool,
}

impl Seen {
    fn stderr(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Seen {
    /// Secrets are looked for in the first mebibyte.
    fn stderr(&self, piece: &[u8]) {
        const MOST: usize = 1 << 20;
        let mut stderr = self.stderr();
        let room = MOST.saturating_sub(stderr.len()).min(piece.len());
        stderr.extend_from_slice(piece.get(..room).unwrap_or_default());
    }

    fn held(&self) {
        self.held.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seen(..)")
    }
}
