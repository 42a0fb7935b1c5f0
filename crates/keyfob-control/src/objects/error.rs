//! Why manifests could not be read. Nothing of an object's contents is quoted.

use std::{fmt, io};

use keyfob_api::document::{self, DocumentError, Position};
use thiserror::Error;

use super::Kind;

/// Where an object was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file.
    pub file: String,
    /// Which of its documents, counted from 1.
    pub document: usize,
    /// Which item of a list, counted from 1; zero if it is none.
    pub item: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)?;
        if self.item == 0 { Ok(()) } else { write!(f, ", item {}", self.item) }
    }
}

/// Why manifests could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// A field is not what the API has there.
    #[error(
        "{place}: {field} of the {} is {found} ({at} of the document), which does not fit: \
         \"kubectl explain\" says what belongs there", kind.name()
    )]
    Field {
        /// The object.
        place: Place,
        /// Its kind.
        kind: Kind,
        /// Which field.
        field: String,
        /// What is there.
        found: document::Kind,
        /// Where.
        at: Position,
    },
    /// A file or directory cannot be read.
    #[error("{file} cannot be read")]
    File {
        /// Which.
        file: String,
        /// Why not.
        source: io::Error,
    },
    /// A field that must be there is not.
    #[error("{place}: {field} is missing")]
    Missing {
        /// The object.
        place: Place,
        /// Which field.
        field: &'static str,
    },
    /// It is no object of Kubernetes.
    #[error("{place} is {found}, not an object with apiVersion and kind")]
    NotAnObject {
        /// Where.
        place: Place,
        /// What it is.
        found: document::Kind,
    },
    /// It is too deep.
    #[error("{place} is nested too deeply")]
    TooDeep {
        /// Where.
        place: Place,
    },
    /// An object of a kind that is not known.
    #[error("{place} is {api_version} {kind}, which is not among the known: {}", known())]
    UnknownKind {
        /// Where.
        place: Place,
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// It is neither YAML nor JSON.
    #[error("{place} cannot be read")]
    Unreadable {
        /// Where.
        place: Place,
        /// What is wrong, and where in the document.
        source: DocumentError,
    },
}

fn known() -> String {
    let each = |kind: Kind| format!("{} {}", kind.api_version(), kind.name());
    Kind::ALL.map(each).join(", ")
}
