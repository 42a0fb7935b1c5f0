//! Bindings: to whom they give a role.

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use keyfob_api::Quoted;
use serde::Deserialize;
use serde_json::Value;

use super::Attributes;

/// A `RoleBinding`, or a `ClusterRoleBinding` if it has no namespace.
#[derive(Deserialize)]
pub(super) struct Binding {
    #[serde(skip)]
    pub(super) namespace: String,
    #[serde(skip)]
    name: String,
    #[serde(rename = "roleRef")]
    pub(super) role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

/// A `Role` or `ClusterRole`.
#[derive(Deserialize)]
pub(super) struct Role {
    rules: Option<Vec<PolicyRule>>,
}

impl Role {
    pub(super) fn rules(&self) -> impl Iterator<Item = &PolicyRule> {
        self.rules.iter().flatten()
    }
}

impl Binding {
    pub(super) fn read(namespace: &str, name: &str, value: &Value) -> Option<Self> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Some(Self { namespace, name, ..Self::deserialize(value).ok()? })
    }

    /// The first subject that the user is.
    pub(super) fn subject_for(&self, asked: &Attributes) -> Option<&Subject> {
        self.subjects.iter().flatten().find(|subject| self.is(subject, asked))
    }

    fn is(&self, subject: &Subject, asked: &Attributes) -> bool {
        match subject.kind.as_str() {
            "User" => asked.user == subject.name,
            "Group" => asked.groups.contains(&subject.name),
            "ServiceAccount" => {
                let namespace = self.account_namespace(subject);
                let user = format!("system:serviceaccount:{namespace}:{}", subject.name);
                !namespace.is_empty() && asked.user == user
            }
            _ => false,
        }
    }

    /// An account's namespace is the binding's, unless it says another.
    fn account_namespace<'a>(&'a self, subject: &'a Subject) -> &'a str {
        let own = subject.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        own.unwrap_or(&self.namespace)
    }

    /// The binding, in upstream's words, which put a namespace behind the name.
    pub(super) fn describe(&self, subject: &Subject) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let whom = match subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", subject.name, self.account_namespace(subject)),
            _ => subject.name.clone(),
        };
        let RoleRef { kind: role_kind, name: role, .. } = &self.role_ref;
        format!(
            "{kind} {} of {role_kind} {} to {} {}",
            Quoted(name),
            Quoted(role),
            subject.kind,
            Quoted(whom)
        )
    }
}
