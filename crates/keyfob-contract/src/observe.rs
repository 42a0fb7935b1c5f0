//! One run, and what was seen of it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keyfob_api::{Chain, CredentialProviderResponse, ProviderVersion, ResponseError, Secret};
use keyfob_exec::{Invocation, RunError, Runner, Status, StderrTail, Watch};
use tokio::task::JoinSet;

use super::provider::plan::{Probe, Subject};

/// All there is to see of a run.
#[derive(Debug)]
pub(super) struct Observed<P = Probe> {
    pub(super) probe: P,
    pub(super) end: End,
    pub(super) stdout: Secret<Vec<u8>>,
    /// As it came.
    pub(super) stderr: Secret<Vec<u8>>,
    /// What may be shown of it, on one line; secrets of other runs are still to be cut out.
    pub(super) said: String,
    /// Something that it started held its output when it had exited.
    pub(super) held: bool,
    pub(super) elapsed: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    NotStarted(String),
    Ended(Status),
    /// Killed after this time.
    Hung(Duration),
    /// Killed because it printed too much.
    Flood,
}

/// What whoever asked makes of a run: a kubelet, unless told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard<A = CredentialProviderResponse, E = ResponseError> {
    Answer(A),
    Unreadable(E),
    /// Exit code 0 and nothing on stdout.
    Nothing,
    /// Any other exit code, or a signal.
    Failed(Status),
    Hung(Duration),
    Flood,
    NotStarted,
}

impl<A, E> Heard<A, E> {
    /// What no plugin may do, whatever it is asked.
    pub(super) fn crash(&self) -> Option<String> {
        match self {
            Self::Failed(status @ Status::Signaled(_)) => Some(format!("it crashed: {status}")),
            Self::Hung(after) => Some(format!("it was still running after {}", span(*after))),
            _ => None,
        }
    }
}

/// A time that a person can read.
pub(super) fn span(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

impl<P> Observed<P> {
    /// Runs it.
    pub(super) async fn of(probe: P, invocation: Invocation, runner: &dyn Runner) -> Self {
        let seen = Arc::new(Seen::default());
        let (end, stdout, said, elapsed) = match runner.run(&invocation.watch(seen.clone())).await {
            Ok(run) => (End::Ended(run.status), run.stdout, run.stderr, run.elapsed),
            Err(error) => {
                let elapsed = error.elapsed().unwrap_or_default();
                let (end, said) = failed(error);
                (end, Secret::default(), said, elapsed)
            }
        };
        let stderr = std::mem::take(&mut *seen.stderr());
        let (stderr, held) = (Secret::new(stderr), seen.held.load(Ordering::Relaxed));
        Self { probe, end, stdout, stderr, said: said.to_string(), held, elapsed }
    }

    pub(super) fn was_started(&self) -> bool {
        !matches!(self.end, End::NotStarted(_))
    }

    /// Whether it came to an end by itself, or can be told to at least.
    pub(super) fn has_an_end(&self) -> bool {
        matches!(self.end, End::Ended(_) | End::Flood)
    }

    pub(super) fn went_well(&self) -> bool {
        self.end == End::Ended(Status::Exited(0))
    }

    pub(super) fn heard_by<A, E>(&self, decode: impl FnOnce(&[u8]) -> Result<A, E>) -> Heard<A, E> {
        match self.end {
            End::Ended(Status::Exited(0)) if self.stdout.expose().trim_ascii().is_empty() => {
                Heard::Nothing
            }
            End::Ended(Status::Exited(0)) => match decode(self.stdout.expose()) {
                Ok(answer) => Heard::Answer(answer),
                Err(error) => Heard::Unreadable(error),
            },
            End::Ended(status) => Heard::Failed(status),
            End::Hung(after) => Heard::Hung(after),
            End::Flood => Heard::Flood,
            End::NotStarted(_) => Heard::NotStarted,
        }
    }
}

impl Observed {
    pub(super) fn heard(&self, version: ProviderVersion) -> Heard {
        self.heard_by(|stdout| CredentialProviderResponse::decode(stdout, version))
    }

    /// The answer, even one that says it is of another version.
    pub(super) fn answer(&self) -> Option<CredentialProviderResponse> {
        self.went_well()
            .then(|| CredentialProviderResponse::decode_any_version(self.stdout.expose()))?
            .ok()
    }
}

impl Subject {
    /// Runs the whole plan. A plugin that cannot be started, or does not end, is run only once.
    pub(super) async fn observe(&self, runner: Arc<dyn Runner>) -> Vec<Observed> {
        let mut runs = vec![self.observe_one(Probe::Image(0), &*runner).await];
        if !runs.iter().all(Observed::has_an_end) {
            return runs;
        }
        for probe in self.further_probes().filter(|probe| *probe != Probe::AtOnce) {
            runs.push(self.observe_one(probe, &*runner).await);
        }
        let mut at_once = JoinSet::new();
        for probe in self.further_probes().filter(|probe| *probe == Probe::AtOnce) {
            let (subject, runner) = (self.clone(), Arc::clone(&runner));
            at_once.spawn(async move { subject.observe_one(probe, &*runner).await });
        }
        runs.extend(at_once.join_all().await);
        runs
    }

    async fn observe_one(&self, probe: Probe, runner: &dyn Runner) -> Observed {
        Observed::of(probe, self.invocation(probe), runner).await
    }
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
