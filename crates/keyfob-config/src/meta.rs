//! Which version and kind a document says it is, and what a kubelet makes of that.
//!
//! Upstream: `SimpleMetaFactory.Interpret`, `schema.ParseGroupVersion`, and the kinds that the scheme of
//! `pkg/credentialprovider/plugin` knows.
//! Differs: of a document of another kind that the scheme knows, only `providers` is seen to be wrong (upstream: every field
//! that the kind does not have).

use keyfob_api::{
    Quoted,
    document::{Node, Position, Value, folded_name},
};

use super::schema::{Version, go_kind};

const GROUP: &str = "kubelet.config.k8s.io";
const WIRE_GROUP: &str = "credentialprovider.kubelet.k8s.io";
const KIND: &str = "CredentialProviderConfig";
const FIRST_KEP_KINDS: [&str; 2] = ["credentialprovider", "RegistryCredentialConfig"];

/// The file and line are a detail of upstream's build; they make the texts comparable.
const SCHEME: &str = "pkg/credentialprovider/plugin/plugin.go:69";

/// What a document says it is.
#[derive(Debug, Default)]
pub(super) struct Meta {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) api_version_at: Option<Position>,
    pub(super) kind_at: Option<Position>,
}

/// Why a document is not one of ours.
#[derive(Debug)]
pub(super) enum NotOurs {
    /// `kind` or `apiVersion` cannot be read; Go's words.
    Type(String, Position),
    MissingKind,
    MissingVersion,
    /// Go's words.
    Kind(String),
    /// It is something else that a kubelet knows; Go's words.
    OtherKind(String),
}

impl Meta {
    /// Reads both without minding the case of the names, as Go's plain JSON decoder does; the first wrong type counts.
    pub(super) fn of(root: &Node) -> Result<Self, NotOurs> {
        let fields = match &root.value {
            Value::Null => return Ok(Self::default()),
            Value::Map(fields) => fields,
            _ => {
                const WANTED: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
                let message = format!("{} into Go value of type {WANTED}", unmarshal(root));
                return Err(NotOurs::Type(message, root.at));
            }
        };
        let (mut meta, mut wrong) = (Self::default(), None);
        for field in fields {
            let (name, text, at) = match folded_name(field.name.expose()).as_str() {
                "apiversion" => ("apiVersion", &mut meta.api_version, &mut meta.api_version_at),
                "kind" => ("kind", &mut meta.kind, &mut meta.kind_at),
                _ => continue,
            };
            match &field.node.value {
                Value::Null => {}
                Value::String(value) => {
                    text.clone_from(value.expose());
                    *at = Some(field.node.at);
                }
                _ => {
                    let said = unmarshal(&field.node);
                    let message = format!("{said} into Go struct field .{name} of type string");
                    wrong.get_or_insert((message, field.node.at));
                }
            }
        }
        wrong.map_or(Ok(meta), |(message, at)| Err(NotOurs::Type(message, at)))
    }

    /// The version of the configuration that this is.
    pub(super) fn version(&self) -> Result<Version, NotOurs> {
        let (group, version) = self.group_version()?;
        if self.kind.is_empty() {
            return Err(NotOurs::MissingKind);
        }
        if version.is_empty() {
            return Err(NotOurs::MissingVersion);
        }
        if FIRST_KEP_KINDS.contains(&self.kind.as_str()) && self.api_version == "v1alpha1" {
            return Ok(Version::FirstKep);
        }
        match Version::named(version) {
            Some(version) if group == GROUP && self.kind == KIND => Ok(version),
            _ if is_registered(group, version, &self.kind) => {
                let kind = Quoted(&self.kind);
                Err(NotOurs::OtherKind(format!("failed to decode {kind} (wrong Kind)")))
            }
            _ => Err(NotOurs::Kind(self.refusal(group, version))),
        }
    }

    /// Whether the kind is right, or the version is none whatever the kind.
    pub(super) fn is_wrong_in_its_version(&self) -> bool {
        let kind = self.kind.as_str();
        kind == KIND || FIRST_KEP_KINDS.contains(&kind) || self.group_version().is_err()
    }

    fn group_version(&self) -> Result<(&str, &str), NotOurs> {
        match self.api_version.split_once('/') {
            _ if self.api_version == "/" => Ok(("", "")),
            None => Ok(("", &self.api_version)),
            Some((_, version)) if version.contains('/') => {
                Err(NotOurs::Kind(format!("unexpected GroupVersion string: {}", self.api_version)))
            }
            Some(parts) => Ok(parts),
        }
    }

    fn refusal(&self, group: &str, version: &str) -> String {
        let kind = Quoted(&self.kind);
        let internal = version == "__internal" || is_without_internal(group, version, &self.kind);
        if internal {
            let group = Quoted(group);
            return format!(
                "no kind {kind} is registered for the internal version of group {group} in scheme \"{SCHEME}\""
            );
        }
        let full = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let full = Quoted(full);
        format!("no kind {kind} is registered for version {full} in scheme \"{SCHEME}\"")
    }
}

fn unmarshal(node: &Node) -> String {
    format!("json: cannot unmarshal {}", go_kind(node.kind()))
}

/// Whether the scheme knows the kind although it is not the one that is wanted.
fn is_registered(group: &str, version: &str, kind: &str) -> bool {
    let is_wire_version = matches!(version, "v1" | "v1beta1" | "v1alpha1" | "__internal");
    match kind {
        "APIGroup" | "APIGroupList" | "APIResourceList" | "APIVersions" | "Status" => true,
        "CredentialProviderRequest" | "CredentialProviderResponse" | "WatchEvent" => {
            group == WIRE_GROUP && is_wire_version
        }
        "KubeletConfiguration" | "SerializedNodeConfigSource" => {
            group == GROUP && matches!(version, "v1beta1" | "__internal")
        }
        "ImagePullIntent" | "ImagePulledRecord" => {
            group == GROUP && matches!(version, "v1beta1" | "v1alpha1" | "__internal")
        }
        _ => false,
    }
}

/// Kinds that every group of the wire has, and that no internal version stands behind.
fn is_without_internal(group: &str, version: &str, kind: &str) -> bool {
    const OPTIONS: [&str; 6] = [
        "CreateOptions",
        "DeleteOptions",
        "GetOptions",
        "ListOptions",
        "PatchOptions",
        "UpdateOptions",
    ];
    let is_wire = group == WIRE_GROUP && matches!(version, "v1" | "v1beta1" | "v1alpha1");
    is_wire && OPTIONS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_event_is_known_in_the_group_of_the_wire_only() {
        let is_other_kind = |api_version: &str| {
            let (api_version, kind) = (api_version.to_owned(), "WatchEvent".to_owned());
            let meta = Meta { api_version, kind, ..Meta::default() };
            matches!(meta.version(), Err(NotOurs::OtherKind(_)))
        };
        assert!(is_other_kind("credentialprovider.kubelet.k8s.io/v1"));
        assert!(is_other_kind("credentialprovider.kubelet.k8s.io/__internal"));
        assert!(!is_other_kind("kubelet.config.k8s.io/v1"));
        assert!(!is_other_kind("v1"));
    }
}
