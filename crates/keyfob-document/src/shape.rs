//! Which parts of a message its reader looks at.

use super::folded_name;

/// What a reader wants of a value. The rest is checked for its syntax and not kept, so it costs no memory.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "only this crate matches on it")]
pub enum Shape {
    /// All of it.
    Any,
    /// Nothing of it.
    Nothing,
    /// A string, number or boolean; of a list or object only that it is one.
    Scalar,
    /// The fields with these names, in any case; of other fields only the name.
    Object(&'static [(&'static str, Self)]),
    /// The entries of a map.
    Map(&'static Self),
}

impl Shape {
    /// What is wanted of the field with this name.
    pub(super) fn field(&'static self, name: &str) -> &'static Self {
        let is_called = |known: &str| known == name || folded_name(known) == folded_name(name);
        match self {
            Self::Any => &Self::Any,
            Self::Map(entry) => entry,
            Self::Object(fields) => fields
                .iter()
                .find(|(known, _)| is_called(known))
                .map_or(&Self::Nothing, |(_, shape)| shape),
            Self::Nothing | Self::Scalar => &Self::Nothing,
        }
    }

    /// What is wanted of the items of a list.
    pub(super) fn item(&'static self) -> &'static Self {
        if matches!(self, Self::Any) { &Self::Any } else { &Self::Nothing }
    }

    /// Whether the items of a list, or the fields of an object, are kept.
    pub(super) fn keeps(&self, is_map: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Object(_) | Self::Map(_) => is_map,
            Self::Nothing | Self::Scalar => false,
        }
    }
}
