//! The resources that are served, and where.

use keyfob_control::objects::Kind;

pub(super) const CORE: &str = "";
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
pub(super) const STORAGE: &str = "storage.k8s.io";
pub(super) const AUTHENTICATION: &str = "authentication.k8s.io";
pub(super) const AUTHORIZATION: &str = "authorization.k8s.io";

/// The groups in the order in which they are listed; all have the one version `v1`.
pub(super) const GROUPS: [&str; 4] = [AUTHENTICATION, AUTHORIZATION, RBAC, STORAGE];

/// A kind of object that is stored.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    pub(super) group: &'static str,
    /// `pods`
    pub(super) plural: &'static str,
    /// `Pod`
    pub(super) name: &'static str,
    pub(super) short: &'static [&'static str],
    pub(super) namespaced: bool,
}

/// A kind that is only ever created, and answered at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Review {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) name: &'static str,
    pub(super) namespaced: bool,
}

impl Resource {
    /// The one that a request is for.
    pub(super) fn find(group: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|each| each.group == group && each.plural == plural)
    }

    pub(super) fn of(kind: Kind) -> Option<&'static Self> {
        RESOURCES.iter().find(|each| each.kind == kind)
    }

    /// `pods`, `roles.rbac.authorization.k8s.io`: as it stands in messages.
    pub(super) fn qualified(&self) -> String {
        qualified(self.group, self.plural)
    }

    /// `v1`, `storage.k8s.io/v1`.
    pub(super) fn api_version(&self) -> String {
        api_version(self.group)
    }
}

impl Review {
    pub(super) fn find(group: &str, plural: &str) -> Option<&'static Self> {
        REVIEWS.iter().find(|each| each.group == group && each.plural == plural)
    }
}

pub(super) fn api_version(group: &str) -> String {
    if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") }
}

/// A resource or kind with its group.
pub(super) fn qualified(group: &str, what: &str) -> String {
    if group.is_empty() { what.to_owned() } else { format!("{what}.{group}") }
}

const fn resource(kind: Kind, short: &'static [&'static str]) -> Resource {
    let (group, plural, name) = (kind.group(), kind.plural(), kind.name());
    Resource { kind, group, plural, name, short, namespaced: kind.namespaced() }
}

pub(super) const RESOURCES: [Resource; 11] = [
    resource(Kind::Namespace, &["ns"]),
    resource(Kind::Node, &["no"]),
    resource(Kind::PersistentVolumeClaim, &["pvc"]),
    resource(Kind::PersistentVolume, &["pv"]),
    resource(Kind::Pod, &["po"]),
    resource(Kind::ServiceAccount, &["sa"]),
    resource(Kind::CSIDriver, &[]),
    resource(Kind::ClusterRoleBinding, &[]),
    resource(Kind::ClusterRole, &[]),
    resource(Kind::RoleBinding, &[]),
    resource(Kind::Role, &[]),
];

const fn review(group: &'static str, plural: &'static str, name: &'static str) -> Review {
    Review { group, plural, name, namespaced: false }
}

pub(super) const REVIEWS: [Review; 6] = [
    review(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    review(AUTHENTICATION, "tokenreviews", "TokenReview"),
    Review {
        group: AUTHORIZATION,
        plural: "localsubjectaccessreviews",
        name: "LocalSubjectAccessReview",
        namespaced: true,
    },
    review(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    review(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    review(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
];
