//! Whether an object is as the API has it.

use k8s_openapi::api::{
    core::v1::{
        Namespace, Node as ClusterNode, PersistentVolume, PersistentVolumeClaim, Pod,
        ServiceAccount,
    },
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    storage::v1::CSIDriver,
};
use keyfob_api::document::Node;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Error as DecodeError;

use super::{Kind, ObjectsError, Place, tree};

/// Refuses an object that is not, and says which field and where in its document.
pub(super) fn check(
    kind: Kind,
    json: &Value,
    node: &Node,
    place: &Place,
) -> Result<(), ObjectsError> {
    decode(kind, json).map_err(|error| {
        let wrong = tree::node_at(node, error.path());
        let (place, field) = (place.clone(), error.path().to_string());
        ObjectsError::Field { place, kind, field, found: wrong.kind(), at: wrong.at }
    })
}

/// Whether JSON is an object of this kind; if not, which field is wrong.
pub fn decode(kind: Kind, json: &Value) -> Result<(), DecodeError<serde_json::Error>> {
    fn decodes<T: DeserializeOwned>(json: &Value) -> Result<(), DecodeError<serde_json::Error>> {
        read::<T>(json).map(drop)
    }
    match kind {
        Kind::ClusterRole => decodes::<ClusterRole>(json),
        Kind::ClusterRoleBinding => decodes::<ClusterRoleBinding>(json),
        Kind::CSIDriver => decodes::<CSIDriver>(json),
        Kind::Namespace => decodes::<Namespace>(json),
        Kind::Node => decodes::<ClusterNode>(json),
        Kind::PersistentVolume => decodes::<PersistentVolume>(json),
        Kind::PersistentVolumeClaim => decodes::<PersistentVolumeClaim>(json),
        Kind::Pod => decodes::<Pod>(json),
        Kind::Role => decodes::<Role>(json),
        Kind::RoleBinding => decodes::<RoleBinding>(json),
        Kind::ServiceAccount => decodes::<ServiceAccount>(json),
    }
}

/// Reads JSON as a type of the API; if it is not, the error says which field is wrong.
///
/// The only way to do so: those types are large, and every other way would compile all of them once more.
pub(crate) fn read<T: DeserializeOwned>(json: &Value) -> Result<T, DecodeError<serde_json::Error>> {
    serde_path_to_error::deserialize(json)
}
