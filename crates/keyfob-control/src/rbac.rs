//! What roles and bindings allow.
//!
//! Aggregated cluster roles are taken as they are: a controller, which is not here, fills in their rules.
//!
//! Upstream: `plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac/validation`.
//! Differs: bindings are looked at in the order of their names, so that a reason is the same each time.

mod binding;
mod matching;

use keyfob_api::Quoted;
use serde::Deserialize as _;

use self::{
    binding::{Binding, Role},
    matching::allows,
};
use crate::{
    objects::{Kind, Objects},
    rule::{Access, Asked, Opinion, VERB, aggregate},
};

/// Those in this group may do everything.
pub const MASTERS_GROUP: &str = "system:masters";

/// What somebody wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the attributes of a request, as upstream's authorizers know them"
)]
pub struct Attributes {
    /// Who.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The verb, such as `get`.
    pub verb: String,
    /// The group of the resource; empty for the core.
    pub api_group: String,
    /// The resource, such as `pods`.
    pub resource: String,
    /// The subresource, or nothing.
    pub subresource: String,
    /// The name of the object, or nothing.
    pub name: String,
    /// The namespace, or nothing.
    pub namespace: String,
    /// The path of a request that is not for a resource, such as `/healthz`.
    pub path: Option<String>,
}

/// What the rule asks the authorizer, as a request on a resource that has the audience's name.
impl From<Access> for Attributes {
    fn from(access: Access) -> Self {
        Self {
            user: access.user,
            groups: access.groups,
            verb: VERB.to_owned(),
            resource: access.audience,
            name: access.service_account,
            namespace: access.namespace,
            ..Self::default()
        }
    }
}

/// What a user wants who asks for a token at all, whatever its audience.
impl From<&Asked> for Attributes {
    fn from(asked: &Asked) -> Self {
        Self {
            user: asked.user.clone(),
            groups: asked.groups.clone(),
            verb: "create".to_owned(),
            resource: "serviceaccounts".to_owned(),
            subresource: "token".to_owned(),
            name: asked.service_account.clone(),
            namespace: asked.namespace.clone(),
            ..Self::default()
        }
    }
}

/// Whether the roles among the objects allow it. A role that is missing is named in the reason of a refusal.
pub fn authorize(objects: &Objects, asked: &Attributes) -> Opinion {
    if asked.groups.iter().any(|group| group == MASTERS_GROUP) {
        return Opinion::allow("");
    }
    let mut errors = Vec::new();
    for binding in bindings(objects, &asked.namespace) {
        let Some(subject) = binding.subject_for(asked) else { continue };
        match rules(objects, &binding) {
            Ok(role) if role.rules().any(|rule| allows(rule, asked)) => {
                return Opinion::allow(format!("RBAC: allowed by {}", binding.describe(subject)));
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    let reason =
        if errors.is_empty() { String::new() } else { format!("RBAC: {}", aggregate(&errors)) };
    Opinion::deny(reason)
}

/// Cluster-wide bindings, then those of the namespace.
fn bindings(objects: &Objects, namespace: &str) -> Vec<Binding> {
    let wide = objects.list(Kind::ClusterRoleBinding);
    let local = objects.list(Kind::RoleBinding);
    let local = local.filter(|(each, _, _)| *each == namespace && !namespace.is_empty());
    wide.chain(local)
        .filter_map(|(namespace, name, value)| Binding::read(namespace, name, value))
        .collect()
}

fn rules(objects: &Objects, binding: &Binding) -> Result<Role, String> {
    let name = binding.role_ref.name.as_str();
    let (kind, namespace) = match binding.role_ref.kind.as_str() {
        "Role" => (Kind::Role, binding.namespace.as_str()),
        "ClusterRole" => (Kind::ClusterRole, ""),
        other => return Err(format!("unsupported role reference kind: {}", Quoted(other))),
    };
    let role = objects.get(kind, namespace, name).and_then(|role| Role::deserialize(role).ok());
    let resource = kind.name().to_ascii_lowercase();
    role.ok_or_else(|| format!("{resource}.{} {} not found", kind.group(), Quoted(name)))
}

#[cfg(test)]
mod tests;
