//! The plugin that is tested, and how it is run whatever it is asked.

use std::{ffi::OsString, fmt, sync::Arc, time::Duration};

use keyfob_api::{Secret, speaks_of_a_secret};
use keyfob_exec::{Clock, Invocation, Limits, MOST_OUTPUT, Program, Stdout, SystemClock};

use crate::{NoAnswer, protocol::Protocol};

/// When a kubelet gives up; the same is a sensible limit for any client.
pub(crate) const KUBELETS_MINUTE: Duration = Duration::from_mins(1);

/// What takes longer than this delays somebody who waits for it.
pub(crate) const SLOW: Duration = Duration::from_secs(10);

/// How many run at once: a node that starts with a full queue of pods.
pub(crate) const AT_ONCE: usize = 8;

/// A program with its arguments, variables and limits.
#[derive(Clone)]
pub(crate) struct Plugin {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(String, Secret<String>)>,
    pub(crate) timeout: Duration,
    pub(crate) no_answer: NoAnswer,
    /// Says when the runs began.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Plugin {
    pub(crate) fn new(program: Program) -> Self {
        Self {
            program,
            args: Vec::new(),
            env: Vec::new(),
            timeout: KUBELETS_MINUTE,
            no_answer: NoAnswer::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// One run of the plugin.
    pub(crate) fn invocation<P: Protocol>(
        &self,
        protocol: &P,
        probe: P::Probe,
        reference: P::Probe,
    ) -> Invocation {
        let limits = Limits { stdout: MOST_OUTPUT, ..Limits::default() };
        let deadline = if P::must_be_quick(probe) { self.timeout.min(SLOW) } else { self.timeout };
        let mut invocation = Invocation::new(self.program.clone())
            .args(&self.args)
            .limits(limits)
            .deadline(deadline);
        for (name, value) in &self.env {
            invocation = invocation.env(name, value.expose());
        }
        for (_, value) in self.secret_variables() {
            invocation = invocation.redact(value.clone());
        }
        if probe == P::CLOSED_STDOUT {
            invocation = invocation.stdout(Stdout::Closed);
        }
        protocol.prepare(invocation, probe, reference)
    }

    /// The values of the variables whose names say that they are secrets, each with a description.
    pub(crate) fn described_secrets(&self) -> impl Iterator<Item = (String, Secret<String>)> {
        self.secret_variables().map(|(name, value)| (format!("the value of {name}"), value.clone()))
    }

    fn secret_variables(&self) -> impl Iterator<Item = &(String, Secret<String>)> {
        self.env.iter().filter(|(name, _)| speaks_of_a_secret(name))
    }
}

/// Arguments and variables may hold secrets.
impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("program", &self.program).finish_non_exhaustive()
    }
}
