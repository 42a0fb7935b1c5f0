//! What a node may do with service accounts: with those of its own pods.
//!
//! A pod gives its node access to its service account, unless the kubelet itself reported the pod: else a node could give
//! itself access to anything. Of other resources nothing is said here.
//!
//! Upstream: `plugin/pkg/auth/authorizer/node`, as far as it is about service accounts.

use keyfob_api::{FeatureGates, Quoted};
use serde_json::Value;

use crate::{
    objects::{Kind, MIRROR_ANNOTATION, Objects},
    rbac::Attributes,
    rule::{Opinion, node_of},
};

/// Whether a node may do this. Without an opinion, the reason may be empty; others may still allow it.
pub fn authorize(objects: &Objects, gates: FeatureGates, asked: &Attributes) -> Opinion {
    let node = match node_of(&asked.user, &asked.groups) {
        None => return Opinion::default(),
        Some("") => return Opinion::deny(format!("unknown node for user {}", Quoted(&asked.user))),
        Some(node) => node,
    };
    let of_accounts = asked.api_group.is_empty() && asked.resource == "serviceaccounts";
    if asked.path.is_some() || !of_accounts {
        return Opinion::default();
    }
    let refusal = if asked.verb == "get" && asked.subresource.is_empty() {
        may_get(gates, asked)
    } else {
        may_create_token(asked)
    };
    match refusal {
        Some(reason) => Opinion::deny(reason),
        None if uses(objects, node, &asked.namespace, &asked.name) => Opinion::allow(""),
        None => {
            Opinion::deny(format!("no relationship found between node '{node}' and this object"))
        }
    }
}

fn may_get(gates: FeatureGates, asked: &Attributes) -> Option<&'static str> {
    if !gates.service_account_token && !gates.pod_certificate_request {
        return Some("not allowed to get service accounts");
    }
    if asked.namespace.is_empty() {
        return Some("can only read namespaced object of this type");
    }
    asked.name.is_empty().then_some("No Object name found")
}

fn may_create_token(asked: &Attributes) -> Option<&'static str> {
    if asked.verb != "create" || asked.name.is_empty() {
        return Some("can only create tokens for individual service accounts");
    }
    let other = asked.subresource != "token";
    other.then_some("can only create token subresource of serviceaccount")
}

/// Whether a pod on the node uses the service account.
fn uses(objects: &Objects, node: &str, namespace: &str, account: &str) -> bool {
    let mut pods = objects.list(Kind::Pod).filter(|(each, _, _)| *each == namespace);
    pods.any(|(_, _, pod)| {
        let spec = |field: &str| pod.get("spec").and_then(|spec| spec.get(field)?.as_str());
        spec("nodeName") == Some(node)
            && spec("serviceAccountName") == Some(account)
            && !is_mirror(pod)
    })
}

/// Whether a kubelet reported the pod.
pub fn is_mirror(pod: &Value) -> bool {
    let annotations = pod.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| annotations.get(MIRROR_ANNOTATION).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster() -> Objects {
        let mut objects = Objects::default();
        let mut pod = |name: &str, node: &str, account: &str, annotations: Value| {
            let pod = json!({
                "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
                "spec": {"nodeName": node, "serviceAccountName": account},
            });
            objects.put(Kind::Pod, "ns", name, pod);
        };
        pod("a", "n0", "used", json!({}));
        pod("b", "n1", "others", json!({}));
        pod("c", "n0", "mirrored", json!({ MIRROR_ANNOTATION: "" }));
        objects
    }

    fn asked(verb: &str, subresource: &str, name: &str) -> Attributes {
        Attributes {
            user: "system:node:n0".into(),
            groups: vec!["system:nodes".into()],
            verb: verb.into(),
            resource: "serviceaccounts".into(),
            subresource: subresource.into(),
            name: name.into(),
            namespace: "ns".into(),
            ..Attributes::default()
        }
    }

    fn reason(asked: &Attributes) -> String {
        let opinion = authorize(&cluster(), FeatureGates::default(), asked);
        assert!(!opinion.allowed);
        opinion.reason
    }

    #[test]
    fn a_node_may_use_the_accounts_of_its_pods_and_no_others() {
        let none = "no relationship found between node 'n0' and this object";
        for (verb, subresource) in [("get", ""), ("create", "token")] {
            let used = asked(verb, subresource, "used");
            assert!(authorize(&cluster(), FeatureGates::default(), &used).allowed);
            for account in ["others", "mirrored", "nobody"] {
                assert_eq!(reason(&asked(verb, subresource, account)), none);
            }
            let elsewhere = Attributes { namespace: "other".into(), ..used };
            assert_eq!(reason(&elsewhere), none);
        }
    }

    #[test]
    fn other_verbs_and_other_users_are_refused_in_upstreams_words() {
        let individual = "can only create tokens for individual service accounts";
        assert_eq!(reason(&asked("list", "", "used")), individual);
        assert_eq!(reason(&asked("create", "token", "")), individual);
        let subresource = "can only create token subresource of serviceaccount";
        assert_eq!(reason(&asked("create", "", "used")), subresource);
        assert_eq!(reason(&asked("get", "", "")), "No Object name found");
        let nameless = Attributes { user: "system:node:".into(), ..asked("get", "", "used") };
        assert_eq!(reason(&nameless), r#"unknown node for user "system:node:""#);
        let person = Attributes { groups: Vec::new(), ..asked("get", "", "used") };
        assert_eq!(reason(&person), "");
        let pods = Attributes { resource: "pods".into(), ..asked("get", "", "a") };
        assert_eq!(reason(&pods), "");
    }

    #[test]
    fn getting_accounts_takes_one_of_the_gates() {
        let get = asked("get", "", "used");
        let with = |service_account_token, pod_certificate_request| {
            let mut gates = FeatureGates::default();
            gates.service_account_token = service_account_token;
            gates.pod_certificate_request = pod_certificate_request;
            authorize(&cluster(), gates, &get)
        };
        assert!(with(true, false).allowed && with(false, true).allowed);
        assert_eq!(with(false, false), Opinion::deny("not allowed to get service accounts"));
    }
}
