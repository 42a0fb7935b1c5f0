//! Where things stand in the files of a configuration.

use std::{collections::HashMap, fmt, sync::Arc};

use keyfob_api::document::Position;

use super::{Config, ProviderConfig};

/// A place in a file. Prints as editors and compilers write it: `FILE:LINE:COLUMN`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file.
    pub file: Arc<str>,
    /// Where in it, if that is known.
    pub at: Option<Position>,
}

impl Place {
    pub(super) fn new(file: &Arc<str>, at: Option<Position>) -> Self {
        Self { file: file.clone(), at }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            None => f.write_str(&self.file),
            Some(at) => write!(f, "{}:{}:{}", self.file, at.line, at.column),
        }
    }
}

/// Where a provider came from.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) file: Option<Arc<str>>,
    /// The provider's name: a provider that was changed since is not at this place any more.
    pub(super) name: String,
    /// Where its values start, by their paths below the provider: `matchImages[0]`.
    pub(super) places: HashMap<String, Position>,
}

impl Origin {
    /// The place of a value, or of the nearest one around it.
    fn place(&self, path: &str) -> Option<Place> {
        let file = self.file.as_ref()?;
        let paths = std::iter::successors(Some(path), |path| shorter(path));
        let at = paths.chain([""]).find_map(|path| self.places.get(path).copied());
        Some(Place::new(file, at))
    }
}

/// The path of what is around.
fn shorter(path: &str) -> Option<&str> {
    path.get(..path.rfind(['.', '['])?)
}

impl Config {
    /// Where the provider of this number came from, unless somebody has changed it since.
    pub(super) fn origin(&self, index: usize, provider: &ProviderConfig) -> Option<&Origin> {
        self.origins.get(index).filter(|origin| origin.name == provider.name)
    }

    /// Where a value of the provider of this number stands.
    pub(super) fn place(
        &self,
        index: usize,
        provider: &ProviderConfig,
        path: &str,
    ) -> Option<Place> {
        self.origin(index, provider)?.place(path)
    }
}
