//! Which file to run.
//!
//! Upstream: `exec.LookPath` of Go 1.26, as the kubelet (`binDir/name`) and client-go (a bare name on `PATH`) use it.
//! Differs: an error shows the path really tried (upstream prints an empty one); a plugin directory of `.` means that
//! directory (upstream then searches `PATH`); only regular files are run; a directory of `PATH` is joined as it is
//! written (upstream cleans `a/../b`, which through a link means another place).

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, CWD};
use thiserror::Error;

use crate::Environment;

/// A file to run, found in one of the two manners of Kubernetes. Its path always has a `/` in it, so it can never be
/// looked up a second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    name: OsString,
}

impl Program {
    /// A plugin of a plugin directory: the name is joined to the directory and must be an executable file.
    pub fn in_directory(directory: &Path, name: &str) -> Result<Self, LookupError> {
        if name.contains('/') {
            return Err(LookupError::NotAName { name: name.into() });
        }
        let path = directory.join(name);
        match runnable(&path) {
            Ok(()) => Self::at(path),
            Err(NotRunnable::Missing) => Err(LookupError::NotFound { path }),
            Err(why) => Err(LookupError::NotExecutable { path, why }),
        }
    }

    /// A command as a kubeconfig names it: a bare name is searched on the *host's* `PATH`, never in the current
    /// directory; anything with a `/` is taken as written.
    pub fn on_path(command: &str, host: &dyn Environment) -> Result<Self, LookupError> {
        if command.contains('/') {
            return Self::at(command);
        }
        let path = host.var("PATH").unwrap_or_default();
        let mut passed_over = None;
        for directory in directories(&path) {
            let candidate = directory.join(command);
            match runnable(&candidate) {
                Ok(()) if candidate.is_absolute() => {
                    return Ok(Self { path: candidate, name: command.into() });
                }
                Ok(()) => return Err(LookupError::Relative { path: candidate }),
                Err(NotRunnable::Missing) => {}
                Err(why) => {
                    passed_over.get_or_insert((candidate, why));
                }
            }
        }
        Err(LookupError::NotOnPath { command: command.into(), path, passed_over })
    }

    /// The file at a path that somebody else has resolved. Whether it can be run shows when it is run.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, LookupError> {
        let path = path.into();
        if !path.as_os_str().as_encoded_bytes().contains(&b'/') {
            return Err(LookupError::Relative { path });
        }
        Ok(Self { name: path.clone().into_os_string(), path })
    }

    /// The same file under another name ([`name`](Self::name)).
    #[must_use]
    pub fn called(self, name: impl Into<OsString>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the program is told it is called (`argv[0]`): the command as it was written.
    pub fn name(&self) -> &OsStr {
        &self.name
    }
}

/// The directories of a `PATH`; as in Go an empty entry is the current directory and an empty `PATH` has none.
fn directories(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path)
        .filter(|_| !path.is_empty())
        .map(|entry| if entry.as_os_str().is_empty() { PathBuf::from(".") } else { entry })
}

/// Whether a file could be run by us, now.
fn runnable(path: &Path) -> Result<(), NotRunnable> {
    let kind = fs::metadata(path).map_err(|error| NotRunnable::from_io(&error))?.file_type();
    if kind.is_dir() {
        return Err(NotRunnable::Directory);
    }
    if !kind.is_file() {
        return Err(NotRunnable::NotAFile);
    }
    may_execute(path).map_err(|error| NotRunnable::from_io(&error))
}

/// Whether the system lets us execute what lies there, now. A directory that may be entered counts.
pub fn may_execute(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Why a file cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotRunnable {
    /// There is nothing at the path.
    #[error("no such file")]
    Missing,
    /// It is a directory.
    #[error("it is a directory")]
    Directory,
    /// It is a pipe, a socket or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It lacks the execute bit, or a directory on the way may not be entered.
    #[error("permission denied; is its execute bit set?")]
    Permission,
    /// It is neither a program for this machine nor a script with a `#!` line.
    #[error("it is not a program for this machine, nor a script with a #! line")]
    Format,
    /// It is a script or dynamic program whose interpreter is not there.
    #[error("the file is there, but the interpreter it names is not")]
    Interpreter,
    /// Somebody is writing it.
    #[error("it is being written at this moment; try again when it is installed")]
    Busy,
    /// Its path holds a NUL byte, which no path can.
    #[error("its path contains a NUL byte")]
    NulByte,
    /// The system said something else.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Other(i32),
}

impl NotRunnable {
    fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Permission,
            io::ErrorKind::InvalidInput => Self::NulByte,
            _ => Self::Other(error.raw_os_error().unwrap_or_default()),
        }
    }
}

/// A program that could not be found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LookupError {
    /// A name with a `/` in it could lead out of the plugin directory.
    #[error("{name} is a path, not the name of a plugin")]
    NotAName {
        /// The name as written.
        name: String,
    },
    /// There is no such file in the plugin directory.
    #[error("no plugin at {}: install it there or correct its name", path.display())]
    NotFound {
        /// The path really tried.
        path: PathBuf,
    },
    /// There is something, but it cannot be run.
    #[error("the plugin at {} cannot be run: {why}", path.display())]
    NotExecutable {
        /// The path really tried.
        path: PathBuf,
        /// What is wrong with it.
        why: NotRunnable,
    },
    /// A bare name is on no directory of `PATH`.
    #[error(
        "{command} was not found on PATH ({}){}",
        path.display(),
        passed_over.as_ref().map(|(path, why)| format!("; passed over {}: {why}", path.display())).unwrap_or_default()
    )]
    NotOnPath {
        /// The name as written.
        command: String,
        /// The `PATH` that was searched.
        path: OsString,
        /// The first file of that name that could not be run.
        passed_over: Option<(PathBuf, NotRunnable)>,
    },
    /// The first hit lies below the current directory, which anybody may fill: it is refused and the search ends.
    #[error("{} lies below the current directory and is not run; write an absolute path", path.display())]
    Relative {
        /// The hit.
        path: PathBuf,
    },
}
