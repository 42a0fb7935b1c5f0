//! `exec-credential-provider`: docker's credential helpers.
//!
//! For logins that only a helper knows: `docker-credential-pass`, `-ecr-login`, one of your own.

use std::{str::FromStr, time::Duration};

use clap::Parser;
use keyfob_api::Claims;
use keyfob_plugin::{Answer, Failure, ImageCredentials, ImageRequest, Margin};

use crate::{
    CommonArgs, Provider, ProviderArgs, World, credential_helper::CredentialHelper, program,
    registry_pattern::RegistryPattern,
};

pub(crate) const PROVIDER: Provider = Provider {
    name: "exec",
    program: "exec-credential-provider",
    about: "docker's credential helpers",
    match_images: &[],
    default_cache_duration: "5m",
    args: &[],
    needs_token: false,
    run: program::run::<Args>,
    annotations: program::annotations::<Args>,
};

/// Docker's credential helpers.
///
/// The helper is run as `docker-credential-NAME get`, with the registry on stdin: its host and port, then the same with
/// `https://` before it; Docker Hub is `https://index.docker.io/v1/`. A helper that has no login for the registry is no
/// failure.
///
/// Docker's identity tokens (user name `<token>`) are no passwords and of no use to a kubelet, which is told so. Azure's
/// registries take theirs as a password, so there it is handed on with the user name that this needs.
#[derive(Debug, Parser)]
#[command(name = PROVIDER.program, version)]
#[command(
    after_help = "PATH says where helpers are looked for. They inherit the whole environment: HOME, PASSWORD_STORE_DIR, \
                  AWS_PROFILE and whatever else they need goes into `env` of the provider's configuration."
)]
#[non_exhaustive]
pub struct Args {
    /// Which helper to ask: NAME as in `docker-credential-NAME`, or an absolute path. With HOST= before it, only for that
    /// registry: a host with its port, `*` for parts of a label. May be repeated; the first that fits is asked.
    #[arg(
        long = "helper",
        value_name = "[HOST=]NAME",
        required = true,
        value_delimiter = ',',
        env = "KEYFOB_EXEC_HELPER",
        hide_env_values = true
    )]
    helpers: Vec<Chosen>,
    /// How long the kubelet keeps a login. No helper says how long its logins last; one that is a signed token is not kept
    /// for longer than that says.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5m",
        value_parser = program::duration,
        env = "KEYFOB_EXEC_CACHE_DURATION",
        hide_env_values = true
    )]
    cache_duration: Duration,
    #[command(flatten)]
    common: CommonArgs,
}

/// A helper, and the registries that it is asked about; without any, all.
#[derive(Debug, Clone)]
struct Chosen {
    registries: Option<RegistryPattern>,
    helper: CredentialHelper,
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (registries, helper) = match text.split_once('=') {
            Some((host, helper)) if !text.starts_with('/') => (Some(host.parse()?), helper),
            _ => (None, text),
        };
        Ok(Self { registries, helper: helper.parse()? })
    }
}

impl Chosen {
    fn fits(&self, registry: &str) -> bool {
        self.registries.as_ref().is_none_or(|wanted| wanted.matches(registry))
    }
}

impl ProviderArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn provider(self, world: World) -> Result<impl ImageCredentials, Failure> {
        Ok(Helpers { args: self, world })
    }
}

#[derive(Debug)]
struct Helpers {
    args: Args,
    world: World,
}

impl ImageCredentials for Helpers {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let registry = request.registry();
        let Some(chosen) = self.args.helpers.iter().find(|chosen| chosen.fits(registry)) else {
            return Ok(Answer::nothing());
        };
        let Some(login) = chosen.helper.login(&self.world, request).await? else {
            return Ok(Answer::nothing());
        };
        let end = Claims::expiry(&login.password);
        let answer = Answer::login(registry, login.username, login.password)
            .cached_for(self.args.cache_duration);
        Ok(match end {
            Some(end) => answer.expires_at(end, Margin::Tenth),
            None => answer,
        })
    }
}
