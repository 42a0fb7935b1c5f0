//! For which images an answer may be used again.

use std::str::FromStr;

use thiserror::Error;

/// For which images an answer may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheKeyType {
    /// For this image.
    Image,
    /// For every image of this registry.
    Registry,
    /// For every image.
    Global,
}

impl CacheKeyType {
    const ALL: [Self; 3] = [Self::Image, Self::Registry, Self::Global];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "Image",
            Self::Registry => "Registry",
            Self::Global => "Global",
        }
    }
}

impl FromStr for CacheKeyType {
    type Err = CacheKeyTypeHint;

    fn from_str(text: &str) -> Result<Self, CacheKeyTypeHint> {
        let known = Self::ALL.into_iter().find(|known| known.as_str() == text);
        known.ok_or_else(|| CacheKeyTypeHint::of(text))
    }
}

/// What probably went wrong with a `cacheKeyType`, without quoting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CacheKeyTypeHint {
    /// It is absent, null or empty.
    #[error("it is empty; use Image, Registry or Global")]
    Empty,
    /// It is right but for its case.
    #[error("letter case matters: write {0}")]
    Case(&'static str),
    /// It is a word that `tokenAttributes.cacheType` in the configuration takes.
    #[error(
        "Token and ServiceAccount belong to cacheType in the configuration; use Image, Registry or Global"
    )]
    ConfigurationWord,
    /// It is anything else.
    #[error("use Image, Registry or Global")]
    Other,
}

impl CacheKeyTypeHint {
    fn of(text: &str) -> Self {
        let right = CacheKeyType::ALL.map(CacheKeyType::as_str);
        match text {
            "" => Self::Empty,
            "Token" | "ServiceAccount" => Self::ConfigurationWord,
            _ => right
                .into_iter()
                .find(|right| right.eq_ignore_ascii_case(text))
                .map_or(Self::Other, Self::Case),
        }
    }
}
