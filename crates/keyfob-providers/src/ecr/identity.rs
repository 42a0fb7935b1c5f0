//! Who asks ECR: the node, or the role of the pod's service account.

use std::{error::Error, time::Duration};

use aws_config::{
    SdkConfig,
    ecs::EcsCredentialsProvider,
    environment::EnvironmentVariableCredentialsProvider,
    imds::{self, client::error::ImdsError, credentials::ImdsCredentialsProvider},
    meta::credentials::CredentialsProviderChain,
    profile::ProfileFileCredentialsProvider,
    provider_config::ProviderConfig,
    web_identity_token::WebIdentityTokenCredentialsProvider,
};
use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials as _, error::CredentialsError},
};
use keyfob_api::Secret;
use keyfob_plugin::{Call, Doing as _, Failure};

use super::{process::CredentialProcess, profiles::Profiles, told};
use crate::World;

/// What AWS calls the session in its logs; the peer's name, because policies may ask for it.
const SESSION: &str = "ecr-credential-provider";

/// The identity of the node, by the chain that every AWS program has.
pub(super) async fn of_the_node(
    world: &World,
    config: &SdkConfig,
    call: &Call,
) -> Result<Credentials, Failure> {
    call.step("looking for AWS credentials of this node");
    let found = chain(world, config, call).await.provide_credentials().await;
    let credentials = match found {
        Err(CredentialsError::CredentialsNotLoaded(_)) => Err(Failure::new(
            "this node has none: neither AWS_ACCESS_KEY_ID, a profile, AWS_WEB_IDENTITY_TOKEN_FILE, a container's nor \
             the instance's metadata service gave any",
        )),
        found => found.map_err(unloaded),
    };
    Ok(hidden(credentials.doing("loading AWS credentials")?, call))
}

/// The error of the instance's metadata service quotes the whole of its answer.
fn unloaded(error: CredentialsError) -> Failure {
    let mut causes = std::iter::successors(error.source(), |cause| (**cause).source());
    let refusal = causes.find_map(|cause| match cause.downcast_ref() {
        Some(ImdsError::ErrorResponse(refusal)) => Some(refusal.response().status().as_u16()),
        _ => None,
    });
    match refusal {
        Some(status) => Failure::new(format!(
            "the instance's metadata service responded with status code {status}"
        )),
        None => Failure::from(error),
    }
}

/// The identity of a role, for the pod's token.
pub(super) async fn of_the_role(
    arn: &str,
    token: &Secret<String>,
    config: &SdkConfig,
    call: &Call,
) -> Result<Credentials, Failure> {
    let failed = |what: &str| Failure::new(format!("failed to assume role: {what} ({arn})"));
    call.step("asking STS for the role");
    let answer = aws_sdk_sts::Client::new(config)
        .assume_role_with_web_identity()
        .role_arn(arn)
        .role_session_name(SESSION)
        .web_identity_token(token.expose())
        .send()
        .await
        .map_err(|error| failed(&told(&error)))?;
    let issued = answer.credentials().ok_or_else(|| failed("STS answered without credentials"))?;
    let credentials = Credentials::new(
        issued.access_key_id(),
        issued.secret_access_key(),
        Some(issued.session_token().to_owned()),
        None,
        SESSION,
    );
    Ok(hidden(credentials, call))
}

/// `aws-config`'s default chain, in its order: its own could not be given a `credential_process` of ours, nor a limit for
/// an instance metadata service that is not there.
async fn chain(world: &World, config: &SdkConfig, call: &Call) -> CredentialsProviderChain {
    let configured = provider_config(config);
    let imds = || {
        let client = imds::Client::builder()
            .configure(&configured)
            .connect_timeout(Duration::from_millis(500))
            .read_timeout(Duration::from_millis(1500))
            .build();
        ImdsCredentialsProvider::builder().configure(&configured).imds_client(client).build()
    };
    let Profiles { files, processes } = Profiles::load().await;
    let mut profile = ProfileFileCredentialsProvider::builder()
        .configure(&configured)
        .profile_files(files)
        .with_custom_provider("Ec2InstanceMetadata", imds());
    for process in processes {
        let (world, call) = (world.clone(), call.clone());
        let run =
            CredentialProcess { profile: process.profile, command: process.command, world, call };
        profile = profile.with_custom_provider(process.source, run);
    }
    let web_identity =
        WebIdentityTokenCredentialsProvider::builder().configure(&configured).build();
    let container = EcsCredentialsProvider::builder().configure(&configured).build();
    CredentialsProviderChain::first_try(
        "Environment",
        EnvironmentVariableCredentialsProvider::new(),
    )
    .or_else("Profile", profile.build())
    .or_else("WebIdentityToken", web_identity)
    .or_else("EcsContainer", container)
    .or_else("Ec2InstanceMetadata", imds())
}

/// The same settings, for the parts of the chain that ask somebody.
fn provider_config(config: &SdkConfig) -> ProviderConfig {
    let mut provider = ProviderConfig::without_region()
        .with_region(config.region().cloned())
        .with_use_fips(config.use_fips())
        .with_use_dual_stack(config.use_dual_stack());
    if let Some(http) = config.http_client() {
        provider = provider.with_http_client(http);
    }
    if let Some(retry) = config.retry_config() {
        provider = provider.with_retry_config(retry.clone());
    }
    if let Some(timeout) = config.timeout_config() {
        provider = provider.with_timeout_config(timeout.clone());
    }
    provider
}

fn hidden(credentials: Credentials, call: &Call) -> Credentials {
    let secrets = [Some(credentials.secret_access_key()), credentials.session_token()];
    secrets.into_iter().flatten().for_each(|secret| call.hide(&Secret::from(secret)));
    credentials
}
