//! The types of a configuration, as Go knows them, and what Go says when a value is of another.
//!
//! Go goes on after a value of a wrong type and reports the first in the end; a duration that cannot be read stops it at
//! once, and so wins over earlier ones.
//!
//! Upstream: the types of `k8s.io/kubelet/config`; `decodeState` of `sigs.k8s.io/json`; `metav1.Duration`.

use std::{borrow::Cow, fmt::Write as _};

use keyfob_api::{
    GoDuration,
    document::{Kind, Node, Position, Value},
};

use super::{
    dialect::FIRST_KEP_FIELDS,
    fields::{Versions, columns},
    provider_config::{PROVIDER_FIELDS, TOKEN_FIELDS, VARIABLE_FIELDS},
};

/// What a field wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    Text,
    /// A string type with a name of its own.
    Named(&'static str),
    Bool,
    Duration,
    List(&'static Self),
    Object(&'static Object),
    /// Not for Go to judge.
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

    fn package(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
            Self::V1Alpha1 | Self::FirstKep => "v1alpha1",
            Self::Internal => "config",
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

    fn go_name(self, wanted: Type) -> String {
        match wanted {
            Type::Text | Type::Duration | Type::Any => "string".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Named(name) => format!("{}.{name}", self.package()),
            Type::List(element) => format!("[]{}", self.go_name(*element)),
            Type::Object(object) => format!("{}.{}", self.package(), object.name),
        }
    }
}

/// The first value that Go complains about.
#[derive(Debug)]
pub(super) struct WrongValue {
    /// Go's words.
    pub(super) message: String,
    /// The field's path with indices.
    pub(super) path: String,
    pub(super) at: Position,
    pub(super) wanted: Type,
    pub(super) found: Kind,
}

/// Compares a whole document with its type.
pub(super) fn check(
    root: &Node,
    object: &'static Object,
    version: Version,
) -> Result<(), WrongValue> {
    let mut checker =
        Checker { version, holder: "", go_path: Vec::new(), path: String::new(), saved: None };
    checker.value(root, Type::Object(object))?;
    checker.saved.map_or(Ok(()), Err)
}

struct Checker {
    version: Version,
    /// The struct whose field is being read.
    holder: &'static str,
    go_path: Vec<String>,
    path: String,
    saved: Option<WrongValue>,
}

impl Checker {
    /// An error stops everything; what does not stop Go is saved.
    fn value(&mut self, node: &Node, wanted: Type) -> Result<(), WrongValue> {
        match (&node.value, wanted) {
            (Value::Null, _)
            | (_, Type::Any)
            | (Value::String(_), Type::Text | Type::Named(_))
            | (Value::Bool(_), Type::Bool) => Ok(()),
            (Value::String(text), Type::Duration) => match GoDuration::parse(text.expose()) {
                Ok(_) => Ok(()),
                Err(error) => Err(self.wrong(node, wanted, error.to_string())),
            },
            (Value::List(items), Type::List(element)) => self.elements(items, *element),
            (Value::Map(_), Type::Object(object)) => self.object(node, object),
            (_, Type::Duration) => Err(self.mismatch(node, wanted)),
            _ => {
                let mismatch = self.mismatch(node, wanted);
                self.saved.get_or_insert(mismatch);
                Ok(())
            }
        }
    }

    fn elements(&mut self, items: &[Node], element: Type) -> Result<(), WrongValue> {
        let length = self.path.len();
        for (index, item) in items.iter().enumerate() {
            write!(self.path, "[{index}]").unwrap_or_default();
            self.value(item, element)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn object(&mut self, node: &Node, object: &'static Object) -> Result<(), WrongValue> {
        let Value::Map(fields) = &node.value else { return Ok(()) };
        let (holder, length) = (self.holder, self.path.len());
        let known: Vec<_> = self.version.fields(object).collect();
        for field in fields {
            let known = known.iter().find(|known| known.0 == *field.name.expose());
            let Some((name, column)) = known else { continue };
            self.holder = object.name;
            self.path += if length > 0 { "." } else { "" };
            self.path += name;
            self.go_path.push(name.clone().into_owned());
            self.value(&field.node, column.wanted)?;
            self.go_path.pop();
            self.path.truncate(length);
            self.holder = holder;
        }
        Ok(())
    }

    fn mismatch(&self, node: &Node, wanted: Type) -> WrongValue {
        let found = go_kind(node.kind());
        let wanted_name = self.version.go_name(wanted);
        let field = format!("{}.{}", self.holder, self.go_path.join("."));
        let into = if self.go_path.is_empty() {
            format!("Go value of type {wanted_name}")
        } else {
            format!("Go struct field {field} of type {wanted_name}")
        };
        self.wrong(node, wanted, format!("json: cannot unmarshal {found} into {into}"))
    }

    fn wrong(&self, node: &Node, wanted: Type, message: String) -> WrongValue {
        WrongValue { message, path: self.path.clone(), at: node.at, wanted, found: node.kind() }
    }
}

/// What Go calls the sorts of JSON values.
pub(super) fn go_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Number => "number",
        Kind::String => "string",
        Kind::List => "array",
        Kind::Map => "object",
        _ => "null",
    }
}

#[cfg(test)]
mod tests {
    use keyfob_api::document::Document;

    use super::*;

    fn said(text: &str, version: Version) -> String {
        let document = Document::read(text.as_bytes()).unwrap();
        check(&document.root, &CONFIG, version)
            .map_or_else(|wrong| wrong.message, |()| String::new())
    }

    #[test]
    fn the_first_wrong_type_is_named_with_gos_path_and_type() {
        let cases = [
            ("providers: 1", "CredentialProviderConfig.providers of type []v1.CredentialProvider"),
            ("providers: [{env: [1]}]", "CredentialProvider.providers.env of type v1.ExecEnvVar"),
            (
                "providers: [{env: [{value: 1}], name: 1}]",
                "ExecEnvVar.providers.env.value of type string",
            ),
            (
                "providers: [{tokenAttributes: {cacheType: 1}}]",
                "ServiceAccountTokenAttributes.providers.tokenAttributes.cacheType of type v1.ServiceAccountTokenCacheType",
            ),
        ];
        for (text, field) in cases {
            let want = format!("json: cannot unmarshal number into Go struct field {field}");
            assert_eq!(said(text, Version::V1), want, "{text}");
        }
    }

    #[test]
    fn a_bad_duration_hides_wrong_types_before_it() {
        assert_eq!(
            said("providers: [{args: 1, defaultCacheDuration: 1d}]", Version::V1),
            r#"time: unknown unit "d" in duration "1d""#
        );
    }

    #[test]
    fn the_internal_version_has_gos_own_names() {
        assert_eq!(
            said("Providers: [{APIVersion: 1}]", Version::Internal),
            "json: cannot unmarshal number into Go struct field CredentialProvider.Providers.APIVersion of type string"
        );
        assert_eq!(said("providers: 1", Version::Internal), "", "an unknown field");
    }
}
