//! What a command means on `PATH`, for a comparison.
//!
//! Unlike [`Program::on_path`](keyfob_exec::Program::on_path), which finds what to run, this is the path that Go would
//! compare, cleaned, and Go's words if there is none.
//!
//! Upstream: `exec.LookPath` of Go 1.26, on Unix.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use keyfob_api::Quoted;
use keyfob_exec::{
    Environment,
    go::{clean_path, error_text},
    may_execute,
};
use rustix::io::Errno;
use thiserror::Error;

/// The path of a command.
pub(super) fn look_path(
    command: &str,
    environment: &dyn Environment,
) -> Result<PathBuf, LookPathError> {
    let error = |reason| LookPathError { command: command.to_owned(), reason };
    if matches!(command, "" | "." | "..") {
        return Err(error(Reason::NotOnPath));
    }
    if command.contains('/') {
        let path = PathBuf::from(command);
        return executable(&path).map(|()| path).map_err(error);
    }
    let directories = environment.var("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&directories).filter(|_| !directories.is_empty());
    let mut candidates = directories.map(|directory| {
        let directory = if directory.as_os_str().is_empty() { ".".into() } else { directory };
        clean_path(directory.join(command).as_os_str())
    });
    match candidates.find(|path| executable(path).is_ok()) {
        Some(path) if path.is_absolute() => Ok(path),
        Some(path) => Err(error(Reason::BelowHere(path))),
        None => Err(error(Reason::NotOnPath)),
    }
}

fn executable(path: &Path) -> Result<(), Reason> {
    let stat = |error| Reason::Stat { path: path.to_owned(), errno: errno(&error) };
    if fs::metadata(path).map_err(stat)?.is_dir() {
        return Err(Reason::System(Errno::ISDIR));
    }
    may_execute(path).map_err(|error| Reason::System(errno(&error)))
}

/// What std refuses itself, a NUL byte, the system would call an invalid argument.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::INVAL)
}

/// A command that cannot be found, or not be run. Displays as Go's error, word for word.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("exec: {}: {reason}", Quoted(command))]
#[non_exhaustive]
pub struct LookPathError {
    /// The command.
    pub command: String,
    reason: Reason,
}

impl LookPathError {
    /// The hit, if it is only refused because it lies below the current directory, which anybody may fill.
    pub fn below_here(&self) -> Option<&Path> {
        match &self.reason {
            Reason::BelowHere(path) => Some(path),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Reason {
    #[error("executable file not found in $PATH")]
    NotOnPath,
    #[error("cannot run executable found relative to current directory")]
    BelowHere(PathBuf),
    #[error("stat {}: {}", path.display(), words(*errno))]
    Stat { path: PathBuf, errno: Errno },
    #[error("{}", words(*_0))]
    System(Errno),
}

fn words(errno: Errno) -> String {
    error_text(&errno.into())
}
