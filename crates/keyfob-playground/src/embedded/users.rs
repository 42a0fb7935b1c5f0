//! Who asks.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use keyfob_api::Secret;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{
    claims::{Claims, Reference},
    metadata::random,
    status::Refusal,
};

pub(super) const MASTERS: &str = "system:masters";
pub(super) const NODES: &str = "system:nodes";
pub(super) const AUTHENTICATED: &str = "system:authenticated";
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(super) const ANONYMOUS: &str = "system:anonymous";
const NODE_PREFIX: &str = "system:node:";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A user, as in the `status` of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct User {
    #[serde(rename = "username")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    pub(super) groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(super) fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    pub(super) fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    pub(super) fn admin() -> Self {
        Self::new("admin", &[MASTERS, AUTHENTICATED])
    }

    pub(super) fn node(name: &str) -> Self {
        Self::new(&format!("{NODE_PREFIX}{name}"), &[NODES, AUTHENTICATED])
    }

    pub(super) fn service_account(claims: &Claims) -> Self {
        let Claims { jti, kubernetes, .. } = claims;
        let Reference { name, uid } = &kubernetes.serviceaccount;
        let mut groups = account_groups(&kubernetes.namespace);
        groups.push(AUTHENTICATED.to_owned());
        let name = format!("{ACCOUNT_PREFIX}{}:{name}", kubernetes.namespace);
        let mut user = Self { name, uid: uid.clone(), groups, extra: BTreeMap::new() };
        user.say("credential-id", &format!("JTI={jti}"));
        for (what, reference) in [("pod", &kubernetes.pod), ("node", &kubernetes.node)] {
            if let Some(Reference { name, uid }) = reference {
                user.say(&format!("{what}-name"), name);
                user.say(&format!("{what}-uid"), uid);
            }
        }
        user
    }

    /// The node whose user this is.
    pub(super) fn as_node(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_PREFIX).filter(|name| !name.is_empty())?;
        self.is_in(NODES).then_some(name)
    }

    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|each| each == group)
    }

    fn say(&mut self, what: &str, value: &str) {
        if !value.is_empty() {
            let key = format!("authentication.kubernetes.io/{what}");
            self.extra.insert(key, vec![value.to_owned()]);
        }
    }
}

/// The groups of a namespace's service accounts.
pub(super) fn account_groups(namespace: &str) -> Vec<String> {
    let all = "system:serviceaccounts";
    vec![all.to_owned(), format!("{all}:{namespace}")]
}

/// The namespace and the name of the service account whose user this is.
pub(super) fn as_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    let is_name = |text: &str| !text.is_empty() && !text.contains(':');
    (is_name(namespace) && is_name(name)).then_some((namespace, name))
}

/// Users with a token that says nothing of them. Only sums of the tokens are kept.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<HashMap<[u8; 32], User>>);

impl Tokens {
    /// A new token for a user.
    pub(super) fn issue(&self, user: User) -> Result<Secret<String>, Refusal> {
        let token = Secret::new(URL_SAFE_NO_PAD.encode(random::<32>()?));
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.insert(Sha256::digest(token.expose()).into(), user);
        Ok(token)
    }

    pub(super) fn revoke(&self, token: &Secret<String>) -> bool {
        let sum: [u8; 32] = Sha256::digest(token.expose()).into();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&sum).is_some()
    }

    pub(super) fn find(&self, token: &str) -> Option<User> {
        let sum: [u8; 32] = Sha256::digest(token).into();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&sum).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_one_by_name_and_group() {
        assert_eq!(User::node("n1").as_node(), Some("n1"));
        assert_eq!(User::node("").as_node(), None);
        assert_eq!(User::new("system:node:n1", &[]).as_node(), None);
        assert_eq!(User::new("n1", &[NODES]).as_node(), None);
    }

    #[test]
    fn a_service_account_is_one_by_name() {
        assert_eq!(as_account("system:serviceaccount:ns:sa"), Some(("ns", "sa")));
        for other in ["ns:sa", "system:serviceaccount:ns:", "system:serviceaccount:a:b:c"] {
            assert_eq!(as_account(other), None, "{other}");
        }
    }
}
