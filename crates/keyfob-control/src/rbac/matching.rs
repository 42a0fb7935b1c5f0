//! Rules: what they match.
//!
//! Upstream: `pkg/apis/rbac/v1/evaluation_helpers.go`.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::Attributes;

/// Matches everything.
const ALL: &str = "*";

pub(super) fn allows(rule: &PolicyRule, asked: &Attributes) -> bool {
    has(Some(&rule.verbs), &asked.verb)
        && match &asked.path {
            Some(path) => rule.non_resource_urls.iter().flatten().any(|url| is_url(url, path)),
            None => allows_resource(rule, asked),
        }
}

fn allows_resource(rule: &PolicyRule, asked: &Attributes) -> bool {
    has(rule.api_groups.as_ref(), &asked.api_group)
        && rule.resources.iter().flatten().any(|resource| is_resource(resource, asked))
        && names(rule, &asked.name)
}

fn has(these: Option<&Vec<String>>, wanted: &str) -> bool {
    these.into_iter().flatten().any(|each| each == ALL || each == wanted)
}

/// `pods`, `pods/log`, `*/log` or `*`.
fn is_resource(resource: &str, asked: &Attributes) -> bool {
    let subresource = asked.subresource.as_str();
    if subresource.is_empty() {
        return resource == ALL || resource == asked.resource;
    }
    resource == ALL
        || resource == format!("{}/{subresource}", asked.resource)
        || resource.strip_prefix("*/") == Some(subresource)
}

/// A rule without names is for every name.
fn names(rule: &PolicyRule, wanted: &str) -> bool {
    match rule.resource_names.as_deref().unwrap_or_default() {
        [] => true,
        names => names.iter().any(|name| name == wanted),
    }
}

fn is_url(url: &str, path: &str) -> bool {
    let prefix = url.ends_with('*').then(|| url.trim_end_matches('*'));
    url == path || prefix.is_some_and(|prefix| path.starts_with(prefix))
}
