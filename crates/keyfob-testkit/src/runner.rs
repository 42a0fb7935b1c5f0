use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use keyfob_exec::{BoxFuture, Finished, Invocation, RunError, Runner, Status, StderrTail};

type Respond = dyn Fn(&Invocation) -> Result<Finished, RunError> + Send + Sync;

/// Answers in place of a process, and counts how often it was asked.
#[derive(Clone)]
pub struct FakeRunner {
    respond: Arc<Respond>,
    runs: Arc<AtomicUsize>,
}

impl FakeRunner {
    /// A runner that asks a function.
    pub fn new(
        respond: impl Fn(&Invocation) -> Result<Finished, RunError> + Send + Sync + 'static,
    ) -> Self {
        Self { respond: Arc::new(respond), runs: Arc::default() }
    }

    /// A runner whose programs print this and exit well.
    pub fn printing(stdout: impl Into<Vec<u8>>) -> Self {
        let stdout = stdout.into();
        Self::new(move |invocation| {
            Ok(Finished {
                program: invocation.program().into(),
                status: Status::Exited(0),
                stdout: stdout.clone().into(),
                stderr: StderrTail::default(),
                elapsed: std::time::Duration::ZERO,
            })
        })
    }

    /// How many programs were run.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Runner for FakeRunner {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { (self.respond)(invocation) })
    }
}

impl fmt::Debug for FakeRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FakeRunner({} runs)", self.runs())
    }
}
