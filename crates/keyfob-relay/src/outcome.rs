//! What a run prints and its exit code. Everything else returns it, so that only this module writes to stdout.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use rustix::io::{retry_on_intr, write};

use crate::text::on_one_line;

/// The result of a run. `stderr` never contains anything of a successful response, which has a secret in it.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) code: u8,
}

impl Outcome {
    pub(crate) fn success(stdout: impl Into<Vec<u8>>) -> Self {
        Self { stdout: stdout.into(), stderr: String::new(), code: 0 }
    }

    pub(crate) fn failure(stderr: String) -> Self {
        Self { stdout: Vec::new(), stderr, code: 1 }
    }

    pub(crate) fn wrong_arguments(message: &str) -> Self {
        let stderr = format!(
            "keyfob-relay: {}\nhelp: keyfob-relay --help lists the options\n",
            on_one_line(message)
        );
        Self { stdout: Vec::new(), stderr, code: 2 }
    }

    pub(crate) fn with_stdout(mut self, stdout: impl Into<Vec<u8>>) -> Self {
        self.stdout = stdout.into();
        self
    }

    /// Prints both streams. A result that could not be written completely is a failure, because a caller would otherwise use
    /// a part of it.
    pub(crate) fn print(self) -> ExitCode {
        // There is nowhere to report that stderr cannot be written.
        io::stderr().write_all(self.stderr.as_bytes()).unwrap_or_default();
        match write_stdout(&self.stdout) {
            Ok(()) => ExitCode::from(self.code),
            Err(error) => {
                let line = format!("keyfob-relay: cannot write to stdout: {error}\n");
                io::stderr().write_all(line.as_bytes()).unwrap_or_default();
                ExitCode::FAILURE
            }
        }
    }
}

/// Not `std::io::Stdout`: it splits a text at its last line break into two writes, and ignores a descriptor that is not open
/// for writing.
fn write_stdout(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| write(rustix::stdio::stdout(), bytes))?;
        bytes = match bytes.get(written..) {
            Some(rest) if written > 0 => rest,
            _ => return Err(io::ErrorKind::WriteZero.into()),
        };
    }
    Ok(())
}
