//! What only the proposals describe, read into the same types.
//!
//! - The first KEP: `imageMatchers`, and `extraArgs` that become environment variables in upper case. Its providers have no
//!   version and no default duration: their answers say themselves until when they are good.
//! - KEP-4412: one list of annotations, `serviceAccountAnnotationKeys`. It knew neither `cacheType` nor
//!   `requireServiceAccount`; where they are missing beside that list they mean what its text says: answers belong to a
//!   service account, and there must be one. It forbids answers for all images.
//!
//! Upstream: none; no kubelet reads either.

use keyfob_api::{
    Secret,
    document::{FieldError, FieldTable, Item, Kind},
};

use super::{
    EnvVar, ProviderConfig, TokenAttributes,
    fields::{Access, Field, lens},
};

/// The fields of a first KEP's provider.
pub(super) const FIRST_KEP_FIELDS: &[Field<ProviderConfig>] = &[
    Field::new("apiVersion", Access::Ignored),
    Field::new("kind", Access::Ignored),
    Field::new("name", Access::Text(lens!(name))),
    Field {
        today: "matchImages",
        ..Field::new("imageMatchers", Access::Texts(lens!(match_images)))
    },
    Field::new("extraArgs", Access::ExtraArguments(lens!(env))),
];

const EXTRA_ARGUMENT: &FieldTable<(String, Secret<String>)> = &[
    ("name", |(name, _), item| item.read_text(name)),
    ("value", |(_, value), item| item.read_secret(value)),
];

/// A list of names and values as in the KEP's types, or a map as in its example. Values are texts: YAML has already
/// changed a bare `012` or `no` when it comes here, so that nobody can tell what was meant.
pub(super) fn extra_arguments(item: Item<'_>) -> Result<Vec<EnvVar>, FieldError> {
    let mut variables = Vec::new();
    if item.node().kind() == Kind::Map {
        item.entries(|name, item| {
            let mut value = Secret::default();
            item.read_secret(&mut value)?;
            variables.push(variable(name.expose(), value));
            Ok(())
        })?;
        return Ok(variables);
    }
    item.elements(|_, item| {
        let mut argument = Default::default();
        item.read_fields(EXTRA_ARGUMENT, &mut argument)?;
        let (name, value) = argument;
        variables.push(variable(&name, value));
        Ok(())
    })?;
    Ok(variables)
}

fn variable(name: &str, value: Secret<String>) -> EnvVar {
    EnvVar { name: name.to_uppercase(), value }
}

/// What KEP-4412 leaves unsaid.
pub(super) fn complete(attributes: &mut TokenAttributes, annotations: Vec<String>) {
    attributes.optional_service_account_annotation_keys.extend(annotations);
    attributes.require_service_account.get_or_insert(true);
    if attributes.cache_type.is_empty() {
        attributes.cache_type.push_str("ServiceAccount");
    }
}
