//! The kinds of object that are known, and how the API speaks of them.

/// The kinds of object that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "they are the names of the API")]
pub enum Kind {
    ClusterRole,
    ClusterRoleBinding,
    CSIDriver,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Role,
    RoleBinding,
    ServiceAccount,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::ClusterRole,
        Self::ClusterRoleBinding,
        Self::CSIDriver,
        Self::Namespace,
        Self::Node,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::Pod,
        Self::Role,
        Self::RoleBinding,
        Self::ServiceAccount,
    ];

    /// The kind of that `apiVersion` and `kind`.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| (each.api_version(), each.name()) == (api_version, kind))
    }

    /// Its `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterRole => "ClusterRole",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::CSIDriver => "CSIDriver",
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::Pod => "Pod",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::ServiceAccount => "ServiceAccount",
        }
    }

    /// Its name in paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::ClusterRole => "clusterroles",
            Self::ClusterRoleBinding => "clusterrolebindings",
            Self::CSIDriver => "csidrivers",
            Self::Namespace => "namespaces",
            Self::Node => "nodes",
            Self::PersistentVolume => "persistentvolumes",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::Pod => "pods",
            Self::Role => "roles",
            Self::RoleBinding => "rolebindings",
            Self::ServiceAccount => "serviceaccounts",
        }
    }

    /// Its group; empty for the core.
    pub const fn group(self) -> &'static str {
        match self {
            Self::ClusterRole | Self::ClusterRoleBinding | Self::Role | Self::RoleBinding => {
                "rbac.authorization.k8s.io"
            }
            Self::CSIDriver => "storage.k8s.io",
            _ => "",
        }
    }

    /// Its `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self.group() {
            "" => "v1",
            "storage.k8s.io" => "storage.k8s.io/v1",
            _ => "rbac.authorization.k8s.io/v1",
        }
    }

    /// Whether it lives in namespaces.
    pub const fn namespaced(self) -> bool {
        matches!(
            self,
            Self::PersistentVolumeClaim
                | Self::Pod
                | Self::Role
                | Self::RoleBinding
                | Self::ServiceAccount
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_version_and_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.api_version(), kind.name()), Some(kind));
            assert!(kind.plural().eq_ignore_ascii_case(&format!("{}s", kind.name())));
            assert!(kind.api_version().starts_with(kind.group()));
        }
        assert_eq!(Kind::of("v1", "Role"), None);
        assert_eq!(Kind::of("v1", "pod"), None);
    }
}
