//! `acr-credential-provider`: Azure Container Registry.
//!
//! A token of Microsoft Entra ID, for the node or for the pod, is traded at the registry for a refresh token of a few
//! hours, and that is the password. The answer has one exact key, and the source's when the image is mirrored.
//!
//! Upstream: `cloud-provider-azure`, `pkg/credentialprovider`. Where it hands out a service principal's own secret for
//! every registry of every cloud, ours trades it too (unless told otherwise); a pod's token is used whatever
//! `azure.json` says of the node; and the trade names the tenant of whoever got the token, not always the node's.

mod answer;
mod azure_json;
mod bindings;
mod challenge;
mod cloud;
mod entra;
mod exchange;
mod identity;
mod login_server;
mod mirror;
mod provider;

use clap::Parser;
use keyfob_plugin::{Doing as _, Failure, ImageCredentials};

use self::{
    bindings::BindingsArgs,
    mirror::Mirrors,
    provider::{Acr, Principal},
};
use crate::{
    CommonArgs, Provider, ProviderArgs, World,
    fallback::Fallback,
    http::{Http, HttpArgs},
    klog::Klog,
    program,
    world::variable,
};

pub(crate) const PROVIDER: Provider = Provider {
    name: "acr",
    program: "acr-credential-provider",
    about: "Azure Container Registry",
    match_images: &[
        "*.azurecr.io",
        "*.azurecr.cn",
        "*.azurecr.de",
        "*.azurecr.us",
        "*.*.geo.azurecr.io",
        "*.*.geo.azurecr.cn",
        "*.*.geo.azurecr.de",
        "*.*.geo.azurecr.us",
    ],
    default_cache_duration: "10m",
    args: &[CONFIG_FILE],
    needs_token: false,
    run: program::run::<Args>,
    annotations: program::annotations::<Args>,
};

const CONFIG_FILE: &str = "/etc/kubernetes/azure.json";
/// Neither `azure.json` nor a token comes near this.
const LARGEST_FILE: u64 = 1 << 20;
const SCOPE: &str = "https://containerregistry.azure.net/.default";

/// Logs in to Azure Container Registry: as the node (managed identity, service principal or federated identity, by its
/// azure.json), or as the pod whose token is sent, by workload identity.
#[derive(Debug, Parser)]
#[command(
    name = PROVIDER.program,
    version,
    mut_arg("words", |words| words
        .value_name("AZURE_JSON")
        .help("The node's azure.json [default: $AZURE_CONFIG_FILE, or /etc/kubernetes/azure.json]")),
    after_help = "Service account annotations, both needed with the pod's token:
  kubernetes.azure.com/acr-client-id, kubernetes.azure.com/acr-tenant-id

Further environment variables:
  AZURE_CONFIG_FILE           azure.json, if no argument names it
  AZURE_ENVIRONMENT_FILEPATH  the description of the cloud, for cloud AZURESTACKCLOUD
  AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID, AZURE_TENANT_ID
                              a federated identity, where azure.json leaves it out
  AZURE_IMDS_ENDPOINT         http://HOST:PORT of the metadata service, if not 169.254.169.254
  HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY"
)]
#[non_exhaustive]
pub struct Args {
    /// Registries that stand in for others. Images of the source get the login of the target, as the node.
    #[arg(
        short = 'r',
        long,
        value_name = "SOURCE:TARGET[,...]",
        default_value = "",
        hide_default_value = true,
        env = "KEYFOB_ACR_REGISTRY_MIRROR",
        hide_env_values = true
    )]
    registry_mirror: String,
    /// Hand out the service principal's own secret, for all registries, as cloud-provider-azure does. For registries that
    /// do not take tokens of Microsoft Entra ID.
    #[arg(long, env = "KEYFOB_ACR_LEGACY_SERVICE_PRINCIPAL", hide_env_values = true)]
    legacy_service_principal: bool,
    /// Whose login a pod gets that has a token and names no identity.
    #[arg(
        long,
        value_enum,
        default_value_t = Fallback::None,
        env = "KEYFOB_ACR_FALLBACK",
        hide_env_values = true
    )]
    fallback: Fallback,
    #[command(flatten)]
    bindings: BindingsArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    _log: Klog,
    #[command(flatten)]
    common: CommonArgs,
}

impl ProviderArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn annotations(&self) -> Vec<String> {
        [identity::CLIENT_ID, identity::TENANT_ID].map(str::to_owned).into()
    }

    fn words(&self) -> Vec<String> {
        self.common.words.iter().filter(|word| is_verb(word)).cloned().collect()
    }

    fn provider(self, world: World) -> Result<impl ImageCredentials, Failure> {
        let environment = world.environment.as_ref();
        let mut files = self.common.words.iter().filter(|word| !is_verb(word));
        let named = files.next().cloned().or_else(|| variable(environment, "AZURE_CONFIG_FILE"));
        if files.next().is_some() {
            return Err(Failure::new("there is one azure.json, but several were named"));
        }
        let imds = variable(environment, "AZURE_IMDS_ENDPOINT");
        let imds = imds.map(|url| url.parse()).transpose().doing("reading AZURE_IMDS_ENDPOINT")?;
        Ok(Acr {
            config_file: named.unwrap_or_else(|| CONFIG_FILE.into()).into(),
            mirrors: Mirrors::parse(&self.registry_mirror)?,
            principal: if self.legacy_service_principal {
                Principal::HandedOut
            } else {
                Principal::Traded
            },
            bindings: self.bindings.checked()?,
            fallback: self.fallback,
            http: Http::new(&self.http, environment),
            imds,
            world,
        })
    }
}

/// What kubelets and docker clients say, and what is therefore no file.
fn is_verb(word: &str) -> bool {
    matches!(word, "get-credentials" | "get" | "store" | "erase" | "list" | "version")
}
