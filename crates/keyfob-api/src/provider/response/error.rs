//! What can be wrong with an answer, in words that are safe to log.

use thiserror::Error;

use super::KIND;
use crate::{
    answer::{InvalidField, SeenName},
    document::{FieldError, FieldPath, JsonError, Position, StrictIssue, StrictProblem},
    provider::{CacheKeyTypeHint, ProviderVersion},
};

/// The fields that people put into `auth` by mistake; an example in the 1.26 announcement does.
const MISPLACED: [&str; 2] = ["cacheDuration", "cacheKeyType"];

/// Why a plugin's output is not an answer. It never quotes the output.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It is of another version than the configuration says.
    #[error(
        "apiVersion from credential plugin response did not match expected apiVersion:{expected}, actual apiVersion:{actual}"
    )]
    Version {
        /// What the configuration says.
        expected: ProviderVersion,
        /// What the answer says.
        actual: SeenName,
    },
    /// It is some other message.
    #[error("expected kind {KIND}, found {0}")]
    Kind(SeenName),
    /// A field is of the wrong type, or not a duration.
    #[error(transparent)]
    Field(#[from] InvalidField),
    /// There is a field that this message does not have; names are case-sensitive.
    #[error("unknown field{} ({at})", inside_text(inside))]
    UnknownField {
        /// The path of the object that has it; empty at the top.
        inside: String,
        /// Where its name starts.
        at: Position,
    },
    /// There is a field twice.
    #[error("duplicate field {path} ({at})")]
    DuplicateField {
        /// Its path.
        path: String,
        /// Where its second name starts.
        at: Position,
    },
    /// A field of the answer itself stands inside `auth`.
    #[error(
        "{field} stands inside {inside}; it belongs at the top of the answer, beside auth ({at})"
    )]
    Misplaced {
        /// Its name.
        field: &'static str,
        /// The path of the object that has it.
        inside: String,
        /// Where it starts.
        at: Position,
    },
    /// `cacheKeyType` is none of the three.
    #[error("credential provider plugin did not return a valid cacheKeyType: {0}")]
    CacheKeyType(CacheKeyTypeHint),
}

impl ResponseError {
    pub(super) fn of_field(error: FieldError) -> Self {
        misplaced(&error.path, error.at).unwrap_or_else(|| Self::Field(error.into()))
    }

    fn of_issue(issue: &StrictIssue) -> Self {
        match issue.problem {
            StrictProblem::UnknownField => {
                Self::UnknownField { inside: issue.path.parent().without_keys(), at: issue.at }
            }
            StrictProblem::DuplicateField => {
                Self::DuplicateField { path: issue.path.without_keys(), at: issue.at }
            }
        }
    }
}

fn inside_text(inside: &str) -> String {
    if inside.is_empty() { String::new() } else { format!(" inside {inside}") }
}

pub(super) fn refuse_issues(issues: &[StrictIssue]) -> Result<(), ResponseError> {
    let misplaced = issues.iter().find_map(|issue| misplaced(&issue.path, issue.at));
    let Some(error) = misplaced.or_else(|| issues.first().map(ResponseError::of_issue)) else {
        return Ok(());
    };
    Err(error)
}

/// Whether the path is one of the fields that belong to the top, somewhere inside `auth`.
fn misplaced(path: &FieldPath, at: Position) -> Option<ResponseError> {
    let inside = path.parent().without_keys();
    let name = path.last_name()?;
    let field = MISPLACED.into_iter().find(|field| *field == name)?;
    inside.starts_with("auth").then_some(ResponseError::Misplaced { field, inside, at })
}
