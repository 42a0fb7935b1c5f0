//! From an image to its login.

use std::path::{Path, PathBuf};

use keyfob_api::Secret;
use keyfob_exec::read_bounded;
use keyfob_plugin::{Answer, Call, Doing as _, Failure, ImageCredentials, ImageRequest};
use reqwest::Url;

use super::{
    LARGEST_FILE, answer,
    azure_json::{AzureJson, NodeIdentity},
    bindings::Bindings,
    cloud::Cloud,
    entra::Entra,
    exchange::{self, EntraToken},
    identity::{Identity, Pod},
    login_server::LoginServer,
    mirror::Mirrors,
    variable,
};
use crate::{World, fallback::Fallback, http::Http};

/// What the command line asks for.
#[derive(Debug)]
pub(super) struct Acr {
    pub(super) config_file: PathBuf,
    pub(super) mirrors: Mirrors,
    pub(super) principal: Principal,
    pub(super) bindings: Option<Bindings>,
    pub(super) fallback: Fallback,
    pub(super) http: Http,
    pub(super) imds: Option<Url>,
    pub(super) world: World,
}

/// What becomes of a service principal's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Principal {
    Traded,
    HandedOut,
}

impl ImageCredentials for Acr {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let call = request.call();
        let config = AzureJson::load(&self.config_file)?;
        let cloud = Cloud::of(&config, &*self.world.environment, &self.http, call).await?;
        let pulled = self.mirrors.apply(request.image());
        let Some(login) = LoginServer::of(&pulled.image, &cloud.registry_suffix) else {
            return Ok(Answer::nothing());
        };
        let identity =
            Identity::chosen(&pulled, self.bindings.as_ref(), Pod::of(request), self.fallback)?;
        // What a mirror stands in for is no registry of Azure's: it never gets the secret itself.
        if (self.principal, &identity, &pulled.source)
            == (Principal::HandedOut, &Identity::Node, &None)
            && let NodeIdentity::ServicePrincipal { client_id, secret } = self.node(&config)?
        {
            return Ok(answer::untraded(login, &cloud, &client_id, &secret));
        }
        let token = self.token(identity, &config, &cloud, call).await?;
        call.hide(&token.token);
        let refresh_token = exchange::refresh_token(&login, &token, &self.http, call).await?;
        call.hide(&refresh_token);
        Ok(answer::traded(login, pulled, &refresh_token, call.now()))
    }
}

impl Acr {
    fn node(&self, config: &AzureJson) -> Result<NodeIdentity, Failure> {
        config.node_identity(&*self.world.environment)
    }

    async fn token(
        &self,
        identity: Identity,
        config: &AzureJson,
        cloud: &Cloud,
        call: &Call,
    ) -> Result<EntraToken, Failure> {
        let (imds, http) = (self.imds.clone(), &self.http);
        let entra = Entra { authority: &cloud.authority, imds, http, call };
        match identity {
            Identity::Node => self.token_of_node(config, entra).await,
            Identity::Pod { client_id, tenant_id: tenant, token } => {
                let token = entra.federated(tenant.clone(), client_id, token).await?;
                Ok(EntraToken { token, tenant })
            }
            Identity::Bound { bindings, client_id, tenant_id, token } => {
                let token = bindings.token(&client_id, &token, call).await?;
                let tenant = tenant_id.unwrap_or_else(|| config.tenant_id.clone());
                Ok(EntraToken { token, tenant })
            }
        }
    }

    async fn token_of_node(
        &self,
        config: &AzureJson,
        entra: Entra<'_>,
    ) -> Result<EntraToken, Failure> {
        let tenant = Some(config.tenant_id.clone()).filter(|tenant| !tenant.is_empty());
        let tenant = tenant.or_else(|| variable(&*self.world.environment, "AZURE_TENANT_ID"));
        let known = || tenant.clone().ok_or_else(|| Failure::new("azure.json has no tenantId"));
        let token = match self.node(config)? {
            NodeIdentity::Managed(identity) => entra.managed(identity).await?,
            NodeIdentity::ServicePrincipal { client_id, secret } => {
                entra.call.hide(&secret);
                entra.principal(&known()?, client_id, &secret).await?
            }
            NodeIdentity::Federated { client_id, token_file } => {
                let token = federated_token(&token_file)
                    .doing(format!("reading the federated token {token_file}"))?;
                entra.call.hide(&token);
                entra.federated(known()?, client_id, token).await?
            }
        };
        Ok(EntraToken { token, tenant: tenant.unwrap_or_default() })
    }
}

fn federated_token(file: &str) -> Result<Secret<String>, Failure> {
    let text = read_bounded(Path::new(file), LARGEST_FILE)?;
    Ok(Secret::from(str::from_utf8(text.expose())?.trim()))
}
