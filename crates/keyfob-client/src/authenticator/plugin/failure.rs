//! What became of a process, in Go's words.

use std::{io, path::Path, sync::Arc};

use keyfob_exec::{Finished, NotRunnable, RunError, Status, go::error_text};

use super::Plugin;
use crate::AuthError;

impl Plugin {
    /// A run that came to an end by itself and well, or the error that it is.
    pub(super) fn judge(
        &self,
        ran: Result<Finished, RunError>,
        info: usize,
    ) -> Result<Finished, AuthError> {
        let command = self.command().to_owned();
        let not_started =
            |program, reason: &str| AuthError::NotStarted { program, reason: reason.to_owned() };
        Err(match ran {
            Ok(finished) if finished.status == Status::Exited(0) => return Ok(finished),
            Ok(Finished { status, stderr, .. }) | Err(RunError::Failed { status, stderr, .. }) => {
                AuthError::Failed { command, status, stderr }
            }
            Err(RunError::TimedOut { after, stderr, .. }) => {
                AuthError::TimedOut { command, after, stderr }
            }
            Err(RunError::OutputTooLarge { limit, stderr, .. }) => {
                AuthError::TooMuchOutput { command, limit, stderr }
            }
            Err(RunError::ArgumentListTooLong { program, largest, total }) => {
                AuthError::ArgumentListTooLong { program, info, largest, total }
            }
            Err(RunError::NulByte { what: "an environment variable", .. }) => {
                AuthError::NulInEnvironment
            }
            Err(RunError::NulByte { program, .. }) => not_started(program, "invalid argument"),
            Err(RunError::NotFound { program }) => {
                let reason = missing(&program);
                not_started(program, &reason)
            }
            Err(RunError::NotExecutable { program, why }) => not_started(program, &words(why)),
            Err(RunError::System { program, step: "starting it", source }) => {
                not_started(program, &error_text(&source))
            }
            Err(RunError::System { program, step, source }) => {
                AuthError::System { program, step, source: Arc::new(source) }
            }
            Err(error) => AuthError::System {
                program: self.command().into(),
                step: "running it",
                source: Arc::new(io::Error::other(error)),
            },
        })
    }
}

/// Nothing there, or no way there.
fn missing(program: &Path) -> String {
    match std::fs::metadata(program) {
        Err(error) => error_text(&error),
        // It has come in the meantime.
        Ok(_) => "no such file or directory".to_owned(),
    }
}

fn words(why: NotRunnable) -> String {
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
