//! Which version and kind a document says it is.
//!
//! Upstream: `SimpleMetaFactory.Interpret` and `schema.ParseGroupVersion`.
//! Differs: every other kind is refused in the same words. Upstream has others for the kinds that its scheme knows too, such as
//! `KubeletConfiguration`, and may refuse their fields first.

use keyfob_api::{
    Quoted,
    document::{FieldError, Node, Position, Reading},
};

use super::schema::Version;

const GROUP: &str = "kubelet.config.k8s.io";
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
    MissingKind,
    MissingVersion,
    /// Upstream's words.
    Kind(String),
}

impl Meta {
    /// Reads both without minding the case of the names, as Go's plain JSON decoder does.
    pub(super) fn of(root: &Node) -> Result<Self, FieldError> {
        const NAMES: [&str; 2] = ["apiVersion", "kind"];
        let mut fields = NAMES.map(|name| (name, String::new(), None));
        let reading = Reading::default();
        reading.root(root).object_in_any_case(&NAMES, |name, item| {
            for (_, text, at) in fields.iter_mut().filter(|field| field.0 == name) {
                if let Some(value) = item.string()? {
                    text.clone_from(value.expose());
                    *at = Some(item.node().at);
                }
            }
            Ok(())
        })?;
        let [(_, api_version, api_version_at), (_, kind, kind_at)] = fields;
        Ok(Self { api_version, kind, api_version_at, kind_at })
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
        let full = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let (kind, full) = (Quoted(&self.kind), Quoted(full));
        format!("no kind {kind} is registered for version {full} in scheme \"{SCHEME}\"")
    }
}
