//! The node's `azure.json`.
//!
//! Upstream: `sigs.k8s.io/yaml` into a Go struct, so YAML does as well as JSON, and names are not case-sensitive.

use std::path::Path;

use keyfob_api::{
    Secret,
    document::{Document, FieldTable, Reading},
};
use keyfob_exec::{Environment, read_bounded};
use keyfob_plugin::{Doing as _, Failure};

use super::{LARGEST_FILE, variable};

/// The fields of `azure.json` that are about registries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AzureJson {
    pub(super) cloud: String,
    pub(super) tenant_id: String,
    pub(super) resource_manager_endpoint: String,
    client_id: String,
    client_secret: Secret<String>,
    client_certificate: String,
    federated_token_file: String,
    user_assigned_identity: String,
    managed_identity: bool,
    federated_identity: bool,
}

/// Who the node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeIdentity {
    /// What the metadata service knows it as.
    Managed(Managed),
    /// An application with a secret.
    ServicePrincipal { client_id: String, secret: Secret<String> },
    /// An application that trusts the issuer of a token in a file.
    Federated { client_id: String, token_file: String },
}

/// Which of the node's managed identities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Managed {
    SystemAssigned,
    ClientId(String),
    ResourceId(String),
}

impl AzureJson {
    const FIELDS: &FieldTable<Self> = &[
        ("cloud", |config, item| item.read_text(&mut config.cloud)),
        ("tenantId", |config, item| item.read_text(&mut config.tenant_id)),
        ("resourceManagerEndpoint", |config, item| {
            item.read_text(&mut config.resource_manager_endpoint)
        }),
        ("aadClientId", |config, item| item.read_text(&mut config.client_id)),
        ("aadClientSecret", |config, item| item.read_secret(&mut config.client_secret)),
        ("aadClientCertPath", |config, item| item.read_text(&mut config.client_certificate)),
        ("aadFederatedTokenFile", |config, item| item.read_text(&mut config.federated_token_file)),
        ("userAssignedIdentityID", |config, item| {
            item.read_text(&mut config.user_assigned_identity)
        }),
        ("useManagedIdentityExtension", |config, item| {
            item.read_bool(&mut config.managed_identity)
        }),
        ("useFederatedWorkloadIdentityExtension", |config, item| {
            item.read_bool(&mut config.federated_identity)
        }),
    ];

    /// Reads the file.
    pub(super) fn load(path: &Path) -> Result<Self, Failure> {
        let doing = format!("failed to load config {}", path.display());
        let text = read_bounded(path, LARGEST_FILE).doing(&doing)?;
        Self::read(text.expose()).doing(doing)
    }

    fn read(text: &[u8]) -> Result<Self, Failure> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        // What is almost JSON may be YAML: a trailing comma is allowed there.
        let document = Document::read(text).or_else(|error| match Document::read_yaml(text) {
            Ok(document) => Ok(document),
            Err(_) => Err(error),
        })?;
        let mut config = Self::default();
        Reading::default()
            .root(&document.root)
            .read_fields_in_any_case(Self::FIELDS, &mut config)?;
        Ok(config)
    }

    /// Who the node is by this file, or by the environment of a federated workload.
    pub(super) fn node_identity(
        &self,
        environment: &dyn Environment,
    ) -> Result<NodeIdentity, Failure> {
        if self.managed_identity {
            return Ok(NodeIdentity::Managed(self.managed()));
        }
        let or = |text: &String, name| {
            Some(text)
                .filter(|text| !text.is_empty())
                .cloned()
                .or_else(|| variable(environment, name))
        };
        let client_id = or(&self.client_id, "AZURE_CLIENT_ID");
        let client_id = client_id.ok_or_else(|| {
            Failure::new(
                "azure.json names no identity: set useManagedIdentityExtension, or aadClientId and aadClientSecret",
            )
        })?;
        if !self.client_secret.expose().is_empty() && !self.federated_identity {
            return Ok(NodeIdentity::ServicePrincipal {
                client_id,
                secret: self.client_secret.clone(),
            });
        }
        if let Some(token_file) = or(&self.federated_token_file, "AZURE_FEDERATED_TOKEN_FILE") {
            return Ok(NodeIdentity::Federated { client_id, token_file });
        }
        Err(Failure::new(if self.client_certificate.is_empty() {
            "azure.json has neither aadClientSecret nor aadFederatedTokenFile for aadClientId"
        } else {
            "azure.json asks for a login by aadClientCertPath, which is not supported: use aadClientSecret, a federated \
             token or a managed identity"
        }))
    }

    fn managed(&self) -> Managed {
        let id = self.user_assigned_identity.clone();
        if id.is_empty() {
            Managed::SystemAssigned
        } else if id.to_uppercase().contains("/SUBSCRIPTIONS/") {
            Managed::ResourceId(id)
        } else {
            Managed::ClientId(id)
        }
    }
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::{LeakCheck, MapEnvironment};

    use super::*;

    fn identity(text: &str) -> Result<NodeIdentity, String> {
        let read = AzureJson::read(text.as_bytes()).unwrap();
        read.node_identity(&MapEnvironment::default()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn names_are_not_case_sensitive_and_unknown_ones_do_not_matter() {
        let expected = AzureJson {
            tenant_id: "t".into(),
            managed_identity: true,
            user_assigned_identity: "u".into(),
            ..AzureJson::default()
        };
        for text in [
            r#"{"tenantId":"t","useManagedIdentityExtension":true,"userAssignedIdentityID":"u","vnetName":"v"}"#,
            r#"{"tenantID":"t","USEMANAGEDIDENTITYEXTENSION":true,"userassignedidentityid":"u","cloud":null}"#,
            "\u{feff}{\"tenantId\":\"t\",\"useManagedIdentityExtension\":true,\"userAssignedIdentityID\":\"u\"}",
            "{\"tenantId\":\"t\",\"useManagedIdentityExtension\":true,\"userAssignedIdentityID\":\"u\",}",
            "tenantId: t\nuseManagedIdentityExtension: true\nuserAssignedIdentityID: u\nexcludeMaster: [1]\n",
        ] {
            assert_eq!(AzureJson::read(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused_without_being_quoted() {
        let leaks = LeakCheck::new(["hunter2"]);
        for text in [
            "random-config-hunter2",
            "{invalid hunter2",
            r#"{"aadClientSecret":["hunter2"]}"#,
            "[]",
        ] {
            let failure = AzureJson::read(text.as_bytes()).unwrap_err();
            leaks.text("an error", &failure.to_string());
        }
    }

    #[test]
    fn the_node_is_who_the_file_says() {
        let managed = |id: &str| {
            identity(&format!(
                r#"{{"useManagedIdentityExtension":true,"userAssignedIdentityID":"{id}"}}"#
            ))
        };
        let resource = "/subscriptions/s/resourceGroups/g/providers/p/userAssignedIdentities/i";
        assert_eq!(managed(""), Ok(NodeIdentity::Managed(Managed::SystemAssigned)));
        assert_eq!(managed("id"), Ok(NodeIdentity::Managed(Managed::ClientId("id".into()))));
        let by_resource = Managed::ResourceId(resource.into());
        assert_eq!(managed(resource), Ok(NodeIdentity::Managed(by_resource)));
        let principal = identity(r#"{"aadClientId":"c","aadClientSecret":"s"}"#);
        let (client_id, secret) = ("c".to_owned(), "s".into());
        assert_eq!(principal, Ok(NodeIdentity::ServicePrincipal { client_id, secret }));
        let federated = identity(
            r#"{"aadClientId":"c","aadFederatedTokenFile":"/t","useFederatedWorkloadIdentityExtension":true}"#,
        );
        let (client_id, token_file) = ("c".to_owned(), "/t".to_owned());
        assert_eq!(federated, Ok(NodeIdentity::Federated { client_id, token_file }));
    }

    #[test]
    fn a_secret_that_is_there_counts_only_if_no_other_way_is_asked_for() {
        let managed = identity(
            r#"{"useManagedIdentityExtension":true,"aadClientId":"msi","aadClientSecret":"msi"}"#,
        );
        assert_eq!(managed, Ok(NodeIdentity::Managed(Managed::SystemAssigned)), "as AKS writes it");
        let federated = identity(
            r#"{"useFederatedWorkloadIdentityExtension":true,"aadClientId":"c","aadClientSecret":"s",
                "aadFederatedTokenFile":"/t"}"#,
        );
        assert!(matches!(federated, Ok(NodeIdentity::Federated { .. })), "{federated:?}");
    }

    #[test]
    fn a_workload_may_be_told_who_it_is_by_its_environment() {
        let environment: MapEnvironment =
            [("AZURE_CLIENT_ID", "c"), ("AZURE_FEDERATED_TOKEN_FILE", "/t")].into_iter().collect();
        let identity = AzureJson::read(b"{}").unwrap().node_identity(&environment).unwrap();
        let (client_id, token_file) = ("c".to_owned(), "/t".to_owned());
        assert_eq!(identity, NodeIdentity::Federated { client_id, token_file });
    }

    #[test]
    fn nobody_and_certificates_are_told_what_to_do() {
        for (text, expected) in [
            ("{}", "names no identity"),
            (r#"{"aadClientId":"c"}"#, "neither aadClientSecret nor aadFederatedTokenFile"),
            (r#"{"aadClientId":"c","aadClientCertPath":"/c"}"#, "not supported"),
        ] {
            let failure = identity(text).unwrap_err();
            assert!(failure.contains(expected), "{failure}");
        }
    }
}
