//! Service accounts and their tokens from a cluster's API server.
//!
//! Upstream: `pkg/kubelet/token/token_manager.go` and `serviceaccount.go` in `pkg/credentialprovider/plugin`, through
//! client-go.

mod answer;
mod error;

use std::{fmt, time::Duration};

use k8s_openapi::{
    api::{
        authentication::v1::{
            BoundObjectReference, TokenRequest as ApiTokenRequest, TokenRequestSpec,
        },
        core::v1::{Pod, ServiceAccount as ApiServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    serde::de::DeserializeOwned,
};
use keyfob_api::SecretSet;
use keyfob_exec::BoxFuture;
use keyfob_net::api_server::{ApiClient, ApiError, is_name};
use kube::{
    Client, Resource,
    api::{GetParams, PostParams},
    core::request::Request,
};

use self::answer::Object;
pub use self::error::KubernetesError;
use super::{IdentityError, PodReference, ServiceAccount, ServiceAccounts, Token, TokenRequest};

/// Accounts have annotations, and pods have much more; nothing that the API server keeps is as long.
const LONGEST_ANSWER: usize = 4 << 20;

const NOT_OF_KUBERNETES: &str = "its answer is not what an API server's would be";

/// The API server of a cluster. What it is asked, and what for:
///
/// - `get serviceaccounts`, before every run of a plugin;
/// - `create serviceaccounts/token`, bound to the pod, if the pull has one, and for the account of that uid only;
/// - `get pods`, if somebody asks for a pod's uid.
pub struct KubernetesApi {
    client: ApiClient,
    server: String,
    /// What the server was shown, and the tokens that it issued.
    secrets: SecretSet,
}

/// What a pull must know of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodRecord {
    /// The pod.
    pub reference: PodReference,
    /// `spec.serviceAccountName`.
    pub service_account: String,
    /// `spec.nodeName`; empty if it is not scheduled yet.
    pub node: String,
}

impl KubernetesApi {
    /// A cluster that is called `server` in errors: its address, mostly. Each request may take ten seconds. The client
    /// should not try again by itself (`default_retry`), or nobody learns what the server said.
    pub fn new(client: Client, server: impl Into<String>) -> Self {
        let client = ApiClient::new(client, LONGEST_ANSWER, Duration::from_secs(10));
        Self { client, server: server.into(), secrets: SecretSet::default() }
    }

    /// Hides these in errors, where the server repeats them: what the client shows to the server belongs here
    /// (`keyfob_client::Clients::secrets`).
    #[must_use]
    pub fn redacting(mut self, secrets: SecretSet) -> Self {
        self.secrets = secrets;
        self
    }

    /// How long each request may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.client = self.client.timeout(timeout);
        self
    }

    /// A pod as it is now.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<PodRecord, IdentityError> {
        let pod = self.object::<Pod>([namespace, name]).await?;
        let spec = pod.spec.unwrap_or_default();
        Ok(PodRecord {
            reference: PodReference { name: name.to_owned(), uid: self.uid(pod.metadata.uid)? },
            service_account: spec.service_account_name.unwrap_or_default(),
            node: spec.node_name.unwrap_or_default(),
        })
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<ServiceAccount, IdentityError> {
        let account = self.object::<ApiServiceAccount>([namespace, name]).await?;
        let annotations = account.metadata.annotations.unwrap_or_default();
        Ok(ServiceAccount { uid: self.uid(account.metadata.uid)?, annotations })
    }

    async fn new_token(&self, wanted: &TokenRequest) -> Result<Token, IdentityError> {
        let TokenRequest { namespace, service_account, .. } = wanted;
        let body = body(wanted, self.bound(wanted).await?);
        let body = serde_json::to_vec(&body).map_err(|error| self.unsent(error))?;
        let url = ApiServiceAccount::url_path(&(), Some(namespace));
        let post = PostParams::default();
        let request = Request::new(url).create_subresource("token", service_account, &post, body);
        let answer = self.ask(named(request, [namespace, service_account])?).await?;
        let token = answer::token(answer).map_err(|why| self.unclear(why))?;
        self.secrets.learn(&token.token);
        Ok(token)
    }

    /// The pod. If nobody gave its uid, the API server is asked: a node gets no token without it.
    async fn bound(&self, wanted: &TokenRequest) -> Result<Option<PodReference>, IdentityError> {
        match &wanted.pod {
            Some(pod) if pod.uid.is_empty() => {
                Ok(Some(self.pod(&wanted.namespace, &pod.name).await?.reference))
            }
            pod => Ok(pod.clone()),
        }
    }

    async fn object<K>(&self, names: [&str; 2]) -> Result<Object, IdentityError>
    where
        K: Resource<DynamicType = ()>,
    {
        let [namespace, name] = names;
        let url = K::url_path(&(), Some(namespace));
        let request = Request::new(url).get(name, &GetParams::default());
        let object: Object = self.ask(named(request, names)?).await?;
        match &object.kind {
            Some(kind) if *kind != K::kind(&()) => Err(self.unclear(NOT_OF_KUBERNETES)),
            _ => Ok(object),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<T, IdentityError> {
        let response = self.client.exchange(request).await;
        let response = response.map_err(|error| self.unanswered(error))?;
        if !response.status().is_success() {
            return Err(answer::refusal(&self.server, &response, &self.secrets));
        }
        response.json().map_err(|_| self.unclear(NOT_OF_KUBERNETES))
    }

    fn uid(&self, uid: Option<String>) -> Result<String, IdentityError> {
        uid.ok_or_else(|| self.unclear("its answer has no uid"))
    }

    fn unsent(&self, error: serde_json::Error) -> IdentityError {
        KubernetesError::Request { server: self.server.clone(), error }.into()
    }

    fn unanswered(&self, error: ApiError) -> IdentityError {
        let why = match &error {
            ApiError::NotAnswered(error) => answer::not_answered(error),
            error => error.to_string(),
        };
        let (server, why) = (self.server.clone(), self.secrets.redact(&why));
        KubernetesError::NoResponse { server, why, error }.into()
    }

    fn unclear(&self, why: &'static str) -> IdentityError {
        KubernetesError::Response { server: self.server.clone(), why }.into()
    }
}

impl ServiceAccounts for KubernetesApi {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        Box::pin(self.account(namespace, name))
    }

    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        Box::pin(self.new_token(request))
    }
}

impl fmt::Debug for KubernetesApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesApi").field("server", &self.server).finish_non_exhaustive()
    }
}

fn body(wanted: &TokenRequest, pod: Option<PodReference>) -> ApiTokenRequest {
    let uid = Some(wanted.service_account_uid.clone()).filter(|uid| !uid.is_empty());
    let bound = pod.map(|pod| BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.name),
        uid: Some(pod.uid),
    });
    ApiTokenRequest {
        metadata: ObjectMeta { uid, ..ObjectMeta::default() },
        spec: Some(TokenRequestSpec {
            audiences: Some(wanted.audiences.clone()),
            expiration_seconds: wanted.expiration_seconds,
            bound_object_ref: bound,
            ..TokenRequestSpec::default()
        }),
        status: None,
    }
}

/// A request whose names cannot lead anywhere else: they go into its path as they are.
fn named(
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    names: [&str; 2],
) -> Result<http::Request<Vec<u8>>, IdentityError> {
    request.ok().filter(|_| names.iter().all(|name| is_name(name))).ok_or_else(|| {
        let [namespace, name] = names;
        KubernetesError::Name { namespace: namespace.to_owned(), name: name.to_owned() }.into()
    })
}
