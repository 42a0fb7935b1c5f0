//! How a run ended.

use std::{fmt, io, path::PathBuf, time::Duration};

use keyfob_api::{Redactor, Secret};
use nix::sys::signal::Signal;
use thiserror::Error;

use crate::{NotRunnable, printable};

/// A program that ran to its end, well or not.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "implementors of the trait build it")]
pub struct Finished {
    /// The path that was run.
    pub program: PathBuf,
    /// How it ended.
    pub status: Status,
    /// What it printed: the protocol, and a secret.
    pub stdout: Secret<Vec<u8>>,
    /// The end of what it said, redacted.
    pub stderr: StderrTail,
    /// From before the start until after the end.
    pub elapsed: Duration,
}

impl Finished {
    /// What it printed, if it exited with code 0; any other end is an error.
    pub fn success(self) -> Result<Secret<Vec<u8>>, RunError> {
        let Self { program, status, stdout, stderr, elapsed } = self;
        match status {
            Status::Exited(0) => Ok(stdout),
            Status::Exited(_) | Status::Signaled(_) => {
                Err(RunError::Failed { program, status, stderr, elapsed })
            }
        }
    }
}

/// How a process ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a process has no third way to end")]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Signaled(i32),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signaled(signal) => match Signal::try_from(signal) {
                Ok(name) => write!(f, "killed by {name}"),
                Err(_) => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

/// The end of what a program said on stderr: redacted, and safe to show on a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StderrTail {
    text: String,
    truncated: bool,
}

impl StderrTail {
    /// Takes the raw end of a stream and keeps at most `limit` bytes of it. `beheaded` says that more stood before it.
    pub(crate) fn new(raw: &[u8], beheaded: bool, limit: usize, redactor: &Redactor) -> Self {
        let stray = raw.iter().take_while(|byte| beheaded && **byte & 0xc0 == 0x80).count();
        let text = String::from_utf8_lossy(raw.get(stray..).unwrap_or_default());
        // The cut may have beheaded a secret, whose end then stands here unrecognised.
        let word = text.find(char::is_whitespace).unwrap_or(text.len());
        let dropped = if beheaded { word.max(redactor.longest()) } else { 0 };
        let redacted = redactor.redact_after(&text, dropped);
        let start = redacted.ceil_char_boundary(redacted.len().saturating_sub(limit));
        let kept = redacted.get(start..).unwrap_or_default();
        Self { text: printable(kept.trim()), truncated: beheaded || start > 0 }
    }

    /// The text, line by line, without white space around it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether more was said before this.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
}

/// One line, so that a plugin cannot forge lines of a log.
impl fmt::Display for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = if self.truncated { "…" } else { "" };
        write!(f, "{start}{}", self.text.replace('\n', " | "))
    }
}

impl RunError {
    /// How long the program ran; nothing if it was never started, or nobody knows.
    pub fn elapsed(&self) -> Option<Duration> {
        match self {
            Self::Failed { elapsed, .. } | Self::OutputTooLarge { elapsed, .. } => Some(*elapsed),
            Self::TimedOut { after, .. } => Some(*after),
            _ => None,
        }
    }
}

/// A run that gave no answer. None of these hold anything that was printed on stdout.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no such file.
    #[error("cannot run {}: no such file", program.display())]
    NotFound {
        /// The path that was tried.
        program: PathBuf,
    },
    /// There is a file, but it cannot be run.
    #[error("cannot run {}: {why}", program.display())]
    NotExecutable {
        /// The path that was tried.
        program: PathBuf,
        /// What is wrong with it.
        why: NotRunnable,
    },
    /// The kernel refuses arguments and environment of this size.
    #[error(
        "cannot run {}: its arguments and environment have {total} bytes, the largest string {largest}; \
         Linux takes 131071 for one, and a quarter of the stack limit for all",
        program.display()
    )]
    ArgumentListTooLong {
        /// The path that was tried.
        program: PathBuf,
        /// The length of the largest argument or variable.
        largest: usize,
        /// The length of all of them.
        total: usize,
    },
    /// An argument or a variable holds a NUL byte, which no program can be given.
    #[error("cannot run {}: {what} contains a NUL byte", program.display())]
    NulByte {
        /// The path that was to be run.
        program: PathBuf,
        /// Which kind of string it was.
        what: &'static str,
    },
    /// The deadline passed; the program and all it started were killed.
    #[error("{} was killed after {} s without an answer{}", program.display(), after.as_secs_f64(), said(stderr))]
    TimedOut {
        /// The path that was run.
        program: PathBuf,
        /// The deadline.
        after: Duration,
        /// What it had said until then.
        stderr: StderrTail,
    },
    /// It printed more than it may; it was killed.
    #[error("{} printed more than {limit} bytes and was killed{}", program.display(), said(stderr))]
    OutputTooLarge {
        /// The path that was run.
        program: PathBuf,
        /// How much it may print.
        limit: usize,
        /// What it had said until then.
        stderr: StderrTail,
        /// How long it ran.
        elapsed: Duration,
    },
    /// It exited with another code than 0, or a signal killed it.
    #[error("{} failed: {status}{}", program.display(), said(stderr))]
    Failed {
        /// The path that was run.
        program: PathBuf,
        /// How it ended.
        status: Status,
        /// What it said.
        stderr: StderrTail,
        /// How long it ran.
        elapsed: Duration,
    },
    /// The operating system failed us: no more descriptors, processes or memory.
    #[error("cannot run {}: {step} failed", program.display())]
    System {
        /// The path that was to be run.
        program: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn said(stderr: &StderrTail) -> String {
    if stderr.text.is_empty() { String::new() } else { format!("; it said: {stderr}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 10;

    #[test]
    fn a_tail_cannot_steer_a_terminal_nor_forge_a_line() {
        let raw = "\x1b[2Jgone\r\nERROR \u{202e}forged\n\n";

        let tail = StderrTail::new(raw.as_bytes(), false, LIMIT, &Redactor::default());

        assert_eq!(tail.text(), "\\u{1b}[2Jgone\\r\nERROR \\u{202e}forged");
        assert_eq!(tail.to_string(), "\\u{1b}[2Jgone\\r | ERROR \\u{202e}forged");
    }

    #[test]
    fn a_secret_beheaded_by_the_cut_does_not_show_its_end() {
        let redactor = Redactor::new(&[Secret::from("correct horse battery"), Secret::from("x")]);
        let shown = |raw: &[u8]| StderrTail::new(raw, true, LIMIT, &redactor).to_string();

        // In its longest form a secret has eight characters for each of its bytes.
        let longest = 8 * "correct horse battery".len();
        let text = |end: &str| format!("rse battery {}{end}", ".".repeat(longest - 20));
        assert_eq!(shown(text(" was refused, sorry").as_bytes()), "…used, sorry");
        assert_eq!(shown(text(" correct horse battery, sorry").as_bytes()), "…, sorry");
        let beheaded = format!("😀{}", text(" was refused"));
        assert_eq!(shown(beheaded.as_bytes().get(1..).unwrap()), "…used");
    }

    #[test]
    fn a_word_beheaded_by_the_cut_is_dropped() {
        let raw = b"LCJzZWNyZXQiOiJodW50ZXIyIn0.c2lnbmF0dXJl is refused";

        let tail = StderrTail::new(raw, true, LIMIT, &Redactor::default());

        assert_eq!(tail.to_string(), "…is refused");
    }

    #[test]
    fn no_more_than_the_limit_is_kept() {
        let kept = |limit| StderrTail::new("é bye".as_bytes(), false, limit, &Redactor::default());

        assert_eq!((kept(6).to_string(), kept(6).is_truncated()), ("é bye".into(), false));
        assert_eq!((kept(5).to_string(), kept(5).is_truncated()), ("…bye".into(), true));
        assert_eq!(kept(0).text(), "");
    }

    #[test]
    fn the_name_of_a_signal_is_shown() {
        assert_eq!(Status::Signaled(9).to_string(), "killed by SIGKILL");
        assert_eq!(Status::Signaled(40).to_string(), "killed by signal 40");
    }
}
