//! May this node have this token?
//!
//! The rule asks for one fact after the other and stops at the first that decides, so it reads of a cluster no more than
//! it needs. It does no I/O: [`crate::facts::judge`] brings it what it asks for.
//!
//! Differs: beside upstream's sources of audiences stands KEP-4412's list, which never shipped: what it names is allowed to
//! every node. It is looked at after the pod's volumes and before the authorizer, and also when a volume could not be followed:
//! upstream then forbids without asking further, but a name on the list needs no volume. An empty name on it allows
//! nothing.
//!
//! Upstream's plugin sees a request as the client wrote it. A webhook sees it later, when the API server has put its own
//! audiences in the place of none: [`Policy::api_audiences`] are those.
//!
//! Upstream: `admitServiceAccount` in `plugin/pkg/admission/noderestriction`.

mod clause;
mod facts;
mod in_tree;
mod volumes;

use k8s_openapi::api::core::v1::Pod;
use keyfob_api::FeatureGates;

pub(crate) use self::clause::aggregate;
use self::volumes::Volumes;
pub use self::{
    clause::{Clause, Verdict},
    facts::{Access, Facts, Found, Opinion, Question, VERB},
    volumes::{Path, Seen, Through},
};

/// The group that every node is in.
pub const NODES_GROUP: &str = "system:nodes";

/// How the name of a node's user begins.
pub const NODE_USER_PREFIX: &str = "system:node:";

/// A node's request for a token of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct Asked {
    /// The user who asks: `system:node:NAME`.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The namespace of the service account.
    pub namespace: String,
    /// The service account.
    pub service_account: String,
    /// For whom the token is.
    pub audiences: Vec<String>,
    /// What the token is bound to.
    pub bound: Option<BoundObject>,
}

impl Asked {
    /// A request by a node; the rest is to be filled in.
    pub fn by_node(node: &str) -> Self {
        Self {
            user: format!("{NODE_USER_PREFIX}{node}"),
            groups: vec![NODES_GROUP.to_owned(), "system:authenticated".to_owned()],
            ..Self::default()
        }
    }

    /// The audience that is asked for: none means the API server's own, which has the empty name.
    pub fn audience(&self) -> &str {
        self.audiences.first().map_or("", String::as_str)
    }

    fn access(&self, audience: &str) -> Access {
        Access {
            user: self.user.clone(),
            groups: self.groups.clone(),
            namespace: self.namespace.clone(),
            service_account: self.service_account.clone(),
            audience: audience.to_owned(),
        }
    }
}

/// A `boundObjectRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a complete value that callers build")]
pub struct BoundObject {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `name`.
    pub name: String,
    /// `uid`.
    pub uid: String,
}

impl BoundObject {
    /// A reference to a pod.
    pub fn pod(name: impl Into<String>, uid: impl Into<String>) -> Self {
        Self {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: name.into(),
            uid: uid.into(),
        }
    }
}

/// How the rule is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers fill it in, with `..Default::default()` for the rest"
)]
pub struct Policy {
    /// The API server's feature gates: audiences are looked at if `ServiceAccountNodeAudienceRestriction` is on.
    pub gates: FeatureGates,
    /// KEP-4412's `--allowed-kubelet-audiences`: these are allowed to every node.
    pub allowed_kubelet_audiences: Vec<String>,
    /// What the API server has put in the place of no audience (its `--api-audiences`), if requests are seen after that.
    pub api_audiences: Vec<String>,
}

impl Policy {
    fn lists(&self, audience: &str) -> bool {
        !audience.is_empty() && self.allowed_kubelet_audiences.iter().any(|each| each == audience)
    }

    /// The names by which the asked audiences may be allowed; none if they are too many.
    ///
    /// Nobody can tell whether a client named the API server's audience or named none. The token is the same, so either
    /// will do.
    fn names<'a>(&self, audiences: &'a [String]) -> Vec<&'a str> {
        match audiences {
            [] => vec![""],
            [one] if self.are_own(audiences) => vec!["", one],
            [one] => vec![one],
            _ if self.are_own(audiences) => vec![""],
            _ => Vec::new(),
        }
    }

    fn are_own(&self, audiences: &[String]) -> bool {
        let own = &self.api_audiences;
        audiences.len() == own.len()
            && audiences.iter().all(|each| own.contains(each))
            && own.iter().all(|each| audiences.contains(each))
    }
}

/// How far the rule got.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// It must know this first.
    Needs(Question),
    /// It is decided.
    Decided(Verdict),
}

/// The node that a user is: its name, which may be empty; `None` if the user is no node.
///
/// Upstream: `pkg/auth/nodeidentifier`.
pub fn node_of<'a>(user: &'a str, groups: &[String]) -> Option<&'a str> {
    let name = user.strip_prefix(NODE_USER_PREFIX)?;
    groups.iter().any(|group| group == NODES_GROUP).then_some(name)
}

/// Applies the rule to what is known.
pub fn decide(asked: &Asked, policy: &Policy, facts: &Facts) -> Step {
    let mut seen = Vec::new();
    match clause(asked, policy, facts, &mut seen) {
        Ok(clause) => {
            let audience = policy.names(&asked.audiences).last().copied().unwrap_or_default();
            let audience = audience.to_owned();
            Step::Decided(Verdict { clause, seen, asked: asked.clone().into(), audience })
        }
        Err(question) => Step::Needs(question),
    }
}

fn clause(
    asked: &Asked,
    policy: &Policy,
    facts: &Facts,
    seen: &mut Vec<Seen>,
) -> Result<Clause, Question> {
    let node = match node_of(&asked.user, &asked.groups) {
        None => return Ok(Clause::NotANode),
        Some("") => return Ok(Clause::UnknownNode),
        Some(node) => node,
    };
    let bound = match bound_pod(asked) {
        Ok(bound) => bound,
        Err(clause) => return Ok(clause),
    };
    let pod = match facts.pod(asked.namespace.clone(), bound.name.clone())? {
        Found::No => return Ok(Clause::PodNotFound),
        Found::Unknown(error) => return Ok(Clause::PodUnknown { error: error.clone() }),
        Found::Yes(pod) => pod,
    };
    if let Some(clause) = another(pod, bound, node) {
        return Ok(clause);
    }
    if !policy.gates.node_audience_restriction {
        return Ok(Clause::AudiencesNotRestricted);
    }
    Audiences { asked, policy, facts, pod }.clause(seen)
}

/// The pod that the token is to be bound to.
fn bound_pod(asked: &Asked) -> Result<&BoundObject, Clause> {
    match &asked.bound {
        Some(bound)
            if bound.api_version == "v1" && bound.kind == "Pod" && !bound.name.is_empty() =>
        {
            if bound.uid.is_empty() {
                Err(Clause::NoPodUid)
            } else {
                Ok(bound)
            }
        }
        _ => Err(Clause::NotBoundToPod),
    }
}

/// Whether the pod of that name is not the one that was meant, or not this node's.
fn another(pod: &Pod, bound: &BoundObject, node: &str) -> Option<Clause> {
    if pod.metadata.uid.as_deref().unwrap_or_default() != bound.uid {
        return Some(Clause::DifferentPod);
    }
    let its_node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let its_name = || (!its_node.is_empty()).then(|| its_node.to_owned());
    (its_node != node).then(|| Clause::DifferentNode { node: its_name() })
}

/// What is asked for a pod of the node.
struct Audiences<'a> {
    asked: &'a Asked,
    policy: &'a Policy,
    facts: &'a Facts,
    pod: &'a Pod,
}

impl Audiences<'_> {
    /// The clause of the first name that is allowed, or else of the last.
    fn clause(&self, seen: &mut Vec<Seen>) -> Result<Clause, Question> {
        let mut decided = Clause::TooManyAudiences;
        for name in self.policy.names(&self.asked.audiences) {
            seen.clear();
            decided = self.audience(name, seen)?;
            if decided.allowed() {
                break;
            }
        }
        Ok(decided)
    }

    /// Who allows the audience: the pod's volumes, the list, or the authorizer.
    fn audience(&self, audience: &str, seen: &mut Vec<Seen>) -> Result<Clause, Question> {
        let Self { asked, policy, facts, pod } = *self;
        let namespace = asked.namespace.as_str();
        let pod_name = asked.bound.as_ref().map_or("", |bound| bound.name.as_str());
        if let Some(clause) = (Volumes { pod, pod_name, namespace, audience, facts }).scan(seen)? {
            return Ok(clause);
        }
        if policy.lists(audience) {
            return Ok(Clause::AllowedKubeletAudience);
        }
        let errors: Vec<_> = seen.iter().filter_map(|each| each.offered.clone().err()).collect();
        if !errors.is_empty() {
            return Ok(Clause::VolumeError { errors });
        }
        let opinion = facts.authorizer.get(audience);
        let opinion = opinion.ok_or_else(|| Question::Authorizer(asked.access(audience)))?;
        Ok(authorized(opinion.clone()))
    }
}

/// An authorizer may meet an error and allow all the same.
fn authorized(opinion: Opinion) -> Clause {
    match opinion {
        Opinion { allowed: true, reason, .. } => Clause::Authorizer { reason },
        Opinion { error: Some(error), .. } => Clause::AuthorizerError { error },
        Opinion { reason, .. } => Clause::NotAuthorized { reason },
    }
}

#[cfg(test)]
mod tests;
