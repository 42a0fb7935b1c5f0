//! Tokens of Microsoft Entra ID, by Azure's own library.

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use azure_core::{
    cloud::CustomConfiguration,
    credentials::TokenCredential,
    error::ErrorKind,
    http::{ClientMethodOptions, ClientOptions, RetryOptions, Transport, Url},
};
use azure_identity::{
    ClientAssertion, ClientAssertionCredential, ClientAssertionCredentialOptions,
    ClientSecretCredential, ClientSecretCredentialOptions, ManagedIdentityCredential,
    ManagedIdentityCredentialOptions, UserAssignedId,
};
use keyfob_api::Secret;
use keyfob_plugin::{Call, Doing as _, Failure};

use super::{SCOPE, azure_json::Managed};
use crate::http::{Http, HttpError, azure::AzureTransport};

/// Where to ask, and how.
#[derive(Debug)]
pub(super) struct Entra<'a> {
    pub(super) authority: &'a str,
    /// The metadata service, if it is not where it usually is.
    pub(super) imds: Option<Url>,
    pub(super) http: &'a Http,
    pub(super) call: &'a Call,
}

impl Entra<'_> {
    /// As one of the node's managed identities.
    pub(super) async fn managed(&self, identity: Managed) -> Result<Secret<String>, Failure> {
        self.call.step("asking the metadata service for a token of the node's identity");
        let user_assigned_id = match identity {
            Managed::SystemAssigned => None,
            Managed::ClientId(id) => Some(UserAssignedId::ClientId(id)),
            Managed::ResourceId(id) => Some(UserAssignedId::ResourceId(id)),
        };
        let client_options = self.options();
        let options = ManagedIdentityCredentialOptions { user_assigned_id, client_options };
        let token = token(ManagedIdentityCredential::new(Some(options))).await;
        token.doing("the node's managed identity")
    }

    /// As an application with a secret.
    pub(super) async fn principal(
        &self,
        tenant_id: &str,
        client_id: String,
        secret: &Secret<String>,
    ) -> Result<Secret<String>, Failure> {
        self.call.step("asking Microsoft Entra ID for a token of the service principal");
        let options = ClientSecretCredentialOptions { client_options: self.options() };
        let secret = secret.expose().clone().into();
        let credential = ClientSecretCredential::new(tenant_id, client_id, secret, Some(options));
        token(credential).await.doing("the service principal of azure.json")
    }

    /// As an application that trusts whoever issued this token.
    pub(super) async fn federated(
        &self,
        tenant_id: String,
        client_id: String,
        token_of_cluster: Secret<String>,
    ) -> Result<Secret<String>, Failure> {
        self.call.step("asking Microsoft Entra ID to trade the cluster's token");
        let options = ClientAssertionCredentialOptions { client_options: self.options() };
        let assertion = Assertion(token_of_cluster);
        let credential =
            ClientAssertionCredential::new(tenant_id, client_id, assertion, Some(options));
        token(credential).await.doing("the federated identity")
    }

    fn options(&self) -> ClientOptions {
        let (http, call) = (self.http.clone(), self.call.clone());
        let transport = AzureTransport::new(http, call, self.imds.clone());
        let mut cloud = CustomConfiguration::default();
        self.authority.clone_into(&mut cloud.authority_host);
        ClientOptions {
            transport: Some(Transport::new(Arc::new(transport))),
            retry: RetryOptions::none(),
            cloud: Some(Arc::new(cloud.into())),
            ..ClientOptions::default()
        }
    }
}

#[derive(Debug)]
struct Assertion(Secret<String>);

#[async_trait]
impl ClientAssertion for Assertion {
    async fn secret(&self, _: Option<ClientMethodOptions<'_>>) -> azure_core::Result<String> {
        Ok(self.0.expose().clone())
    }
}

async fn token<C: TokenCredential>(
    credential: azure_core::Result<Arc<C>>,
) -> Result<Secret<String>, Failure> {
    let credential = credential.map_err(|error| told(&error))?;
    let token = credential.get_token(&[SCOPE], None).await.map_err(|error| told(&error))?;
    let token = Secret::new(token.token.secret().to_owned());
    if token.expose().is_empty() {
        return Err(Failure::new("the answer holds no access token"));
    }
    Ok(token)
}

/// What is to be said of an error: ours if it is one of ours, for theirs may quote what was read.
fn told(error: &azure_core::Error) -> Failure {
    let mut cause: Option<&dyn Error> = Some(error);
    let mut innermost = error;
    while let Some(below) = cause {
        if let Some(error) = below.downcast_ref::<HttpError>() {
            return error.clone().into();
        }
        innermost = below.downcast_ref().unwrap_or(innermost);
        cause = below.source();
    }
    match innermost.kind() {
        ErrorKind::DataConversion => Failure::new("the answer is not the JSON that was expected"),
        _ => Failure::new(innermost.to_string()),
    }
}
