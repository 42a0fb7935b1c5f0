//! The tables of fields: one row for each field of a provider's configuration.
//!
//! A row names the field, says which versions have it, and how its value is reached. What sort of value that is follows from
//! the last, and with it the type that a file must have there (`schema`), how the value is read (`decode`) and how it is shown
//! ([`FieldValue`], which `migrate` writes). So a field that has a row is checked, read and written.

use std::fmt;

use keyfob_api::{GoDuration, Secret};

use super::{
    EnvVar, TokenAttributes, TokenDialect,
    provider_config::{TOKEN_FIELDS, VARIABLE_FIELDS},
    schema::{Column, TEXTS, TOKENS, Type, VARIABLE, Version},
};

/// A field of `T`.
pub(super) struct Field<T> {
    /// Its JSON name.
    pub(super) name: &'static str,
    /// The name under which its place is noted, which is the one that it has today.
    pub(super) today: &'static str,
    pub(super) versions: Versions,
    pub(super) value: Access<T>,
}

/// The versions of the configuration that have a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Versions {
    All,
    V1AndInternal,
    OnlyV1,
}

impl Versions {
    pub(super) fn contain(self, version: Version) -> bool {
        match self {
            Self::All => true,
            Self::V1AndInternal => matches!(version, Version::V1 | Version::Internal),
            Self::OnlyV1 => version == Version::V1,
        }
    }
}

/// How a value is reached, and what sort of value it is.
pub(super) enum Access<T> {
    Text(Lens<T, String>),
    SecretText(Lens<T, Secret<String>>),
    Texts(Lens<T, Vec<String>>),
    Duration(Lens<T, Option<GoDuration>>),
    Bool(Lens<T, Option<bool>>),
    Variables(Lens<T, Vec<EnvVar>>),
    TokenAttributes(Lens<T, Option<TokenAttributes>>),
    /// KEP-4412's list of annotations, which `dialect` translates.
    Kep4412Keys(Lens<T, TokenDialect>),
    /// The arguments of the first KEP, which are variables.
    ExtraArguments(Lens<T, Vec<EnvVar>>),
    /// A text without a meaning: the first KEP's providers repeat the file's `apiVersion` and `kind`.
    Ignored,
}

/// Both ways to a field of a struct.
pub(super) struct Lens<T, V> {
    pub(super) get: fn(&T) -> &V,
    pub(super) get_mut: fn(&mut T) -> &mut V,
}

/// The lens of a struct's field.
macro_rules! lens {
    ($field:ident) => {
        $crate::fields::Lens { get: |it| &it.$field, get_mut: |it| &mut it.$field }
    };
}
pub(super) use lens;

impl<T> Field<T> {
    /// A field of all versions.
    pub(super) const fn new(name: &'static str, value: Access<T>) -> Self {
        Self { name, today: name, versions: Versions::All, value }
    }

    /// What a file must have there.
    fn wanted(&self) -> Type {
        match &self.value {
            Access::Text(_) | Access::SecretText(_) | Access::Ignored => Type::Text,
            Access::Texts(_) | Access::Kep4412Keys(_) => TEXTS,
            Access::Duration(_) => Type::Duration,
            Access::Bool(_) => Type::Bool,
            Access::Variables(_) => Type::List(&Type::Object(&VARIABLE)),
            Access::TokenAttributes(_) => Type::Object(&TOKENS),
            Access::ExtraArguments(_) => Type::Any,
        }
    }

    /// The value; nothing for a field of a proposal, which is translated when it is read.
    fn shown<'a>(&self, holder: &'a T) -> Option<FieldValue<'a>> {
        Some(match &self.value {
            Access::Text(lens) => FieldValue::Text((lens.get)(holder)),
            Access::SecretText(lens) => FieldValue::Secret((lens.get)(holder)),
            Access::Texts(lens) => FieldValue::Texts((lens.get)(holder)),
            Access::Duration(lens) => FieldValue::Duration(*(lens.get)(holder)),
            Access::Bool(lens) => FieldValue::Bool(*(lens.get)(holder)),
            Access::Variables(lens) => {
                let variables = (lens.get)(holder).iter();
                FieldValue::Objects(variables.map(|each| shown(VARIABLE_FIELDS, each)).collect())
            }
            Access::TokenAttributes(lens) => {
                let attributes = (lens.get)(holder).as_ref();
                FieldValue::Object(attributes.map(|attributes| shown(TOKEN_FIELDS, attributes)))
            }
            Access::Kep4412Keys(_) | Access::ExtraArguments(_) | Access::Ignored => return None,
        })
    }
}

/// What `schema` must know of the fields.
pub(super) fn columns<T>(fields: &[Field<T>]) -> Vec<Column> {
    let column = |field: &Field<T>| Column {
        name: field.name,
        versions: field.versions,
        wanted: field.wanted(),
    };
    fields.iter().map(column).collect()
}

/// What a struct has in its fields.
pub(super) fn shown<'a, T>(fields: &[Field<T>], holder: &'a T) -> Fields<'a> {
    fields.iter().filter_map(|field| Some((field.name, field.shown(holder)?))).collect()
}

/// The fields of an object by their JSON names, in the order of the table.
pub type Fields<'a> = Vec<(&'static str, FieldValue<'a>)>;

/// What a field of a configuration has. `Debug` says only what sort of value it is, since many values may be secrets.
#[derive(Clone)]
#[expect(clippy::exhaustive_enums, reason = "whoever writes fields must write every sort of value")]
pub enum FieldValue<'a> {
    /// A text; empty if there is none.
    Text(&'a str),
    /// A text that may be a secret; empty if there is none.
    Secret(&'a Secret<String>),
    /// A list of texts.
    Texts(&'a [String]),
    /// A duration.
    Duration(Option<GoDuration>),
    /// A truth value.
    Bool(Option<bool>),
    /// An object.
    Object(Option<Fields<'a>>),
    /// A list of objects.
    Objects(Vec<Fields<'a>>),
}

impl fmt::Debug for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Secret(_) => "Secret",
            Self::Texts(_) => "Texts",
            Self::Duration(_) => "Duration",
            Self::Bool(_) => "Bool",
            Self::Object(_) => "Object",
            Self::Objects(_) => "Objects",
        })
    }
}
