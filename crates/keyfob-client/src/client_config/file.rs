//! Files that a kubeconfig names, and kubeconfigs themselves: regular ones of a fair size.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use keyfob_api::Secret;
use keyfob_exec::{go::error_text, read_bounded};

/// More than any kubeconfig or bundle of certificates needs, and not enough to fill the memory.
const LARGEST_FILE: u64 = 16 << 20;

/// Reads a whole file. Neither a pipe nor a device can make it wait.
pub(crate) fn read_file(path: &Path) -> Result<Secret<Vec<u8>>, FileError> {
    let problem = |problem| FileError { path: path.to_owned(), problem };
    if path.is_dir() {
        return Err(problem(FileProblem::Directory));
    }
    read_bounded(path, LARGEST_FILE).map_err(|error| match error.kind() {
        // What the system itself says has a number.
        io::ErrorKind::InvalidInput if error.raw_os_error().is_none() && path.exists() => {
            problem(FileProblem::NotRegular)
        }
        io::ErrorKind::FileTooLarge => problem(FileProblem::TooLarge),
        _ => problem(FileProblem::System { operation: "open", error }),
    })
}

/// A file that cannot be read. Where upstream has words for it they are these: `open PATH: permission denied`.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileError {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// What can be wrong with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileProblem {
    /// It is a directory.
    Directory,
    /// It is a pipe, a socket or a device, which one could wait for without end.
    NotRegular,
    /// It is larger than any such file should be.
    TooLarge,
    /// The system refuses: it is missing, may not be read, or is a link that leads nowhere.
    System {
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl FileError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(&self.problem, FileProblem::System { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            FileProblem::Directory => write!(f, "read {path}: is a directory"),
            FileProblem::NotRegular => {
                write!(
                    f,
                    "open {path}: not a regular file; nothing that must be waited for is read"
                )
            }
            FileProblem::TooLarge => {
                write!(
                    f,
                    "read {path}: larger than {} MiB; is it the right file?",
                    LARGEST_FILE >> 20
                )
            }
            FileProblem::System { operation, error } => {
                write!(f, "{operation} {path}: {}", error_text(error))
            }
        }
    }
}

impl std::error::Error for FileError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_speaks_as_in_go() {
        let said = |number| {
            let error = io::Error::from_raw_os_error(number);
            let problem = FileProblem::System { operation: "open", error };
            FileError { path: "config".into(), problem }.to_string()
        };

        assert_eq!(said(13), "open config: permission denied");
        assert_eq!(said(40), "open config: too many levels of symbolic links");
        let nul = read_file(Path::new("a\0b")).unwrap_err();
        assert_eq!(nul.to_string(), "open a\0b: invalid argument");
    }
}
