//! Why a kubeconfig cannot be read. What it says is never quoted, but for names.

use std::{fmt, path::PathBuf};

use keyfob_api::{
    Quoted, SeenName,
    document::{FieldError, FieldProblem, Kind, Position, YamlError},
};
use thiserror::Error;

use crate::FileError;

/// Why a text is no kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// It is not even YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// It is something else.
    #[error(
        "no kind \"{kind}\" is registered for version \"{version}\" ({at}); a kubeconfig has kind \"Config\" and apiVersion \"v1\""
    )]
    Kind {
        /// What it is.
        kind: SeenName,
        /// Of which version.
        version: SeenName,
        /// Where that stands.
        at: Position,
    },
    /// A value is not of the type that its field has.
    #[error("{path}: {problem} ({at}){}", advice(problem))]
    Value {
        /// Which field; what the text chose itself is given as a number.
        path: String,
        /// What is wrong with it: a type, whose words quote nothing.
        problem: FieldProblem,
        /// Where the value stands.
        at: Position,
    },
    /// Two of a list have the same name.
    #[error("duplicate name {} in {list} ({at}); one of them must go", Quoted(name))]
    DuplicateName {
        /// Which list.
        list: &'static str,
        /// Which name.
        name: String,
        /// Where the second stands.
        at: Position,
    },
}

impl From<FieldError> for KubeconfigError {
    fn from(error: FieldError) -> Self {
        let path = error.path.without_keys();
        Self::Value {
            path: if path.is_empty() { "the document".to_owned() } else { path },
            problem: error.problem,
            at: error.at,
        }
    }
}

/// YAML takes `y`, `no` or `0123` for what a text was meant to be.
fn advice(problem: &FieldProblem) -> &'static str {
    match problem {
        FieldProblem::WrongType { wanted: Kind::String, found: Kind::Bool | Kind::Number } => {
            "; in quotes it is one"
        }
        _ => "",
    }
}

/// Why kubeconfigs cannot be loaded: what is wrong with each file that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The one file that was asked for is not there.
    Missing(FileError),
    /// Some files are there and cannot be used.
    Files(Vec<(PathBuf, LoadProblem)>),
}

/// Why a file that is there cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadProblem {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// It has relative paths, and nobody knows where it is itself.
    #[error("relative paths in it lead nowhere: its own directory is unknown or no UTF-8")]
    Directory,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(error) => error.fmt(f),
            Self::Files(files) => {
                let said = |(path, problem): &(PathBuf, LoadProblem)| {
                    format!("error loading config file \"{}\": {problem}", path.display())
                };
                f.write_str(&aggregate(files.iter().map(said)))
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// Several messages as upstream joins them: each once, in brackets if there is more than one.
pub(super) fn aggregate(messages: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for message in messages {
        if !distinct.contains(&message) {
            distinct.push(message);
        }
    }
    match distinct.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
