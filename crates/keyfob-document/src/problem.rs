//! What can be wrong with a tree that should hold typed values.

use std::fmt;

use thiserror::Error;

use super::{FieldPath, Kind, Position};
use crate::{DurationError, TimestampError, go_quote::Quoted};

/// A value that cannot be what its field wants.
///
/// It holds names from the text, which configuration readers show. Readers of answers show
/// [`FieldPath::without_keys`] and nothing else of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {problem} ({at})")]
#[non_exhaustive]
pub struct FieldError {
    /// Which field.
    pub path: FieldPath,
    /// Where its value starts.
    pub at: Position,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// What can be wrong with a field's value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FieldProblem {
    /// It is of another type.
    #[error("expected {wanted}, found {found}")]
    WrongType {
        /// What the field wants.
        wanted: Kind,
        /// What the text has.
        found: Kind,
    },
    /// It is a string that is not a duration.
    #[error(transparent)]
    Duration(DurationError),
    /// It is a string that is not a time.
    #[error(transparent)]
    Timestamp(TimestampError),
    /// It is a string that is not base64.
    #[error("invalid base64")]
    Base64,
    /// It is a number that is not whole, or too large.
    #[error("expected a whole number that fits")]
    NotAnInteger,
}

impl FieldProblem {
    /// The same in words that never quote the text.
    pub fn without_text(&self) -> String {
        match self {
            Self::Duration(_) => "not a Go duration such as \"10m\"".to_owned(),
            other => other.to_string(),
        }
    }
}

/// What a strict reader refuses although the types are right. Prints as Go does: `unknown field "providers[0].nam"`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrictIssue {
    /// What is wrong.
    pub problem: StrictProblem,
    /// Which field.
    pub path: FieldPath,
    /// Where its name starts.
    pub at: Position,
}

impl fmt::Display for StrictIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.problem {
            StrictProblem::UnknownField => "unknown field",
            StrictProblem::DuplicateField => "duplicate field",
        };
        write!(f, "{what} {}", Quoted(self.path.to_string()))
    }
}

/// The two things strict readers refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "strict decoding knows these two problems")]
pub enum StrictProblem {
    /// The object has no such field (names are case-sensitive).
    UnknownField,
    /// The object has the field twice.
    DuplicateField,
}
