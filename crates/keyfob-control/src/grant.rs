//! The role that would allow a node an audience.
//!
//! It is the least that does: one verb on one audience, for the nodes, the namespace and the service account that are
//! asked for.

use keyfob_api::document::yaml_quoted;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::rule::{NODE_USER_PREFIX, NODES_GROUP, VERB};

/// How much of an audience a name shows.
const SHOWN: usize = 40;

/// What is to be allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct Grant {
    /// To which node; `None` for all.
    pub node: Option<String>,
    /// In which namespace; `None` for all.
    pub namespace: Option<String>,
    /// For which service account; `None` for all.
    pub service_account: Option<String>,
    /// The audience; empty for the API server's own.
    pub audience: String,
}

/// Why an audience cannot be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GrantError {
    /// To RBAC it means all audiences.
    #[error("the audience \"*\" cannot be granted alone: in a role it means every audience")]
    Everything,
}

impl Grant {
    /// The YAML of a role and its binding. In a namespace they are a `Role` and a `RoleBinding`, otherwise a
    /// `ClusterRole` and a `ClusterRoleBinding`.
    pub fn yaml(&self) -> Result<String, GrantError> {
        if self.audience == "*" {
            return Err(GrantError::Everything);
        }
        let prefix = if self.namespace.is_some() { "" } else { "Cluster" };
        let metadata = self.metadata();
        let role = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}Role\n{metadata}{}",
            self.rules()
        );
        let binding = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}RoleBinding\n{metadata}\
             roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {prefix}Role\n  name: {}\n{}",
            self.name(),
            self.subjects()
        );
        Ok(format!("{role}---\n{binding}"))
    }

    /// The name of both: it shows the audience, and no other grant has it.
    pub fn name(&self) -> String {
        let Self { node, namespace, service_account, audience } = self;
        let digest = Sha256::digest(format!("{:?}", (node, namespace, service_account, audience)));
        let hash = digest.iter().take(4).fold(0, |hash: u32, byte| hash << 8 | u32::from(*byte));
        match shown(audience).as_str() {
            "" => format!("node-audience-{hash:08x}"),
            shown => format!("node-audience-{shown}-{hash:08x}"),
        }
    }

    fn metadata(&self) -> String {
        let line = |namespace: &String| format!("  namespace: {}\n", yaml_quoted(namespace));
        let namespace = self.namespace.as_ref().map(line).unwrap_or_default();
        format!("metadata:\n  name: {}\n{namespace}", self.name())
    }

    fn rules(&self) -> String {
        let audience = yaml_quoted(&self.audience);
        let line = |account: &String| format!("  resourceNames: [{}]\n", yaml_quoted(account));
        let names = self.service_account.as_ref().map(line).unwrap_or_default();
        format!(
            "rules:\n- apiGroups: [\"\"]\n  resources: [{audience}]\n{names}  verbs: [{VERB}]\n"
        )
    }

    fn subjects(&self) -> String {
        let (kind, name) = match &self.node {
            Some(node) => ("User", format!("{NODE_USER_PREFIX}{node}")),
            None => ("Group", NODES_GROUP.to_owned()),
        };
        let name = yaml_quoted(&name);
        format!(
            "subjects:\n- apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\n"
        )
    }
}

/// What a name shows of an audience: its letters and digits, with a dash for what is between them.
fn shown(audience: &str) -> String {
    let words =
        audience.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut shown = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    shown.truncate(SHOWN);
    shown.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests;
