//! `auth-provider-gcp`: Google Artifact Registry and Container Registry.
//!
//! A drop-in for the plugin of that name, with its flags, its variables and its flows. Where it failed quietly this one
//! fails with the reason, and it keeps a token for as long as the token says, less five minutes: the metadata service
//! hands out the same token until then. A token of Google is offered to Google's hosts and to those that `--registry`
//! names, never to whatever host was asked for.

mod caching;
mod credentials_file;
mod docker_config;
mod impersonation;
mod library;
mod metadata;
mod registries;
mod service_account;
mod token;
mod workload_identity;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use keyfob_plugin::{Answer, Doing as _, Failure, ImageCredentials, ImageRequest};

use self::{
    caching::Caching, credentials_file::CredentialsFile, impersonation::Email, metadata::Metadata,
    token::Token, workload_identity::WorkloadIdentity,
};
use crate::{
    CommonArgs, Provider, ProviderArgs, World,
    http::{Http, HttpArgs, secure_address},
    klog::Klog,
    program,
    registry_pattern::RegistryPattern,
};

pub(crate) const PROVIDER: Provider = Provider {
    name: "gcp",
    program: "auth-provider-gcp",
    about: "Google Artifact Registry and Container Registry",
    match_images: &registries::GOOGLE,
    default_cache_duration: "1m",
    args: &["get-credentials"],
    needs_token: false,
    run: program::run::<Args>,
    annotations: program::annotations::<Args>,
};

/// What the token may be used for; the registries ask for no less.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Google Artifact Registry and Container Registry.
#[derive(Debug, Parser)]
#[command(name = PROVIDER.program, version, after_help = "\
Further variables:
  GCE_METADATA_HOST            HOST[:PORT] of the metadata service
  KUBE_SIDECAR_CACHE_TYPE      image, registry or global: for what an answer is kept (image)
  KUBE_SIDECAR_CACHE_DURATION  for how long, such as 30m, if the token lives so long (its life less 5m)
  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY  the way out; metadata services are asked directly")]
#[non_exhaustive]
pub struct Args {
    /// Where logins come from.
    #[arg(long = "authFlow", visible_alias = "auth-flow", value_enum, default_value_t = Flow::Gcr)]
    auth_flow: Flow,
    /// The cluster as Google knows it. Pods whose service account has the annotation
    /// `iam.gke.io/enable-wi-image-pull: "true"` then pull with their own identity.
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    identity_provider: String,
    /// The project of that cluster's workload identity pool.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    project_id: String,
    /// Trade a pod's own identity for that of this service account.
    #[arg(long, value_name = "EMAIL", requires = "identity_provider")]
    impersonate: Option<Email>,
    /// Trade it for that of the account in the annotation `iam.gke.io/gcp-service-account`, if the pod's has one. The
    /// kubelet must be told to send that annotation, as the configuration of `keyfob provider install` does.
    #[arg(long, requires = "identity_provider")]
    impersonate_from_annotation: bool,
    /// A file of Google's with credentials, in place of the node's identity: `external_account`, `service_account`,
    /// `impersonated_service_account` or `authorized_user`.
    #[arg(
        long,
        value_name = "FILE",
        env = "GOOGLE_APPLICATION_CREDENTIALS",
        hide_env_values = true
    )]
    credentials_file: Option<PathBuf>,
    /// Offer the token to this registry too, such as a domain of your own: a host with its port, `*` for parts of a label.
    /// Repeatable; in the variable, with commas between.
    #[arg(
        long,
        value_name = "HOST",
        value_delimiter = ',',
        env = "KEYFOB_GCP_REGISTRY",
        hide_env_values = true
    )]
    registry: Vec<RegistryPattern>,
    /// Another address of Google's token service.
    #[arg(long, value_name = "URL", default_value = "https://sts.googleapis.com/v1/token", env = "KEYFOB_GCP_STS_URL", hide_env_values = true, value_parser = secure_address)]
    sts_url: String,
    /// Another address of Google's service for impersonation.
    #[arg(long, value_name = "URL", default_value = "https://iamcredentials.googleapis.com", env = "KEYFOB_GCP_IAM_CREDENTIALS_URL", hide_env_values = true, value_parser = secure_address)]
    iam_credentials_url: String,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    _klog: Klog,
}

/// Where logins come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flow {
    /// A token for the identity of the node, of the pod, or of a file.
    Gcr,
    /// The docker configuration in the instance's metadata.
    Dockercfg,
    /// The docker configuration at the address in the instance's metadata.
    DockercfgUrl,
}

impl ProviderArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn annotations(&self) -> Vec<String> {
        let account = self.impersonate_from_annotation.then_some(workload_identity::ACCOUNT);
        [workload_identity::OPT_IN].into_iter().chain(account).map(str::to_owned).collect()
    }

    fn provider(self, world: World) -> Result<impl ImageCredentials, Failure> {
        let environment = world.environment.as_ref();
        let http = Http::new(&self.http, environment);
        let workload_identity = WorkloadIdentity::of(&self, http.clone())?;
        Ok(Gcp {
            flow: self.auth_flow,
            metadata: Metadata::new(http.clone(), environment),
            caching: Caching::of(environment)?,
            workload_identity,
            credentials_file: self.credentials_file.map(|path| {
                let ca_file = self.http.ca_file.is_some();
                CredentialsFile { path, http: http.clone(), ca_file }
            }),
            registries: self.registry,
            http,
        })
    }
}

#[derive(Debug)]
struct Gcp {
    flow: Flow,
    http: Http,
    metadata: Metadata,
    caching: Caching,
    workload_identity: Option<WorkloadIdentity>,
    credentials_file: Option<CredentialsFile>,
    registries: Vec<RegistryPattern>,
}

impl ImageCredentials for Gcp {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let answer = match self.flow {
            Flow::Gcr => {
                let token = self.token(request).await?;
                request.call().hide(&token.secret);
                token.answer(registries::one_more(request.registry(), &self.registries))
            }
            Flow::Dockercfg => docker_config::in_metadata(&self.metadata, request.call()).await?,
            Flow::DockercfgUrl => {
                docker_config::at_url(&self.metadata, &self.http, request.call()).await?
            }
        };
        Ok(self.caching.apply(answer))
    }
}

impl Gcp {
    /// A pod that asked to be itself is never served as someone else.
    async fn token(&self, request: &ImageRequest) -> Result<Token, Failure> {
        if let Some(identity) = &self.workload_identity
            && workload_identity::is_wanted_by(request)
        {
            return identity.token(request).await.doing("the pod's own identity");
        }
        match &self.credentials_file {
            Some(file) => file.token(request.call()).await,
            None => self.metadata.token(request.call()).await.doing("the node's identity"),
        }
    }
}
