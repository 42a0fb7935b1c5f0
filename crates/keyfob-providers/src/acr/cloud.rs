//! Which of Azure's clouds the node is in.

use std::path::Path;

use keyfob_api::document::{Document, FieldTable, Reading};
use keyfob_exec::{Environment, read_bounded};
use keyfob_plugin::{Call, Doing as _, Failure};
use serde::Deserialize;

use super::{LARGEST_FILE, azure_json::AzureJson, variable};
use crate::http::{Http, Reply};

/// The cloud whose description is in a file.
const STACK: &str = "AZURESTACKCLOUD";
const STACK_FILE: &str = "AZURE_ENVIRONMENT_FILEPATH";

/// Where a cloud's tokens come from, and how its registries are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cloud {
    /// Of Microsoft Entra ID, with its scheme.
    pub(super) authority: String,
    /// Of its login servers.
    pub(super) registry_suffix: String,
}

/// A cloud, as its resource manager describes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Described {
    name: String,
    authentication: Authentication,
    suffixes: Suffixes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Authentication {
    login_endpoint: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Suffixes {
    acr_login_server: Option<String>,
}

impl Cloud {
    const FIELDS: &FieldTable<Self> = &[
        ("activeDirectoryEndpoint", |cloud, item| item.read_text(&mut cloud.authority)),
        ("containerRegistryDNSSuffix", |cloud, item| item.read_text(&mut cloud.registry_suffix)),
    ];

    /// The cloud that `azure.json` names or points to.
    pub(super) async fn of(
        config: &AzureJson,
        environment: &dyn Environment,
        http: &Http,
        call: &Call,
    ) -> Result<Self, Failure> {
        let stack_file = variable(environment, STACK_FILE);
        let cloud = match (config.cloud.trim().eq_ignore_ascii_case(STACK), stack_file) {
            (true, Some(file)) => Self::of_file(Path::new(&file))?,
            (true, None) if config.resource_manager_endpoint.is_empty() => {
                return Err(Failure::new(format!(
                    "cloud {STACK} needs a description of it: name its file with {STACK_FILE}"
                )));
            }
            _ => Self::named(&config.cloud),
        };
        if config.resource_manager_endpoint.is_empty() {
            return Ok(cloud);
        }
        cloud.described(config, http, call).await
    }

    /// A cloud of Microsoft's; an unknown name is the public one, as upstream.
    fn named(name: &str) -> Self {
        let (authority, registry_suffix) = match name.trim().to_uppercase().as_str() {
            "AZURECHINACLOUD" => ("https://login.chinacloudapi.cn", "azurecr.cn"),
            "AZUREUSGOVERNMENT" | "AZUREUSGOVERNMENTCLOUD" => {
                ("https://login.microsoftonline.us", "azurecr.us")
            }
            _ => ("https://login.microsoftonline.com", "azurecr.io"),
        };
        Self { authority: authority.into(), registry_suffix: registry_suffix.into() }
    }

    fn of_file(path: &Path) -> Result<Self, Failure> {
        let doing = format!("reading the cloud's description in {}", path.display());
        let text = read_bounded(path, LARGEST_FILE).doing(&doing)?;
        let document = Document::read(text.expose()).doing(&doing)?;
        let mut cloud = Self::named("");
        Reading::default()
            .root(&document.root)
            .read_fields_in_any_case(Self::FIELDS, &mut cloud)
            .doing(doing)?;
        Ok(cloud)
    }

    /// With what the cloud's resource manager says of it.
    async fn described(
        mut self,
        config: &AzureJson,
        http: &Http,
        call: &Call,
    ) -> Result<Self, Failure> {
        let endpoint = config.resource_manager_endpoint.trim_end_matches('/');
        // Whoever answers says where the secrets go.
        if !endpoint.starts_with("https://") {
            return Err(Failure::new(
                "resourceManagerEndpoint of azure.json must be an https address",
            ));
        }
        call.step("asking the resource manager for the cloud's endpoints");
        let url = format!("{endpoint}/metadata/endpoints?api-version=2019-05-01");
        let reply = http.get(url).send(call).await.and_then(Reply::success)?;
        let name = config.cloud.trim();
        let mut clouds = reply.json::<Vec<Described>>()?.into_iter();
        let this = clouds.find(|cloud| name.is_empty() || cloud.name.eq_ignore_ascii_case(name));
        if let Some(Described { authentication, suffixes, .. }) = this {
            self.authority = authentication.login_endpoint;
            self.registry_suffix = suffixes.acr_login_server.unwrap_or(self.registry_suffix);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_is_known_by_name_and_the_public_one_by_any_other() {
        let rows = [
            ("AzurePublicCloud", "https://login.microsoftonline.com", "azurecr.io"),
            ("AZURECLOUD", "https://login.microsoftonline.com", "azurecr.io"),
            ("", "https://login.microsoftonline.com", "azurecr.io"),
            ("AzureGermanCloud", "https://login.microsoftonline.com", "azurecr.io"),
            ("AzureUSGovernmentCloud", "https://login.microsoftonline.us", "azurecr.us"),
            ("azureusgovernment", "https://login.microsoftonline.us", "azurecr.us"),
            ("AzureChinaCloud ", "https://login.chinacloudapi.cn", "azurecr.cn"),
        ];
        for (name, authority, suffix) in rows {
            let expected = Cloud { authority: authority.into(), registry_suffix: suffix.into() };
            assert_eq!(Cloud::named(name), expected, "{name}");
        }
    }
}
