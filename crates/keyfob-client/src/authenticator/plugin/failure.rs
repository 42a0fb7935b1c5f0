//! What became of a process, in Go's words.

use std::{io, path::Path, sync::Arc};

use keyfob_exec::{Finished, NotRunnable, RunError, Status};

use super::Plugin;
use crate::{AuthError, StartError};

impl Plugin {
    /// A run that came to an end by itself and well, or the error that it is.
    pub(super) fn judge(
        &self,
        ran: Result<Finished, RunError>,
        info: usize,
    ) -> Result<Finished, AuthError> {
        let command = self.command().to_owned();
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
            Err(RunError::NulByte { program, .. }) => {
                let reason = StartError::NotRunnable(NotRunnable::NulByte);
                AuthError::NotStarted { program, reason }
            }
            Err(RunError::NotFound { program }) => {
                AuthError::NotStarted { reason: missing(&program), program }
            }
            Err(RunError::NotExecutable { program, why }) => {
                AuthError::NotStarted { program, reason: StartError::NotRunnable(why) }
            }
            Err(RunError::System { program, step: "starting it", source }) => {
                AuthError::NotStarted { program, reason: StartError::System(source.into()) }
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
fn missing(program: &Path) -> StartError {
    match std::fs::metadata(program) {
        Err(error) => StartError::System(Arc::new(error)),
        // It has come in the meantime.
        Ok(_) => StartError::NotRunnable(NotRunnable::Missing),
    }
}
