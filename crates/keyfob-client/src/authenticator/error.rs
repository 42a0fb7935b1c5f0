//! Why there is no credential.
//!
//! Upstream: `refreshCredsLocked` and `wrapCmdRunErrorLocked` in `plugin/pkg/client/auth/exec/exec.go`, whose sentences these
//! are, wherever it has one.
//! Differs: errors are types; what the plugin said on stderr, without secrets, and what to do come with them, beside the
//! sentence.

use std::{fmt, io, path::PathBuf, sync::Arc, time::SystemTime};

use keyfob_api::{ExecAnswerError, Quoted, Timestamp};
use keyfob_exec::{LookupError, NotRunnable, Status, StderrTail, go::error_text};
use thiserror::Error;

use super::hint::Help;
use crate::{Denied, IdentityError};

/// Why there is no credential. Everybody who waited for the same run gets the same.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The plugin's `interactiveMode` cannot be had here, or is none.
    #[error("exec plugin cannot support interactive mode: {0}")]
    Interactive(NotInteractive),
    /// The policy does not let it run.
    #[error("{0}")]
    Denied(Arc<Denied>),
    /// There is no program of this name on `PATH`.
    #[error("exec: executable {command} not found{help}")]
    NotFound {
        /// The command, cleaned.
        command: String,
        /// What to tell a person. Now and then only, so that logs do not fill.
        help: Help,
        /// Where it was looked for.
        #[source]
        lookup: Arc<LookupError>,
    },
    /// There is a path, and what is there cannot be started.
    #[error("exec: fork/exec {}: {reason}", program.display())]
    NotStarted {
        /// The path.
        program: PathBuf,
        /// Why not. Part of upstream's sentence, so it is no source.
        reason: StartError,
    },
    /// Linux does not take that much for a program's arguments and environment.
    #[error("exec: fork/exec {}: argument list too long", program.display())]
    ArgumentListTooLong {
        /// The path.
        program: PathBuf,
        /// How many bytes `KUBERNETES_EXEC_INFO` has; most of them are the cluster's certificates.
        info: usize,
        /// The longest argument or variable.
        largest: usize,
        /// All of them.
        total: usize,
    },
    /// A variable has a NUL byte, which no program can be given.
    #[error("exec: exec: environment variable contains NUL")]
    NulInEnvironment,
    /// The system failed us.
    #[error("exec: {step} failed")]
    System {
        /// The path.
        program: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// It ran, and did not exit with code 0.
    #[error("exec: executable {command} failed with exit code {}", exit_code(*status))]
    Failed {
        /// The command, cleaned.
        command: String,
        /// How it ended.
        status: Status,
        /// What it said.
        stderr: StderrTail,
    },
    /// It gave no answer in time and was killed, with all that it had started.
    #[error("exec: executable {command} gave no answer within {} s and was killed", after.as_secs_f64())]
    TimedOut {
        /// The command, cleaned.
        command: String,
        /// How long it had.
        after: std::time::Duration,
        /// What it said.
        stderr: StderrTail,
    },
    /// It printed more than any answer has, and was killed.
    #[error("exec: executable {command} printed more than {limit} bytes and was killed")]
    TooMuchOutput {
        /// The command, cleaned.
        command: String,
        /// How much it may print.
        limit: usize,
        /// What it said.
        stderr: StderrTail,
    },
    /// Its answer cannot be used.
    #[error("{error}")]
    Answer {
        /// What is wrong with it. Upstream's sentence, so it is no source.
        error: ExecAnswerError,
        /// What it said.
        stderr: StderrTail,
    },
    /// The certificate or the key of its answer cannot be used.
    #[error("failed parsing client key/certificate: {0}")]
    Pair(IdentityError),
    /// It failed a moment ago, and is not run again so soon.
    #[error("{last} (it is not run again before {})", Timestamp::from(*until))]
    Waiting {
        /// How it failed.
        last: Arc<Self>,
        /// When it may be run again.
        until: SystemTime,
    },
    /// A person was asked again and again, and it came to nothing.
    #[error("{last} (asked {attempts} times; nobody is asked again before {})", Timestamp::from(*until))]
    Unanswered {
        /// How often somebody was asked in a row.
        attempts: u32,
        /// How the last attempt failed.
        last: Arc<Self>,
        /// When somebody may be asked again.
        until: SystemTime,
    },
    /// The server refuses whatever the plugin brings.
    #[error("the server refused {refusals} credentials in a row; the plugin is not run again before {}", Timestamp::from(*until))]
    Refused {
        /// How many it refused.
        refusals: u32,
        /// When it may be run again.
        until: SystemTime,
    },
    /// Nobody is there to run it: this was called outside of a tokio runtime.
    #[error("the plugin cannot be run outside of a tokio runtime")]
    NoRuntime,
    /// The runtimes that ran it were shut down, one after the other.
    #[error("the runtime that ran the plugin was shut down")]
    Abandoned,
}

impl AuthError {
    /// The end of what the plugin said on stderr, without secrets; nothing if it said nothing, or talked to a person.
    pub fn stderr(&self) -> Option<&StderrTail> {
        let stderr = match self {
            Self::Failed { stderr, .. }
            | Self::TimedOut { stderr, .. }
            | Self::TooMuchOutput { stderr, .. }
            | Self::Answer { stderr, .. } => stderr,
            Self::Waiting { last, .. } | Self::Unanswered { last, .. } => return last.stderr(),
            _ => return None,
        };
        (!stderr.text().is_empty()).then_some(stderr)
    }

    /// When the plugin may be run again, if not at once.
    pub fn retry_at(&self) -> Option<SystemTime> {
        match self {
            Self::Waiting { until, .. }
            | Self::Unanswered { until, .. }
            | Self::Refused { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// What to do about it, where the sentence does not say.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::ArgumentListTooLong { info, .. } if *info > MOST_INFO => Some(
                "the cluster's information is too large for an environment variable: turn provideClusterInfo off for this user, or make its certificate-authority-data smaller",
            ),
            Self::ArgumentListTooLong { .. } => Some(
                "the plugin's arguments and environment are too large: shorten args and env of this user",
            ),
            Self::TimedOut { .. } => Some(
                "run the command by hand to see what it waits for; one that asks a person needs interactiveMode IfAvailable or Always, and a terminal",
            ),
            Self::Interactive(NotInteractive::NoTerminal) => {
                Some("run this in a terminal, or log in with the plugin by hand before")
            }
            Self::Interactive(NotInteractive::UnknownMode(_)) => {
                Some("set interactiveMode of this user to Never, IfAvailable or Always")
            }
            Self::Waiting { last, .. } | Self::Unanswered { last, .. } => last.advice(),
            _ => None,
        }
    }

    /// Whether a process was started, or could not be because the system had no room.
    pub(super) fn has_run(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. }
                | Self::TimedOut { .. }
                | Self::TooMuchOutput { .. }
                | Self::Answer { .. }
                | Self::Pair(_)
                | Self::System { .. }
        )
    }

    /// The sentence, what to do, and what the plugin said.
    pub fn in_full(&self) -> impl fmt::Display + '_ {
        InFull(self)
    }
}

/// What Linux takes for the value of `KUBERNETES_EXEC_INFO`, with its line break.
const MOST_INFO: usize = 131_050;

struct InFull<'a>(&'a AuthError);

impl fmt::Display for InFull<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        if let Some(advice) = self.0.advice() {
            write!(f, "\n{advice}")?;
        }
        match self.0.stderr() {
            Some(stderr) => write!(f, "\nthe plugin said: {}", stderr.text()),
            None => Ok(()),
        }
    }
}

/// Go's number for an end by a signal is -1.
fn exit_code(status: Status) -> i32 {
    match status {
        Status::Exited(code) => code,
        Status::Signaled(_) => -1,
    }
}

/// Why a program could not be started. Displays as Go says it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// What is at its path cannot be run.
    #[error("{}", in_go(*_0))]
    NotRunnable(NotRunnable),
    /// The system refused.
    #[error("{}", error_text(_0))]
    System(Arc<io::Error>),
}

fn in_go(why: NotRunnable) -> String {
    let words = match why {
        NotRunnable::Missing | NotRunnable::Interpreter => "no such file or directory",
        NotRunnable::Directory | NotRunnable::NotAFile | NotRunnable::Permission => {
            "permission denied"
        }
        NotRunnable::Format => "exec format error",
        NotRunnable::Busy => "text file busy",
        NotRunnable::NulByte => "invalid argument",
        NotRunnable::Other(number) => {
            return error_text(&io::Error::from_raw_os_error(number));
        }
        _ => return why.to_string(),
    };
    words.to_owned()
}

/// Why a plugin cannot have the terminal it must have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotInteractive {
    /// There is none.
    #[error("standard input is not a terminal")]
    NoTerminal,
    /// The program around us reads it.
    #[error("standard input is unavailable{}{_0}", if _0.is_empty() { "" } else { ": " })]
    Unavailable(String),
    /// Nobody knows whether it must.
    #[error("unknown interactiveMode: {}", Quoted(.0))]
    UnknownMode(String),
}
