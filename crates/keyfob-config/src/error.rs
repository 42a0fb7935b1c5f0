//! What can be wrong with a configuration.
//!
//! Upstream: `field.Error` and `ErrorList.ToAggregate` of `k8s.io/apimachinery` for the words.

use std::{collections::HashSet, error::Error, fmt};

use super::Place;

/// Everything that is wrong with a configuration. Prints upstream's text: each error once, in brackets if there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalid {
    errors: Vec<ConfigError>,
}

impl Invalid {
    pub(super) fn new(errors: Vec<ConfigError>) -> Self {
        Self { errors }
    }

    /// What is wrong, in upstream's order.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = HashSet::new();
        let messages = self.errors.iter().map(|error| error.message.as_str());
        let messages: Vec<&str> = messages.filter(|message| seen.insert(*message)).collect();
        match messages.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "[{}]", many.join(", ")),
        }
    }
}

impl Error for Invalid {}

/// One thing that is wrong with a configuration. Prints upstream's text, but for [syntax](ErrorKind::Syntax) and
/// [types](ErrorKind::Type), which are told in our own words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The field, as upstream writes it: `providers.matchImages`. Empty if there is none.
    pub path: String,
    /// What sort of thing is wrong.
    pub kind: ErrorKind,
    /// The whole text about it.
    pub message: String,
    /// Where it is wrong.
    pub place: Option<Place>,
    /// What to do about it, in plain words.
    pub help: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What sorts of things can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value is missing.
    Required,
    /// A value breaks a rule.
    Invalid,
    /// A value is none of those there are.
    Unsupported,
    /// A value or field is there twice.
    Duplicate,
    /// A value may not be there.
    Forbidden,
    /// There is no such field.
    Unknown,
    /// A value is of the wrong type.
    Type,
    /// A document is of another kind or version.
    Kind,
    /// A text is neither JSON nor YAML.
    Syntax,
    /// A file cannot be read.
    Unreadable,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl ErrorKind {
    /// How upstream begins.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Unsupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            _ => "Invalid value",
        }
    }
}
