//! What a client tells an exec plugin in `KUBERNETES_EXEC_INFO`.

use thiserror::Error;

use super::{ExecCluster, ExecResponse, ExecVersion, GROUP, KIND, SpecFields};
use crate::{
    JsonWriter, Secret,
    answer::{InvalidField, SeenName, TypeMeta},
    document::{Document, DocumentError, FieldError, FieldTable, Item, Reading, StrictIssue},
};

/// The `spec` of an `ExecCredential`.
///
/// ```
/// use keyfob_api::{ExecCredentialSpec, ExecVersion};
///
/// let info = ExecCredentialSpec::default().encode(ExecVersion::V1);
/// assert_eq!(
///     String::from_utf8_lossy(info.expose()),
///     "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false}}\n"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "mirrors a document of Kubernetes that callers write; new fields come with new API versions"
)]
pub struct ExecCredentialSpec {
    /// The cluster, if the kubeconfig asks for it with `provideClusterInfo`. v1alpha1 cannot carry it.
    pub cluster: Option<ExecCluster>,
    /// Whether the plugin may use the terminal.
    pub interactive: bool,
    /// The server's refusal that caused this run. Only v1alpha1 carries it.
    pub response: Option<ExecResponse>,
}

impl ExecCredentialSpec {
    /// The exact value of `KUBERNETES_EXEC_INFO`, with the line break at its end.
    pub fn encode(&self, version: ExecVersion) -> Secret<Vec<u8>> {
        let mut json = JsonWriter::object_of_kind(KIND, version.api_version());
        self.write(version, &mut json);
        json.close('}');
        json.finish_line()
    }

    /// Reads the value of `KUBERNETES_EXEC_INFO`, as a plugin does. Unknown fields are ignored.
    pub fn decode(info: &[u8]) -> Result<(ExecVersion, Self), ExecInfoError> {
        Self::decode_with_issues(info).map(|(version, spec, _)| (version, spec))
    }

    /// The same, with the fields that were ignored: those that the version does not have, and repeated ones.
    pub fn decode_with_issues(
        info: &[u8],
    ) -> Result<(ExecVersion, Self, Vec<StrictIssue>), ExecInfoError> {
        let document = Document::read(info)?;
        let meta = TypeMeta::sniff(&document.root)?;
        let (group, _) = meta.group_version().unwrap_or_default();
        if (group, meta.kind.as_str()) != (GROUP, KIND) {
            return Err(ExecInfoError::OtherKind(SeenName::kind(&group_kind(group, &meta.kind))));
        }
        let version = meta.api_version.parse::<ExecVersion>();
        let version =
            version.map_err(|_| ExecInfoError::Version(SeenName::version(&meta.api_version)))?;
        let mut spec = Self::default();
        let reading = Reading::default();
        let root = reading.root(&document.root);
        let fields = ["apiVersion", "kind", "spec", "status"];
        let read = root.object(&fields, |name, item| match name {
            "spec" => spec.read(version, item),
            _ => Ok(()),
        });
        read.map_err(InvalidField::from)?;
        Ok((version, spec, reading.into_issues()))
    }

    /// The cluster, for plugins that cannot work without it.
    pub fn required_cluster(&self) -> Result<&ExecCluster, NoClusterInformation> {
        self.cluster.as_ref().ok_or(NoClusterInformation)
    }

    /// `"spec":{…}` as the version writes it.
    pub(super) fn write(&self, version: ExecVersion, json: &mut JsonWriter) {
        json.field("spec").open('{');
        match version.spec_fields() {
            SpecFields::Cluster => {
                if let Some(cluster) = &self.cluster {
                    json.field("cluster");
                    cluster.write(json);
                }
                json.field("interactive").raw(if self.interactive { "true" } else { "false" });
            }
            SpecFields::Response => {
                if let Some(response) = &self.response {
                    json.field("response");
                    response.write(json);
                }
                json.field_if_true("interactive", self.interactive);
            }
        }
        json.close('}');
    }

    pub(super) fn read(&mut self, version: ExecVersion, item: Item<'_>) -> Result<(), FieldError> {
        let fields: &FieldTable<Self> = match version.spec_fields() {
            SpecFields::Cluster => &[
                ("cluster", |spec, item| read_pointer(&mut spec.cluster, item, ExecCluster::read)),
                ("interactive", Self::read_interactive),
            ],
            SpecFields::Response => &[
                ("response", |spec, item| {
                    read_pointer(&mut spec.response, item, ExecResponse::read)
                }),
                ("interactive", Self::read_interactive),
            ],
        };
        item.read_fields(fields, self).map(drop)
    }

    fn read_interactive(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        self.interactive = item.bool()?.unwrap_or(self.interactive);
        Ok(())
    }
}

/// Go's rule for pointers: null empties them, an object fills what is there already.
pub(super) fn read_pointer<T: Default>(
    target: &mut Option<T>,
    item: Item<'_>,
    read: impl FnOnce(&mut T, Item<'_>) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    if item.is_null() {
        *target = None;
        return Ok(());
    }
    read(target.get_or_insert_default(), item)
}

fn group_kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// Why a plugin cannot read what the client told it. It never quotes the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExecInfoError {
    /// It is neither JSON nor YAML.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It is some other object.
    #[error("invalid group/kind: wanted {KIND}.{GROUP}, got {0}")]
    OtherKind(SeenName),
    /// It is of no known version.
    #[error("version {0} is not supported")]
    Version(SeenName),
    /// A field is of the wrong type.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

/// The client did not describe the cluster; `provideClusterInfo` in the kubeconfig asks it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("ExecCredential does not contain cluster information")]
#[non_exhaustive]
pub struct NoClusterInformation;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawJson;

    fn full() -> ExecCredentialSpec {
        ExecCredentialSpec {
            cluster: Some(ExecCluster {
                server: "https://c".into(),
                tls_server_name: "n".into(),
                insecure_skip_tls_verify: true,
                certificate_authority_data: b"pem".to_vec(),
                proxy_url: "http://u:hunter2@p".into(),
                disable_compression: true,
                config: Some(RawJson::parse(r#"{"hunter2": [1]}"#).unwrap()),
            }),
            interactive: true,
            response: Some(ExecResponse {
                header: [("Www-Authenticate".into(), vec!["hunter2".into()])].into(),
                code: 401,
            }),
        }
    }

    fn text(spec: &ExecCredentialSpec, version: ExecVersion) -> String {
        String::from_utf8(spec.encode(version).expose().clone()).unwrap()
    }

    #[test]
    fn each_version_carries_what_it_can() {
        assert_eq!(
            text(&full(), ExecVersion::V1Beta1),
            "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"spec\":{\"cluster\":{\
             \"server\":\"https://c\",\"tls-server-name\":\"n\",\"insecure-skip-tls-verify\":true,\
             \"certificate-authority-data\":\"cGVt\",\"proxy-url\":\"http://u:hunter2@p\",\"disable-compression\":true,\
             \"config\":{\"hunter2\":[1]}},\"interactive\":true}}\n"
        );
        assert_eq!(
            text(&full(), ExecVersion::V1Alpha1),
            "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1alpha1\",\"spec\":{\"response\":{\
             \"header\":{\"Www-Authenticate\":[\"hunter2\"]},\"code\":401},\"interactive\":true}}\n"
        );
    }

    #[test]
    fn what_was_written_is_read() {
        for version in ExecVersion::ALL {
            let (seen, spec) = ExecCredentialSpec::decode(full().encode(version).expose()).unwrap();
            assert_eq!(seen, version);
            assert_eq!(text(&spec, version), text(&full(), version));
        }
    }

    #[test]
    fn debug_hides_urls_and_contents() {
        assert!(!format!("{:?}", full()).contains("hunter2"));
    }

    #[test]
    fn another_kind_is_named() {
        let error =
            ExecCredentialSpec::decode(br#"{"kind":"Status","apiVersion":"v1"}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid group/kind: wanted ExecCredential.client.authentication.k8s.io, got Status"
        );
    }
}
