//! `ecr-credential-provider`: Amazon ECR and ECR Public.
//!
//! The host of the image says which API to ask, in which region and partition; any other host is refused before anything
//! is asked. The identity is the node's, by AWS's usual chain, or, when the kubelet sends the pod's token, the role that
//! the service account's annotations name.

mod identity;
mod process;
mod profiles;
mod registry;
mod token;
mod words;

use std::{error::Error, time::Duration};

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use aws_credential_types::Credentials;
use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use clap::Parser;
use keyfob_exec::shortened;
use keyfob_plugin::{Answer, Failure, ImageCredentials, ImageRequest, Margin};

use self::{registry::Registry, token::Token};
use crate::{
    CommonArgs, Provider, ProviderArgs, World,
    fallback::Fallback,
    http::{AwsHttp, Http, HttpArgs},
    program,
    world::variable,
};

pub(crate) const PROVIDER: Provider = Provider {
    name: "ecr",
    program: "ecr-credential-provider",
    about: "Amazon ECR and ECR Public",
    match_images: &[
        "*.dkr.ecr.*.amazonaws.com",
        "*.dkr.ecr-fips.*.amazonaws.com",
        "*.dkr.ecr.*.amazonaws.com.cn",
        "*.dkr.ecr-fips.*.amazonaws.com.cn",
        "*.dkr.ecr.*.amazonaws.eu",
        "*.dkr.ecr-fips.*.amazonaws.eu",
        "*.dkr.ecr.*.c2s.ic.gov",
        "*.dkr.ecr-fips.*.c2s.ic.gov",
        "*.dkr.ecr.*.sc2s.sgov.gov",
        "*.dkr.ecr-fips.*.sc2s.sgov.gov",
        "*.dkr.ecr.*.cloud.adc-e.uk",
        "*.dkr.ecr-fips.*.cloud.adc-e.uk",
        "*.dkr.ecr.*.csp.hci.ic.gov",
        "*.dkr.ecr-fips.*.csp.hci.ic.gov",
        "*.dkr-ecr.*.on.aws",
        "*.dkr-ecr-fips.*.on.aws",
        "*.dkr-ecr.*.on.amazonwebservices.com.cn",
        "*.dkr-ecr-fips.*.on.amazonwebservices.com.cn",
        "public.ecr.aws",
        "ecr-public.aws.com",
    ],
    default_cache_duration: "12h",
    args: &[],
    needs_token: false,
    run: program::run::<Args>,
    annotations: program::annotations::<Args>,
};

/// The role for pulling.
const ECR_ROLE: &str = "eks.amazonaws.com/ecr-role-arn";
/// The role of the pod, which many may use for pulling too.
const POD_ROLE: &str = "eks.amazonaws.com/role-arn";

const VARIABLES: &str = "\
Also read from the environment, as by every AWS program:
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
  AWS_PROFILE, AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE (credential_process is run without a shell)
  AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME
  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, AWS_CONTAINER_CREDENTIALS_FULL_URI, AWS_CONTAINER_AUTHORIZATION_TOKEN[_FILE]
  AWS_EC2_METADATA_DISABLED, AWS_EC2_METADATA_SERVICE_ENDPOINT, AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE
  AWS_REGION, AWS_DEFAULT_REGION (for STS, when the image is of ECR Public; else the host names the region)
  AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT (the host of an image can only add to these)
  AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_ECR, AWS_ENDPOINT_URL_ECR_PUBLIC, AWS_ENDPOINT_URL_STS
  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY";

/// Logins for Amazon ECR and ECR Public.
///
/// The identity is the node's, unless the kubelet is configured to send the pod's token: then it is the role that the
/// pod's service account names, which STS gives for that token.
#[derive(Debug, Parser)]
#[command(name = PROVIDER.program, version, after_long_help = VARIABLES)]
#[non_exhaustive]
pub struct Args {
    #[command(flatten)]
    common: CommonArgs,
    /// The service account's annotation that names the role; of several the first that is there decides.
    #[arg(
        long = "role-annotation",
        value_name = "KEY",
        value_delimiter = ',',
        default_values = [ECR_ROLE, POD_ROLE],
        env = "KEYFOB_ECR_ROLE_ANNOTATIONS",
        hide_env_values = true
    )]
    role_annotations: Vec<String>,
    /// The role for service accounts that have none of these annotations.
    #[arg(long, value_name = "ARN", env = "AWS_ECR_ROLE_ARN", hide_env_values = true)]
    role_arn: Option<String>,
    /// Whose login a pod without a role gets.
    #[arg(
        long,
        value_enum,
        default_value_t = Fallback::Node,
        env = "KEYFOB_ECR_FALLBACK",
        hide_env_values = true
    )]
    fallback: Fallback,
    #[command(flatten)]
    http: HttpArgs,
}

impl ProviderArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn annotations(&self) -> Vec<String> {
        self.role_annotations.clone()
    }

    fn provider(self, world: World) -> Result<impl ImageCredentials, Failure> {
        let http = Http::new(&self.http, world.environment.as_ref());
        Ok(Ecr { args: self, world, http })
    }
}

struct Ecr {
    args: Args,
    world: World,
    http: Http,
}

impl ImageCredentials for Ecr {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let registry = Registry::of_image(request.image())?;
        let role = self.role(request)?;
        let config = self.config(&registry).await;
        let credentials = self.identity(role, request, &config).await?;
        request.call().step(format!("asking ECR in {} for a token", registry.region));
        let token = Token::get(&registry, &config, credentials).await?;
        request.call().hide(&token.password);
        let answer = Answer::login(registry.key, token.username, token.password);
        Ok(match token.end {
            Some(end) => answer.expires_at(end, Margin::Half),
            None => answer.cached_for(Duration::ZERO),
        })
    }
}

impl Ecr {
    /// The role to assume with the pod's token. An annotation that is there but empty says that there is none.
    fn role<'a>(&'a self, request: &'a ImageRequest) -> Result<Option<&'a str>, Failure> {
        let annotations = &self.args.role_annotations;
        let named = annotations.iter().find_map(|key| request.annotation(key));
        let role = named.or(self.args.role_arn.as_deref()).filter(|arn| !arn.is_empty());
        let role = role.filter(|_| request.service_account_token().is_some());
        if role.is_some() || self.args.fallback == Fallback::Node {
            return Ok(role);
        }
        let missing = match request.service_account_token() {
            Some(_) => format!(
                "the pod's service account names no role in {}, and --role-arn is not set",
                annotations.join(" or ")
            ),
            None => "the request has no token of a service account: set tokenAttributes in the provider's \
                     configuration"
                .into(),
        };
        Err(Failure::new(format!("{missing}; --fallback=none keeps the node's login from it")))
    }

    async fn identity(
        &self,
        role: Option<&str>,
        request: &ImageRequest,
        config: &SdkConfig,
    ) -> Result<Credentials, Failure> {
        match (role, request.service_account_token()) {
            (Some(arn), Some(token)) => {
                identity::of_the_role(arn, token, config, request.call()).await
            }
            _ => identity::of_the_node(&self.world, config, request.call()).await,
        }
    }

    /// Attempts that are all made well before the deadline, so that it is AWS's reason that is told.
    async fn config(&self, registry: &Registry) -> SdkConfig {
        const FIRST_PAUSE: Duration = Duration::from_millis(400);
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(3))
            .read_timeout(Duration::from_secs(10));
        let retries =
            RetryConfig::standard().with_max_attempts(5).with_initial_backoff(FIRST_PAUSE);
        aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(AwsHttp(self.http.clone()))
            .region(Region::new(self.home(registry)))
            .timeout_config(timeouts.build())
            .retry_config(retries)
            .no_credentials()
            .load()
            .await
    }

    /// Where identities are asked for: beside the registry, so that nobody has to ask the instance where it is.
    fn home(&self, registry: &Registry) -> String {
        let named = |name| variable(self.world.environment.as_ref(), name);
        let chosen = || named("AWS_REGION").or_else(|| named("AWS_DEFAULT_REGION"));
        registry.public.then(chosen).flatten().unwrap_or_else(|| registry.region.clone())
    }
}

/// What AWS says is wrong, cut to a length that fits a log; when it said nothing, what kept us from asking.
fn told<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: Error + ProvideErrorMetadata + 'static,
{
    const LONGEST: usize = 500;
    let said = match (error.code(), error.message(), error.raw_response()) {
        (Some(code), Some(message), _) => format!("{code}: {message}"),
        (Some(said), None, _) | (None, Some(said), _) => said.to_owned(),
        (None, None, Some(answer)) if answer.status().is_success() => {
            "its answer cannot be read".to_owned()
        }
        (None, None, Some(answer)) => {
            format!("it responded with status code {}", answer.status().as_u16())
        }
        (None, None, None) => innermost(error),
    };
    shortened(&said, LONGEST)
}

/// What stands above it repeats that there was an error.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}
