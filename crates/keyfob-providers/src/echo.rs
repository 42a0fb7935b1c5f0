//! `echo-credential-provider`: registries that take the pod's token itself.
//!
//! Harbor, zot and others verify a service account's token as they would a password. Whoever receives it can act as the
//! pod wherever that audience is accepted, so it goes to the registry that was asked about and to no other, and `--registry`
//! narrows that further.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use keyfob_api::Claims;
use keyfob_plugin::{Answer, CacheKeyType, Failure, ImageCredentials, ImageRequest, Margin};

use crate::{
    CommonArgs, Provider, ProviderArgs, World, program,
    registry_pattern::{RegistryPattern, serves},
};

pub(crate) const PROVIDER: Provider = Provider {
    name: "echo",
    program: "echo-credential-provider",
    about: "registries that take the pod's token itself",
    match_images: &[],
    default_cache_duration: "1m",
    args: &[],
    needs_token: true,
    run: program::run::<Args>,
    annotations: program::annotations::<Args>,
};

/// A pull that begins with the token still has this long to use it.
const MARGIN: Margin = Margin::Fixed(Duration::from_mins(1));

/// Registries that take the pod's token itself.
///
/// The password is the service account token that the kubelet sends, so the provider needs `tokenAttributes` in its
/// configuration, with `cacheType: Token` and an audience that the registry accepts. An answer is not kept for longer than
/// the token lasts.
#[derive(Debug, Parser)]
#[command(name = PROVIDER.program, version)]
#[non_exhaustive]
pub struct Args {
    /// The user name that goes with the token.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "jwt",
        env = "KEYFOB_ECHO_USERNAME",
        hide_env_values = true
    )]
    username: String,
    /// Give the token to this registry and to no other: a host with its port, `*` for parts of a label. May be repeated;
    /// without it the token goes to any registry that `matchImages` lets the kubelet ask about.
    #[arg(long = "registry", value_name = "HOST")]
    registries: Vec<RegistryPattern>,
    /// Which images share a kept answer.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    cache_key_type: KeyType,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum KeyType {
    /// None: each image is asked about.
    #[default]
    Image,
    /// All of a registry.
    Registry,
}

impl From<KeyType> for CacheKeyType {
    fn from(cache_key_type: KeyType) -> Self {
        match cache_key_type {
            KeyType::Image => Self::Image,
            KeyType::Registry => Self::Registry,
        }
    }
}

impl ProviderArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn provider(self, _world: World) -> Result<impl ImageCredentials, Failure> {
        Ok(self)
    }
}

impl ImageCredentials for Args {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        let registry = request.registry();
        if !serves(&self.registries, registry) {
            return Ok(Answer::nothing());
        }
        let token = request.required_service_account_token()?;
        let answer = Answer::login(registry, &self.username, token.clone())
            .cached_by(self.cache_key_type.into())
            .hands_out_the_token();
        Ok(match Claims::expiry(token) {
            Some(end) => answer.expires_at(end, MARGIN),
            None => answer,
        })
    }
}
