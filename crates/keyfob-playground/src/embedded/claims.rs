//! What a service account's token says, and whether it still holds.
//!
//! Upstream: `pkg/serviceaccount/claims.go`.

use keyfob_api::Quoted;
use keyfob_control::objects::{Kind, Objects};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{metadata, users::User};

/// Clocks may differ by so many seconds.
const LEEWAY: i64 = 60;

/// The claims of a token.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Claims {
    pub(super) aud: Vec<String>,
    pub(super) exp: i64,
    pub(super) iat: i64,
    pub(super) iss: String,
    pub(super) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: Holder,
    pub(super) nbf: i64,
    pub(super) sub: String,
}

/// Whose token it is, and what it ends with.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Holder {
    pub(super) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<Reference>,
    pub(super) serviceaccount: Reference,
}

/// An object, and which of those that had its name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Reference {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
}

impl Reference {
    pub(super) fn to(object: &Value) -> Self {
        let field = |field| metadata::get(object, field).to_owned();
        Self { name: field("name"), uid: field("uid") }
    }
}

impl Claims {
    /// For which of these audiences the token is.
    pub(super) fn audiences(&self, wanted: &[String]) -> Result<Vec<String>, String> {
        let both: Vec<String> =
            self.aud.iter().filter(|each| wanted.contains(each)).cloned().collect();
        if both.is_empty() {
            let (has, wanted) = (list(&self.aud), list(wanted));
            return Err(format!(
                "token audiences {has} is invalid for the target audiences {wanted}"
            ));
        }
        Ok(both)
    }

    /// Whose token it is, if it holds now and among these objects.
    pub(super) fn holder(&self, now: i64, objects: &Objects) -> Result<User, String> {
        self.check_time(now)?;
        let Holder { namespace, node, pod, serviceaccount } = &self.kubernetes;
        let account = objects.get(Kind::ServiceAccount, namespace, &serviceaccount.name);
        let Some(account) = account else {
            return Err(format!("serviceaccounts {} not found", Quoted(&serviceaccount.name)));
        };
        let uid = metadata::get(account, "uid");
        if uid != serviceaccount.uid {
            let claimed = &serviceaccount.uid;
            return Err(format!("service account UID ({uid}) does not match claim ({claimed})"));
        }
        match (pod, node) {
            (Some(pod), _) => {
                still_there(objects.get(Kind::Pod, namespace, &pod.name), pod, "pod")?;
            }
            (None, Some(node)) => {
                still_there(objects.get(Kind::Node, "", &node.name), node, "node")?;
            }
            (None, None) => {}
        }
        Ok(User::service_account(self))
    }

    fn check_time(&self, now: i64) -> Result<(), String> {
        let says = if now.saturating_add(LEEWAY) < self.nbf {
            "is not valid yet"
        } else if now.saturating_sub(LEEWAY) > self.exp {
            "has expired"
        } else if now.saturating_add(LEEWAY) < self.iat {
            "is issued in the future"
        } else {
            return Ok(());
        };
        Err(format!("service account token {says}"))
    }
}

/// A token ends with the object that it is bound to.
fn still_there(found: Option<&Value>, claimed: &Reference, kind: &str) -> Result<(), String> {
    let found = found.ok_or("service account token has been invalidated")?;
    let uid = metadata::get(found, "uid");
    if uid != claimed.uid {
        let claimed = &claimed.uid;
        return Err(format!(
            "{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})"
        ));
    }
    Ok(())
}

/// Go's `%q` of a list.
fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| Quoted(text).to_string()).collect();
    format!("[{}]", quoted.join(" "))
}
