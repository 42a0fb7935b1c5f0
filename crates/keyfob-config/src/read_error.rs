//! Why a configuration could not be read.

use std::{error::Error, fmt, io, path::Path, sync::Arc};

use keyfob_api::document::Position;

use super::{ConfigError, ErrorKind, Place, go_files};

/// A configuration that cannot be read.
///
/// It prints upstream's text, or our own with line and column if a file is neither JSON nor YAML or has a value of a wrong
/// type. [`ReadError::errors`] says the same in pieces, each with its place and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadError {
    problem: ReadProblem,
    text: String,
    errors: Vec<ConfigError>,
    omitted: usize,
    source: Option<io::Error>,
}

/// What sort of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadProblem {
    /// A file or directory cannot be read.
    File,
    /// A file is neither JSON nor YAML.
    Syntax,
    /// A file is of another kind or version.
    Kind,
    /// A value is of the wrong type.
    Type,
    /// There are unknown or repeated fields.
    Strict,
    /// Two providers have one name.
    DuplicateName,
}

impl ReadError {
    /// What sort of thing went wrong.
    pub fn problem(&self) -> ReadProblem {
        self.problem
    }

    /// Everything that is wrong, in upstream's order, but for the [omitted](Self::omitted) errors.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// How many more keys are repeated in a file: only the first hundred are listed.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Where the first thing is wrong.
    pub fn place(&self) -> Option<&Place> {
        self.errors.first()?.place.as_ref()
    }

    /// What to do about the first thing.
    pub fn help(&self) -> Option<&str> {
        self.errors.first()?.help.as_deref()
    }

    /// A path that cannot be read. `text` is the whole of upstream's text.
    pub(super) fn of_file(path: &Path, text: String, help: &str) -> Self {
        let file: Arc<str> = path.to_string_lossy().into();
        let place = (!file.is_empty()).then(|| Place::new(&file, None));
        let error = ConfigError {
            path: String::new(),
            kind: ErrorKind::Unreadable,
            message: text.clone(),
            place,
            help: Some(help.to_owned()),
        };
        Self { problem: ReadProblem::File, text, errors: vec![error], omitted: 0, source: None }
    }

    pub(super) fn of_io(path: &Path, text: String, source: io::Error) -> Self {
        let help = match source.kind() {
            io::ErrorKind::NotFound => "check the path; a link may point to nothing",
            io::ErrorKind::PermissionDenied => "make it readable for the user this runs as",
            io::ErrorKind::IsADirectory => {
                "only files of the directory itself are read: link to a file"
            }
            _ => "check the file and the disk it is on",
        };
        Self { source: Some(source), ..Self::of_file(path, text, help) }
    }

    pub(super) fn of_fault(file: &Path, fault: Fault) -> Self {
        let text = format!("error decoding config {}: {}", go_files::quoted(file), fault.text);
        Self {
            problem: fault.problem,
            text,
            errors: fault.errors,
            omitted: fault.omitted,
            source: None,
        }
    }

    pub(super) fn of_duplicate(text: String, error: ConfigError) -> Self {
        Self {
            problem: ReadProblem::DuplicateName,
            text,
            errors: vec![error],
            omitted: 0,
            source: None,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

/// Why one file is no configuration.
#[derive(Debug)]
pub(super) struct Fault {
    problem: ReadProblem,
    /// All of it.
    text: String,
    errors: Vec<ConfigError>,
    omitted: usize,
}

impl Fault {
    /// One thing is wrong.
    pub(super) fn new(problem: ReadProblem, text: String, error: ConfigError) -> Self {
        Self { problem, text, errors: vec![error], omitted: 0 }
    }

    /// What strict decoding refuses, and how many more errors there are that nobody listed.
    pub(super) fn strict(issues: &[String], errors: Vec<ConfigError>, omitted: usize) -> Self {
        let text = format!("strict decoding error: {}", issues.join(", "));
        Self { problem: ReadProblem::Strict, text, errors, omitted }
    }
}

/// One thing that is wrong with a file.
pub(super) fn finding(
    kind: ErrorKind,
    message: impl Into<String>,
    file: &Arc<str>,
    at: Option<Position>,
    help: Option<String>,
) -> ConfigError {
    let place = Some(Place::new(file, at));
    ConfigError { path: String::new(), kind, message: message.into(), place, help }
}
