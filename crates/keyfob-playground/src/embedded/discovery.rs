//! What there is to ask for: `kubectl` reads it before it asks for anything.

use serde_json::{Value, json};

use super::resources::{CORE, GROUPS, RESOURCES, REVIEWS, Resource, Review, api_version};

/// As which version the server presents itself: the one whose rules it follows.
const VERSION: [&str; 3] = ["1", "37", "v1.37.1+keyfob"];

/// The answer to a path of discovery.
pub(super) fn document(path: &str, address: &str) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["version"] => Some(version()),
        ["api"] => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        })),
        ["apis"] => Some(json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": GROUPS.map(group),
        })),
        ["api", "v1"] => Some(resource_list(CORE)),
        ["apis", name] if GROUPS.contains(name) => {
            let mut document = group(name);
            if let Some(document) = document.as_object_mut() {
                document.insert("kind".to_owned(), json!("APIGroup"));
                document.insert("apiVersion".to_owned(), json!("v1"));
            }
            Some(document)
        }
        ["apis", name, "v1"] if GROUPS.contains(name) => Some(resource_list(name)),
        _ => None,
    }
}

fn version() -> Value {
    let [major, minor, git] = VERSION;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": git,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": api_version(name), "version": "v1"});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn resource_list(group: &str) -> Value {
    let stored = RESOURCES.iter().filter(|each| each.group == group).map(stored);
    let reviews = REVIEWS.iter().filter(|each| each.group == group).map(review);
    let mut resources: Vec<Value> = stored.chain(reviews).collect();
    if group == CORE {
        resources.push(json!({
            "name": "serviceaccounts/token",
            "singularName": "",
            "namespaced": true,
            "group": "authentication.k8s.io",
            "version": "v1",
            "kind": "TokenRequest",
            "verbs": ["create"],
        }));
    }
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group),
        "resources": resources,
    })
}

fn stored(resource: &Resource) -> Value {
    json!({
        "name": resource.plural,
        "singularName": resource.name.to_lowercase(),
        "namespaced": resource.namespaced,
        "kind": resource.name,
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        "shortNames": resource.short,
    })
}

fn review(review: &Review) -> Value {
    json!({
        "name": review.plural,
        "singularName": review.name.to_lowercase(),
        "namespaced": review.namespaced,
        "kind": review.name,
        "verbs": ["create"],
    })
}
