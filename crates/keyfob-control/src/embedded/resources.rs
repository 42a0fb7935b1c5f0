//! The resources that are served, and where.

use k8s_openapi::api::{
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    storage::v1::CSIDriver,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::objects::Kind;

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
    /// Whether JSON is an object of this kind.
    check: fn(&Value) -> Result<(), serde_json::Error>,
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

    pub(super) fn check(&self, object: &Value) -> Result<(), serde_json::Error> {
        (self.check)(object)
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

fn is<T: DeserializeOwned>(object: &Value) -> Result<(), serde_json::Error> {
    T::deserialize(object).map(drop)
}

macro_rules! resource {
    ($kind:ident, $group:expr, $plural:literal, $short:expr, $namespaced:literal) => {
        Resource {
            kind: Kind::$kind,
            group: $group,
            plural: $plural,
            name: stringify!($kind),
            short: &$short,
            namespaced: $namespaced,
            check: is::<$kind>,
        }
    };
}

pub(super) const RESOURCES: [Resource; 11] = [
    resource!(Namespace, CORE, "namespaces", ["ns"], false),
    resource!(Node, CORE, "nodes", ["no"], false),
    resource!(PersistentVolumeClaim, CORE, "persistentvolumeclaims", ["pvc"], true),
    resource!(PersistentVolume, CORE, "persistentvolumes", ["pv"], false),
    resource!(Pod, CORE, "pods", ["po"], true),
    resource!(ServiceAccount, CORE, "serviceaccounts", ["sa"], true),
    resource!(CSIDriver, STORAGE, "csidrivers", [], false),
    resource!(ClusterRoleBinding, RBAC, "clusterrolebindings", [], false),
    resource!(ClusterRole, RBAC, "clusterroles", [], false),
    resource!(RoleBinding, RBAC, "rolebindings", [], true),
    resource!(Role, RBAC, "roles", [], true),
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
