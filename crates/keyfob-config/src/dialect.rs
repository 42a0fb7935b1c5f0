//! What only the proposals describe, read into the same types.
//!
//! - The first KEP: `imageMatchers`, and `extraArgs` that become environment variables in upper case. Its providers have no
//!   version and no default duration: their answers say themselves until when they are good.
//! - KEP-4412: one list of annotations, `serviceAccountAnnotationKeys`. It knew neither `cacheType` nor
//!   `requireServiceAccount`; where they are missing beside that list they mean what its text says: answers belong to a
//!   service account, and there must be one. It forbids answers for all images ([`crate::GlobalAnswers`]).
//!
//! Upstream: none; no kubelet reads either.

use keyfob_api::{
    Secret,
    document::{FieldError, Item, Kind},
};

use super::{
    EnvVar, Origin, Protocol, ProviderConfig, TokenAttributes,
    decode::{Provider, note, read_texts},
    schema::{FIRST_KEP, FIRST_KEP_PROVIDER},
};

/// The providers of a first KEP's configuration.
pub(super) fn providers(root: Item<'_>) -> Result<Vec<Provider>, FieldError> {
    let mut providers = Vec::new();
    root.object(&names(FIRST_KEP.fields), |name, item| {
        if name == "providers" {
            providers.clear();
            item.elements(|_, item| {
                providers.push(provider(item)?);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(providers)
}

fn names<T>(fields: &'static [(&'static str, T)]) -> Vec<&'static str> {
    fields.iter().map(|(name, _)| *name).collect()
}

fn provider(item: Item<'_>) -> Result<Provider, FieldError> {
    let mut provider = ProviderConfig { protocol: Protocol::FirstKep, ..ProviderConfig::default() };
    let mut origin = Origin::default();
    note(&mut origin, "", item.node());
    item.object(&names(FIRST_KEP_PROVIDER.fields), |name, item| {
        note(&mut origin, name, item.node());
        match name {
            "name" => item.read_text(&mut provider.name)?,
            "imageMatchers" => {
                note(&mut origin, "matchImages", item.node());
                read_texts(item, "matchImages", &mut provider.match_images, &mut origin)?;
            }
            "extraArgs" => provider.env = extra_arguments(item)?,
            // `apiVersion` and `kind` are texts that decide nothing.
            _ => drop(item.string()?),
        }
        Ok(())
    })?;
    origin.name.clone_from(&provider.name);
    Ok((provider, origin))
}

/// A list of names and values as in the KEP's types, or a map as in its example. Values are texts: YAML has already
/// changed a bare `012` or `no` when it comes here, so that nobody can tell what was meant.
fn extra_arguments(item: Item<'_>) -> Result<Vec<EnvVar>, FieldError> {
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
        let (mut name, mut value) = (String::new(), Secret::default());
        item.object(&["name", "value"], |field, item| match field {
            "name" => item.read_text(&mut name),
            _ => item.read_secret(&mut value),
        })?;
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
