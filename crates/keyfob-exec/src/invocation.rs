//! What to run, and how far to trust it.

use std::{ffi::OsString, fmt, path::Path, sync::Arc, time::Duration};

use keyfob_api::Secret;

use crate::Program;

/// One run of one program.
///
/// It is a value: running it twice is two processes. `Debug` shows the program and hides arguments, environment and
/// stdin, all of which may hold secrets.
#[derive(Clone)]
pub struct Invocation {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) stdin: Stdin,
    pub(crate) stdout: Stdout,
    pub(crate) stderr: Stderr,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) limits: Limits,
    pub(crate) secrets: Vec<Secret<String>>,
}

impl Invocation {
    /// Runs a program without arguments: empty stdin, a tail of stderr, no deadline.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            args: Vec::new(),
            env: Vec::new(),
            stdin: Stdin::Null,
            stdout: Stdout::Read,
            stderr: Stderr::Tail,
            watch: None,
            deadline: None,
            limits: Limits::default(),
            secrets: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable over the host's environment. Of several with one name the last wins.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// What the program reads.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Who reads what it prints.
    #[must_use]
    pub fn stdout(mut self, stdout: Stdout) -> Self {
        self.stdout = stdout;
        self
    }

    /// Where its messages go.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// Who sees more of the run than its outcome tells.
    #[must_use]
    pub fn watch(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// When the whole process group is killed.
    #[must_use]
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// How much output is kept.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Names a secret handed to the program, so that it is cut out of whatever the program says on stderr.
    ///
    /// Values of variables whose names speak of secrets (`…_TOKEN`, `…PASSWORD…`) are cut out without being named.
    #[must_use]
    pub fn redact(mut self, secret: impl Into<Secret<String>>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// The path that will be run.
    pub fn program(&self) -> &Path {
        self.program.path()
    }

    /// The arguments, without the program's name.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    /// The variables set over the host's environment, in order.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.env
    }

    /// What the program will read.
    pub fn input(&self) -> &Stdin {
        &self.stdin
    }

    /// After how long it is killed.
    pub fn killed_after(&self) -> Option<Duration> {
        self.deadline
    }
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("program", &self.program)
            .field("args", &format_args!("{} hidden", self.args.len()))
            .field("env", &format_args!("{} hidden", self.env.len()))
            .field("stdin", &self.stdin)
            .field("stderr", &self.stderr)
            .field("deadline", &self.deadline)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What a program reads.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Stdin {
    /// Nothing: the null device.
    #[default]
    Null,
    /// These bytes, then the end. A program that does not read them has done nothing wrong.
    Bytes(Secret<Vec<u8>>),
    /// The host's own standard input, for a program that asks a person.
    ///
    /// Such a program stays in the host's process group, because a terminal stops readers from any other; so at a
    /// deadline it alone is killed, not its children.
    Terminal,
}

impl Stdin {
    /// These bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(Secret::new(bytes.into()))
    }
}

/// Who reads what a program prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stdout {
    /// We do, up to the limit.
    #[default]
    Read,
    /// Nobody: the other end is closed already, as when the host has given up, and whoever writes is killed by `SIGPIPE`.
    Closed,
}

/// Sees of a run what its outcome does not tell: for whoever judges programs. Nothing here may wait.
pub trait Watch: Send + Sync + fmt::Debug {
    /// A piece of stderr as it came, with whatever secrets are in it. Not called with [`Stderr::Inherit`].
    fn stderr(&self, piece: &[u8]);

    /// The program has exited, and something that it started still holds its stdout or stderr; the group is killed now.
    fn held(&self);
}

/// Where a program's messages go.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Stderr {
    /// Only the end is kept, redacted, for the error.
    #[default]
    Tail,
    /// Each line is handed over as it comes, without the secrets handed to the program and without signed tokens; what
    /// the program also prints on stdout is not known yet. The end is kept too.
    ///
    /// The function is called between two reads and must not wait for anything.
    Forward(Arc<dyn Fn(&str) + Send + Sync>),
    /// The host's own stderr, live and unseen by us: for a program that talks to a person.
    Inherit,
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tail => "Tail",
            Self::Forward(_) => "Forward",
            Self::Inherit => "Inherit",
        })
    }
}

/// How much output is kept, and how long it is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers fill it in, with `..Default::default()` for the rest"
)]
pub struct Limits {
    /// More bytes than this on stdout end the run at once.
    pub stdout: usize,
    /// How many bytes of the end of stderr are kept.
    pub stderr: usize,
    /// How long output is still read after the program has exited, in case something it started holds stdout or
    /// stderr; also beyond the deadline.
    pub drain: Duration,
}

/// How many bytes a plugin may print: [`Limits::stdout`] of every host. No answer is as long.
pub const MOST_OUTPUT: usize = 8 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self { stdout: 1 << 20, stderr: 8 << 10, drain: Duration::from_millis(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_program_and_hides_what_it_is_given() {
        let invocation = Invocation::new(Program::at("/opt/plugin").unwrap())
            .args(["--password=hunter2"])
            .env("TOKEN", "hunter2")
            .stdin(Stdin::bytes("hunter2"))
            .redact("hunter2");

        let shown = format!("{invocation:?}");

        assert!(shown.contains("/opt/plugin") && shown.contains("1 hidden"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
