//! What a cluster adds to objects that do not say it: identities, the namespaces that objects lie in, and the service
//! account `default` in each of them, which pods run with that name no other.

use std::collections::BTreeSet;

use keyfob_control::objects::{Kind, Objects, fill_in};
use serde_json::{Value, json};

use super::{
    metadata,
    resources::{RESOURCES, Resource},
    status::Refusal,
    store::{Changing, Store},
};

const DEFAULT: &str = "default";

/// Puts the objects that a server starts with into its store.
pub(super) fn load(store: &Store, given: &Objects, now: &str) -> Result<(), Refusal> {
    let mut namespaces = BTreeSet::from([DEFAULT.to_owned()]);
    store.write(|objects| {
        for resource in &RESOURCES {
            for (namespace, name, object) in given.list(resource.kind) {
                let inside = if resource.kind == Kind::Namespace { name } else { namespace };
                namespaces.insert(inside.to_owned());
                let mut object = object.clone();
                metadata::set(&mut object, "name", name);
                complete(resource, namespace, &mut object, now)?;
                objects.put(resource, name, object);
            }
        }
        for namespace in namespaces.iter().filter(|name| !name.is_empty()) {
            add(objects, (Kind::Namespace, "", namespace), now)?;
            account(objects, namespace, now)?;
        }
        Ok(())
    })
}

/// Fills in what an object of this place always has.
pub(super) fn complete(
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
    now: &str,
) -> Result<(), Refusal> {
    metadata::set(object, "namespace", namespace);
    fill_in(object);
    if metadata::get(object, "uid").is_empty() {
        metadata::set(object, "uid", &metadata::uid()?);
    }
    if metadata::get(object, "creationTimestamp").is_empty() {
        metadata::set(object, "creationTimestamp", now);
    }
    let Some(fields) = object.as_object_mut() else { return Ok(()) };
    fields.insert("kind".to_owned(), json!(resource.name));
    fields.insert("apiVersion".to_owned(), json!(resource.api_version()));
    if resource.kind == Kind::Pod
        && let Some(spec) = fields.entry("spec").or_insert_with(|| json!({})).as_object_mut()
        && spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default().is_empty()
    {
        spec.insert("serviceAccountName".to_owned(), json!(DEFAULT));
    }
    Ok(())
}

/// The service account that every namespace has.
pub(super) fn account(
    objects: &mut Changing<'_>,
    namespace: &str,
    now: &str,
) -> Result<(), Refusal> {
    add(objects, (Kind::ServiceAccount, namespace, DEFAULT), now)
}

fn add(
    objects: &mut Changing<'_>,
    (kind, namespace, name): (Kind, &str, &str),
    now: &str,
) -> Result<(), Refusal> {
    let Some(resource) = Resource::of(kind) else { return Ok(()) };
    if objects.objects().get(kind, namespace, name).is_none() {
        let mut object = json!({"metadata": {"name": name}});
        complete(resource, namespace, &mut object, now)?;
        objects.put(resource, name, object);
    }
    Ok(())
}

/// The refusal for an object that is not there.
pub(super) fn not_found(kind: Kind, name: &str) -> Refusal {
    let resource = Resource::of(kind);
    resource.map_or_else(Refusal::no_such_path, |resource| Refusal::not_found(resource, name))
}
