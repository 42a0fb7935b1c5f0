//! Creating, replacing, patching and deleting objects.
//!
//! Upstream: `apiserver/pkg/registry/rest` and `registry/generic/registry`. Objects go at once, without finalizers or grace;
//! a namespace takes along what lies in it.

use keyfob_api::Quoted;
use keyfob_control::objects::{Kind, decode};
use serde_json::{Value, json};

use super::{
    Api, defaults,
    metadata::{self, timestamp},
    names::{self, check_name},
    request::ResourcePath,
    resources::Resource,
    status::Refusal,
    store::Changing,
};

impl Api {
    pub(super) fn create(
        &self,
        resource: &Resource,
        path: &ResourcePath,
        mut object: Value,
    ) -> Result<Value, Refusal> {
        check_type(resource, &object)?;
        check_namespace(resource, path, &object)?;
        names::give(&mut object)?;
        let name = metadata::get(&object, "name").to_owned();
        check_name(resource, &name)?;
        metadata::set(&mut object, "uid", "");
        metadata::set(&mut object, "creationTimestamp", "");
        self.store.write(|objects| {
            if resource.namespaced {
                let there = objects.objects().get(Kind::Namespace, "", &path.namespace);
                let gone = || defaults::not_found(Kind::Namespace, &path.namespace);
                there.map(drop).ok_or_else(gone)?;
            }
            if objects.objects().get(resource.kind, namespace(resource, path), &name).is_some() {
                return Err(Refusal::already_exists(resource, &name));
            }
            if resource.kind == Kind::Pod {
                objects.objects().admit_pod(&path.namespace, &mut object);
                check_account(objects, &path.namespace, &object)?;
            }
            self.put(objects, resource, path, object)
        })
    }

    /// Puts an object in the place of one that was not changed in the meantime.
    pub(super) fn replace(
        &self,
        resource: &Resource,
        path: &ResourcePath,
        object: Value,
    ) -> Result<Value, Refusal> {
        check_type(resource, &object)?;
        check_namespace(resource, path, &object)?;
        self.store.write(|objects| {
            let there = stored(objects, resource, path)?;
            self.update(objects, resource, path, (&there, object))
        })
    }

    /// Merges a patch into an object.
    pub(super) fn patch(
        &self,
        resource: &Resource,
        path: &ResourcePath,
        changes: &Value,
    ) -> Result<Value, Refusal> {
        if !changes.is_object() {
            return Err(Refusal::bad_request("a patch must be an object"));
        }
        if has_directives(changes) {
            return Err(Refusal::bad_request(
                "strategic merging of lists is not served here: use kubectl replace, or patch --type=merge",
            ));
        }
        self.store.write(|objects| {
            let there = stored(objects, resource, path)?;
            let mut object = there.clone();
            merge(&mut object, changes);
            check_type(resource, &object)?;
            self.update(objects, resource, path, (&there, object))
        })
    }

    pub(super) fn delete(
        &self,
        resource: &Resource,
        path: &ResourcePath,
        options: &Value,
    ) -> Result<Value, Refusal> {
        let gone = self.store.write(|objects| {
            let there = stored(objects, resource, path)?;
            let wanted = |field: &str| {
                options.pointer(&format!("/preconditions/{field}")).and_then(Value::as_str)
            };
            let uid = wanted("uid").unwrap_or_default();
            let version = wanted("resourceVersion").unwrap_or_default();
            check_preconditions(resource, &there, uid, version)?;
            if resource.kind == Kind::Namespace {
                empty(objects, &path.name);
            }
            objects.remove(resource.kind, namespace(resource, path), &path.name);
            Ok(there)
        })?;
        Ok(json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {
                "name": path.name,
                "group": resource.group,
                "kind": resource.plural,
                "uid": metadata::get(&gone, "uid"),
            },
        }))
    }

    fn update(
        &self,
        objects: &mut Changing<'_>,
        resource: &Resource,
        path: &ResourcePath,
        (there, mut object): (&Value, Value),
    ) -> Result<Value, Refusal> {
        let name = metadata::get(&object, "name");
        if name != path.name {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                path.name
            )));
        }
        let given = |field| metadata::get(&object, field).to_owned();
        check_preconditions(resource, there, &given("uid"), &given("resourceVersion"))?;
        for field in ["uid", "creationTimestamp"] {
            metadata::set(&mut object, field, metadata::get(there, field));
        }
        self.put(objects, resource, path, object)
    }

    fn put(
        &self,
        objects: &mut Changing<'_>,
        resource: &Resource,
        path: &ResourcePath,
        mut object: Value,
    ) -> Result<Value, Refusal> {
        let namespace = namespace(resource, path);
        defaults::complete(resource, namespace, &mut object, &timestamp(self.now()))?;
        let name = metadata::get(&object, "name").to_owned();
        let kept = objects.put(resource, &name, object);
        if resource.kind == Kind::Namespace {
            defaults::account(objects, &name, &timestamp(self.now()))?;
        }
        Ok(kept)
    }
}

/// Where objects of this path are kept: a namespace lies in none.
pub(super) fn namespace<'a>(resource: &Resource, path: &'a ResourcePath) -> &'a str {
    if resource.namespaced { &path.namespace } else { "" }
}

fn stored(
    objects: &Changing<'_>,
    resource: &Resource,
    path: &ResourcePath,
) -> Result<Value, Refusal> {
    let there = objects.objects().get(resource.kind, namespace(resource, path), &path.name);
    there.cloned().ok_or_else(|| Refusal::not_found(resource, &path.name))
}

/// Everything that lies in a namespace.
fn empty(objects: &mut Changing<'_>, namespace: &str) {
    for resource in super::resources::RESOURCES.iter().filter(|resource| resource.namespaced) {
        let all = objects.objects().list(resource.kind);
        let inside = all.filter(|(each, _, _)| *each == namespace);
        let names: Vec<String> = inside.map(|(_, name, _)| name.to_owned()).collect();
        for name in names {
            objects.remove(resource.kind, namespace, &name);
        }
    }
}

fn check_type(resource: &Resource, object: &Value) -> Result<(), Refusal> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or(resource.name);
    let version = object.get("apiVersion").and_then(Value::as_str);
    let wrong = |why: &str| {
        let name = resource.name;
        Refusal::bad_request(format!(
            "{name} in version \"v1\" cannot be handled as a {name}: {why}"
        ))
    };
    if !object.is_object() || kind != resource.name {
        return Err(wrong("the object is of another kind"));
    }
    if version.is_some_and(|version| version != resource.api_version()) {
        return Err(wrong("the object is of another version"));
    }
    decode(resource.kind, object).map_err(|error| wrong(&error.inner().to_string()))
}

fn check_namespace(
    resource: &Resource,
    path: &ResourcePath,
    object: &Value,
) -> Result<(), Refusal> {
    let given = metadata::get(object, "namespace");
    if given.is_empty() || given == namespace(resource, path) {
        return Ok(());
    }
    Err(Refusal::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// A pod runs with an account that is there.
fn check_account(objects: &Changing<'_>, namespace: &str, pod: &Value) -> Result<(), Refusal> {
    let account =
        pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
    if account.is_empty()
        || objects.objects().get(Kind::ServiceAccount, namespace, account).is_some()
    {
        return Ok(());
    }
    let account_name = Quoted(account);
    let why = format!(
        "error looking up service account {namespace}/{account}: serviceaccount {account_name} not found"
    );
    Err(Refusal::forbidden("", "pods", metadata::get(pod, "name"), &why))
}

/// Whether the object is the one that was meant; empty means any.
fn check_preconditions(
    resource: &Resource,
    there: &Value,
    uid: &str,
    version: &str,
) -> Result<(), Refusal> {
    let name = metadata::get(there, "name");
    let refuse = |why: &str| Err(Refusal::conflict(resource.group, resource.plural, name, why));
    let (has_uid, has_version) =
        (metadata::get(there, "uid"), metadata::get(there, "resourceVersion"));
    if !uid.is_empty() && uid != has_uid {
        return refuse(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {has_uid}"
        ));
    }
    if !version.is_empty() && version != has_version {
        return refuse(
            "the object has been modified; please apply your changes to the latest version and try again",
        );
    }
    Ok(())
}

/// RFC 7386.
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(object) = object.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// A strategic patch that says how to merge lists.
fn has_directives(patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| key.starts_with('$') || has_directives(value))
        }
        Value::Array(items) => items.iter().any(has_directives),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_merged_as_rfc_7386_says() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
        ];
        for (mut object, patch, want) in cases {
            merge(&mut object, &patch);
            assert_eq!(object, want);
        }
    }
}
