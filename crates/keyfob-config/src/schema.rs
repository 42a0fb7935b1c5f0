//! The types of a configuration.
//!
//! Upstream: the types of `k8s.io/kubelet/config`.

use std::borrow::Cow;

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

/// A struct and its fields, by their JSON names.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, Type)],
}

const TEXTS: Type = Type::List(&Type::Text);

pub(super) const CONFIG: Object = Object {
    name: "CredentialProviderConfig",
    fields: &[
        ("apiVersion", Type::Text),
        ("kind", Type::Text),
        ("providers", Type::List(&Type::Object(&PROVIDER))),
    ],
};

pub(super) const PROVIDER: Object = Object {
    name: "CredentialProvider",
    fields: &[
        ("name", Type::Text),
        ("matchImages", TEXTS),
        ("defaultCacheDuration", Type::Duration),
        ("apiVersion", Type::Text),
        ("args", TEXTS),
        ("env", Type::List(&Type::Object(&VARIABLE))),
        (TOKEN_ATTRIBUTES, Type::Object(&TOKENS)),
    ],
};

pub(super) const VARIABLE: Object =
    Object { name: "ExecEnvVar", fields: &[("name", Type::Text), ("value", Type::Text)] };

pub(super) const TOKENS: Object = Object {
    name: "ServiceAccountTokenAttributes",
    fields: &[
        ("serviceAccountTokenAudience", Type::Text),
        ("cacheType", Type::Text),
        ("requireServiceAccount", Type::Bool),
        ("requiredServiceAccountAnnotationKeys", TEXTS),
        ("optionalServiceAccountAnnotationKeys", TEXTS),
        (ANNOTATIONS, TEXTS),
    ],
};

/// Only v1 has it.
const TOKEN_ATTRIBUTES: &str = "tokenAttributes";

/// KEP-4412's; no kubelet has it.
pub(super) const ANNOTATIONS: &str = "serviceAccountAnnotationKeys";

/// The first KEP's configuration.
pub(super) const FIRST_KEP: Object = Object {
    name: "RegistryCredentialConfig",
    fields: &[
        ("apiVersion", Type::Text),
        ("kind", Type::Text),
        ("providers", Type::List(&Type::Object(&FIRST_KEP_PROVIDER))),
    ],
};

pub(super) const FIRST_KEP_PROVIDER: Object = Object {
    name: "RegistryCredentialProvider",
    fields: &[
        ("apiVersion", Type::Text),
        ("kind", Type::Text),
        ("name", Type::Text),
        ("imageMatchers", TEXTS),
        ("extraArgs", Type::Any),
    ],
};

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

    /// The fields of an object under the names they have in this version, each with its JSON name.
    pub(super) fn fields(
        self,
        object: &'static Object,
    ) -> impl Iterator<Item = (Cow<'static, str>, &'static str, Type)> {
        let is_known = move |name: &str| match name {
            TOKEN_ATTRIBUTES => matches!(self, Self::V1 | Self::Internal),
            ANNOTATIONS => self == Self::V1,
            _ => true,
        };
        object
            .fields
            .iter()
            .filter(move |(name, _)| is_known(name))
            .map(move |(name, wanted)| (self.name(object, name), *name, *wanted))
    }

    fn name(self, object: &Object, name: &'static str) -> Cow<'static, str> {
        let is_meta = object.name == CONFIG.name && name != "providers";
        match (self, name) {
            (Self::Internal, "apiVersion") if !is_meta => "APIVersion".into(),
            (Self::Internal, _) if !is_meta => {
                let (first, rest) = name.split_at(1);
                (first.to_ascii_uppercase() + rest).into()
            }
            _ => name.into(),
        }
    }
}
