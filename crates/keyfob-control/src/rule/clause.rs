//! What the rule decided, by which clause, and in whose words.

use std::fmt;

use keyfob_api::Quoted;

use super::{Asked, Seen, volumes::Path};

/// Why a token may be given, or may not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clause {
    // Allowed.
    /// KEP-4412's list names the audience.
    AllowedKubeletAudience,
    /// The authorizer allows it.
    Authorizer {
        /// Why, if it said so.
        reason: String,
    },
    /// Audiences are not looked at.
    AudiencesNotRestricted,
    /// A CSI driver that mounts a volume of the pod asks for such tokens.
    CsiDriver {
        /// The pod's volume.
        volume: String,
        /// How it leads to the driver.
        path: Path,
    },
    /// The user is no node.
    NotANode,
    /// A volume of the pod holds such a token.
    ProjectedVolume {
        /// The pod's volume.
        volume: String,
    },

    // Forbidden.
    /// The authorizer could not decide.
    AuthorizerError {
        /// What it said.
        error: String,
    },
    /// The pod is on another node.
    DifferentNode {
        /// Its node, if it has one.
        node: Option<String>,
    },
    /// The pod of that name is another one.
    DifferentPod,
    /// The authorizer does not allow it, and nothing else does.
    NotAuthorized {
        /// Why, if it said so.
        reason: String,
    },
    /// The token is not bound to a pod.
    NotBoundToPod,
    /// The token is bound to a pod without saying which of that name.
    NoPodUid,
    /// There is no such pod.
    PodNotFound,
    /// Whether there is such a pod could not be learnt.
    PodUnknown {
        /// What went wrong.
        error: String,
    },
    /// More than one audience.
    TooManyAudiences,
    /// A user in the group of nodes, with the prefix of nodes, and no name.
    UnknownNode,
    /// Volumes could not be followed to their drivers, and no other allows it.
    VolumeError {
        /// What went wrong with each, in order.
        errors: Vec<String>,
    },
}

impl Clause {
    /// Whether it lets the token be given.
    pub fn allowed(&self) -> bool {
        matches!(
            self,
            Self::AllowedKubeletAudience
                | Self::Authorizer { .. }
                | Self::AudiencesNotRestricted
                | Self::CsiDriver { .. }
                | Self::NotANode
                | Self::ProjectedVolume { .. }
        )
    }

    /// A short name that does not change, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllowedKubeletAudience => "allowed-kubelet-audiences",
            Self::Authorizer { .. } => "authorizer",
            Self::AudiencesNotRestricted => "audiences-not-restricted",
            Self::CsiDriver { .. } => "csi-driver",
            Self::NotANode => "not-a-node",
            Self::ProjectedVolume { .. } => "projected-volume",
            Self::AuthorizerError { .. } => "authorizer-error",
            Self::DifferentNode { .. } => "different-node",
            Self::DifferentPod => "different-pod",
            Self::NotAuthorized { .. } => "not-authorized",
            Self::NotBoundToPod => "not-bound-to-pod",
            Self::NoPodUid => "no-pod-uid",
            Self::PodNotFound => "pod-not-found",
            Self::PodUnknown { .. } => "pod-unknown",
            Self::TooManyAudiences => "too-many-audiences",
            Self::UnknownNode => "unknown-node",
            Self::VolumeError { .. } => "volume-error",
        }
    }
}

/// In plain words.
impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllowedKubeletAudience => {
                f.write_str("the list of allowed kubelet audiences has it")
            }
            Self::Authorizer { reason } => because(f, "the authorizer allows it", reason),
            Self::AudiencesNotRestricted => f.write_str("audiences are not restricted"),
            Self::CsiDriver { volume, path } => {
                write!(f, "the pod's volume {}, through {path}, asks for it", Quoted(volume))
            }
            Self::NotANode => f.write_str("the user is not a node, so the rule is not for it"),
            Self::ProjectedVolume { volume } => {
                write!(f, "the pod's volume {} projects a token for it", Quoted(volume))
            }
            Self::AuthorizerError { error } => because(f, "the authorizer failed", error),
            Self::DifferentNode { node: Some(node) } => {
                write!(f, "the pod is on the node {}", Quoted(node))
            }
            Self::DifferentNode { node: None } => f.write_str("the pod is on no node yet"),
            Self::DifferentPod => f.write_str("the pod of that name has another uid"),
            Self::NotAuthorized { reason } => because(
                f,
                "no volume of the pod asks for it and the authorizer does not allow it",
                reason,
            ),
            Self::NotBoundToPod => f.write_str("the token would not be bound to a pod"),
            Self::NoPodUid => f.write_str("the token would be bound to a pod without its uid"),
            Self::PodNotFound => f.write_str("there is no such pod"),
            Self::PodUnknown { error } => because(f, "the pod could not be looked up", error),
            Self::TooManyAudiences => f.write_str("a node may ask for one audience at a time"),
            Self::UnknownNode => f.write_str("the user is a node without a name"),
            Self::VolumeError { errors } => because(
                f,
                "volumes of the pod could not be followed to their drivers",
                &aggregate(errors),
            ),
        }
    }
}

fn because(f: &mut fmt::Formatter<'_>, what: &str, why: &str) -> fmt::Result {
    f.write_str(what)?;
    if why.is_empty() { Ok(()) } else { write!(f, " ({why})") }
}

/// A decision: the clause that made it, and what was seen on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Why.
    pub clause: Clause,
    /// What each volume of the pod offered, in their order, as far as the rule looked.
    pub seen: Vec<Seen>,
    /// What was asked.
    pub asked: Box<Asked>,
    /// The audience that a refusal names: the one that was asked for, as far as that can be told.
    pub audience: String,
}

impl Verdict {
    /// Whether the token may be given.
    pub fn allowed(&self) -> bool {
        self.clause.allowed()
    }

    /// The clause's short name, for logs and metrics.
    pub fn name(&self) -> &'static str {
        self.clause.name()
    }

    /// The status an API server answers with.
    pub fn code(&self) -> u16 {
        match self.clause {
            Clause::PodNotFound => 404,
            _ if self.allowed() => 200,
            _ => 403,
        }
    }

    /// A refusal in upstream's words, word for word; what allowed it in ours.
    pub fn message(&self) -> String {
        let Some(refusal) = self.refusal() else { return self.clause.to_string() };
        if self.clause == Clause::PodNotFound {
            return refusal;
        }
        let account = Quoted(&self.asked.service_account);
        format!("serviceaccounts {account} is forbidden: {refusal}")
    }

    fn refusal(&self) -> Option<String> {
        let user = &self.asked.user;
        let audience = Quoted(&self.audience);
        let bound = self.asked.bound.clone().unwrap_or_default();
        Some(match &self.clause {
            Clause::AuthorizerError { error } => {
                format!(
                    "error authorizing {user} to request tokens for audience {audience}: {error}"
                )
            }
            Clause::DifferentNode { .. } => {
                "node requested token bound to a pod scheduled on a different node".to_owned()
            }
            Clause::DifferentPod => format!(
                "the UID in the bound object reference ({}) does not match the UID in record. \
                 The object might have been deleted and then recreated",
                bound.uid
            ),
            Clause::NotAuthorized { .. } => {
                format!("{user} is not authorized to request tokens for audience {audience}")
            }
            Clause::NotBoundToPod => "node requested token not bound to a pod".to_owned(),
            Clause::NoPodUid => "node requested token with a pod binding without a uid".to_owned(),
            Clause::PodNotFound => format!("pod {} not found", Quoted(bound.name)),
            Clause::PodUnknown { error } => error.clone(),
            Clause::TooManyAudiences => "node may only request 0 or 1 audiences".to_owned(),
            Clause::UnknownNode => format!("could not determine node from user {}", Quoted(user)),
            Clause::VolumeError { errors } => {
                format!("error validating audience {audience}: {}", aggregate(errors))
            }
            _ => return None,
        })
    }
}

/// In plain words, with the clause's name.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.allowed() { "allowed" } else { "forbidden" };
        write!(f, "{word} by {}: {}", self.name(), self.clause)
    }
}

/// Several errors as Go shows them together: each once, in brackets unless it is alone.
pub(crate) fn aggregate(errors: &[String]) -> String {
    let mut once: Vec<&str> = Vec::new();
    for error in errors {
        if !once.contains(&error.as_str()) {
            once.push(error);
        }
    }
    match once[..] {
        [error] => error.to_owned(),
        _ => format!("[{}]", once.join(", ")),
    }
}
