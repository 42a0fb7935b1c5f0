//! The types of a configuration.
//!
//! Upstream: the types of `k8s.io/kubelet/config`.

use std::borrow::Cow;

use super::{
    dialect::FIRST_KEP_FIELDS,
    fields::{Versions, columns},
    provider_config::{PROVIDER_FIELDS, TOKEN_FIELDS, VARIABLE_FIELDS},
};

/// What a field wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    Text,
    Bool,
    Duration,
    List(&'static Self),
    Object(&'static Object),
    /// Anything that its reader accepts.
    Any,
}

/// A struct and its fields.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: &'static str,
    pub(super) columns: fn() -> Vec<Column>,
}

/// What is known of a field before there is a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// Its JSON name.
    pub(super) name: &'static str,
    pub(super) versions: Versions,
    pub(super) wanted: Type,
}

pub(super) const TEXTS: Type = Type::List(&Type::Text);

pub(super) const CONFIG: Object = Object {
    name: "CredentialProviderConfig",
    columns: || file_columns(Type::List(&Type::Object(&PROVIDER))),
};

pub(super) const PROVIDER: Object =
    Object { name: "CredentialProvider", columns: || columns(PROVIDER_FIELDS) };

pub(super) const VARIABLE: Object =
    Object { name: "ExecEnvVar", columns: || columns(VARIABLE_FIELDS) };

pub(super) const TOKENS: Object =
    Object { name: "ServiceAccountTokenAttributes", columns: || columns(TOKEN_FIELDS) };

/// The first KEP's configuration.
pub(super) const FIRST_KEP: Object = Object {
    name: "RegistryCredentialConfig",
    columns: || file_columns(Type::List(&Type::Object(&FIRST_KEP_PROVIDER))),
};

pub(super) const FIRST_KEP_PROVIDER: Object =
    Object { name: "RegistryCredentialProvider", columns: || columns(FIRST_KEP_FIELDS) };

/// What a file has at its top. `meta` has read all but the last.
fn file_columns(providers: Type) -> Vec<Column> {
    let fields = [("apiVersion", Type::Text), ("kind", Type::Text), ("providers", providers)];
    fields.map(|(name, wanted)| Column { name, versions: Versions::All, wanted }).into()
}

/// A version of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
    V1Alpha1,
    /// Go's own names for everything.
    Internal,
    FirstKep,
}

impl Version {
    /// By the version's name in the group `kubelet.config.k8s.io`.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            "v1alpha1" => Some(Self::V1Alpha1),
            "__internal" => Some(Self::Internal),
            _ => None,
        }
    }

    /// The fields that an object has in this version, each with the name that it has there.
    pub(super) fn fields(
        self,
        object: &'static Object,
    ) -> impl Iterator<Item = (Cow<'static, str>, Column)> {
        let has_own_name =
            |column: &Column| object.name != CONFIG.name || column.name == "providers";
        let named = move |column: Column| {
            let name =
                if has_own_name(&column) { self.name(column.name) } else { column.name.into() };
            (name, column)
        };
        let columns = (object.columns)().into_iter();
        columns.filter(move |column| column.versions.contain(self)).map(named)
    }

    /// What a field is called in this version; `apiVersion` and `kind` of a file are called so in all.
    pub(super) fn name(self, name: &'static str) -> Cow<'static, str> {
        match (self, name) {
            (Self::Internal, "apiVersion") => "APIVersion".into(),
            (Self::Internal, _) => {
                let (first, rest) = name.split_at(1);
                (first.to_ascii_uppercase() + rest).into()
            }
            (Self::V1 | Self::V1Beta1 | Self::V1Alpha1 | Self::FirstKep, _) => name.into(),
        }
    }
}
