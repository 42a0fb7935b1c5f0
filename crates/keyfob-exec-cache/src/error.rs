//! What goes wrong, and what people are told while it goes on.

use std::{fmt, io, time::Duration};

use keyfob_api::{ExecAnswerError, GoDuration};
use keyfob_exec::RunError;
use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExecCacheError {
    /// The lock that makes one run of many cannot be used.
    #[error("the lock of {command} cannot be used")]
    Lock {
        /// The plugin's command.
        command: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Somebody else runs the plugin and does not come to an end.
    #[error(
        "another keyfob{} has been logging in with {command} for more than {}; end it, or wait longer with --lock-timeout",
        Pid(*pid), GoDuration::from(*after)
    )]
    StillWaiting {
        /// The plugin's command.
        command: String,
        /// Whose run it is.
        pid: Option<i32>,
        /// How long it was waited for.
        after: Duration,
    },
    /// The run that was waited for failed.
    #[error("the keyfob that was waited for (pid {pid}) could not log in with {command}: {text}")]
    OthersFailed {
        /// The plugin's command.
        command: String,
        /// Whose run it was.
        pid: i32,
        /// What it said of it.
        text: String,
    },
    /// The plugin could not be run, or failed. What it said was handed on already.
    #[error("{}", without_stderr(.0))]
    Plugin(RunError),
    /// The plugin's output is no credential.
    #[error(transparent)]
    Answer(#[from] ExecAnswerError),
}

impl ExecCacheError {
    /// For those who did not see the plugin's stderr.
    pub(super) fn told_to_others(&self) -> String {
        match self {
            Self::Plugin(error) => error.to_string(),
            _ => self.to_string(),
        }
    }
}

/// What the runner says, up to what the plugin said.
fn without_stderr(error: &RunError) -> String {
    match error {
        RunError::Failed { program, status, .. } => {
            format!("{} failed: {status}", program.display())
        }
        RunError::TimedOut { program, after, .. } => {
            format!(
                "{} was killed after {} without an answer; give it longer with --deadline",
                program.display(),
                GoDuration::from(*after)
            )
        }
        RunError::OutputTooLarge { program, limit, .. } => {
            format!("{} printed more than {limit} bytes and was killed", program.display())
        }
        RunError::System { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

/// What people should see while a question is answered.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExecCacheNotice<'a> {
    /// A line of the plugin's own, redacted.
    Line(&'a str),
    /// Somebody else runs the plugin.
    Waiting {
        /// The plugin's command.
        command: &'a str,
        /// Whose run it is.
        pid: Option<i32>,
    },
    /// The plugin failed, and what is kept is still good.
    NotRenewed {
        /// The plugin's command.
        command: &'a str,
        /// Why there is no new one.
        error: &'a ExecCacheError,
        /// How long the old one is good.
        left: Duration,
    },
    /// The answer does not say until when it is good.
    NoExpiry {
        /// The plugin's command.
        command: &'a str,
    },
    /// The answer is good, and could not be written down.
    NotStored {
        /// The plugin's command.
        command: &'a str,
        /// What the system said.
        error: &'a io::Error,
    },
}

impl fmt::Display for ExecCacheNotice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Waiting { command, pid } => {
                write!(
                    f,
                    "keyfob: waiting for another keyfob{} to log in with {command}",
                    Pid(*pid)
                )
            }
            Self::NotRenewed { command, error, left } => {
                let left = GoDuration::from(Duration::from_secs(left.as_secs()));
                write!(
                    f,
                    "keyfob: no new login with {command}, the old one is good for {left}: {error}"
                )
            }
            Self::NoExpiry { command } => write!(
                f,
                "keyfob: the answer of {command} does not say when it expires, so it is not kept; --max-age keeps it"
            ),
            Self::NotStored { command, error } => {
                write!(f, "keyfob: the answer of {command} could not be kept: {error}")
            }
        }
    }
}

struct Pid(Option<i32>);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
    }
}
