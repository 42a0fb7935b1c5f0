//! `exchange-credential-provider`: any service that trades the pod's token for a login.
//!
//! The command line says where the token is sent, how it is sent, and where the login stands in the answer. The service
//! account's annotations can fill in places of the request's body, but never choose the endpoint or the registry: a user
//! of a namespace could have tokens sent to a host of their own that way. Redirects are failures for the same reason.

mod asking;
mod reading;
mod template;

use std::time::Duration;

use clap::{Parser, ValueEnum};
use keyfob_plugin::{
    Answer, CacheKeyType, Doing as _, Failure, ImageCredentials, ImageRequest, Margin,
};

use self::{
    asking::{Exchange, Method, Style},
    reading::{Fields, Login, Path},
    template::{Field, Template},
};
use crate::{
    CommonArgs, Provider, ProviderArgs, World,
    http::{Http, HttpArgs, Reply},
    program,
    registry_pattern::{RegistryPattern, serves},
};

pub(crate) const PROVIDER: Provider = Provider {
    name: "exchange",
    program: "exchange-credential-provider",
    about: "any service that trades the pod's token for a login",
    match_images: &[],
    default_cache_duration: "1m",
    args: &[],
    needs_token: true,
    run: program::run::<Args>,
    annotations: program::annotations::<Args>,
};

/// Any service that trades the pod's token for a login.
#[derive(Debug, Parser)]
#[command(name = PROVIDER.program, version, after_help = "\
AUDIENCE, RESOURCE, SCOPE, NAME and VALUE may hold {annotation:KEY}, in whose place the annotation of the pod's service \
account is put. The kubelet's configuration must name it in tokenAttributes.

Further variables:
  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY  the way out

Examples:
  --url https://auth.yandex.cloud/oauth/token --username iam \\
    --audience '{annotation:yandex.cloud/federated-yc-service-account-id}' --cache-margin 300
  --url https://api.cloudsmith.io/openid/ORG/ --style json --username token \\
    --token-field oidc_token --field 'service_slug={annotation:cloudsmith.io/service-slug}'
  --url https://quay.io/oauth2/federation/robot/token --style basic \\
    --username '{annotation:quay.io/federated-robot-account}'")]
#[non_exhaustive]
pub struct Args {
    /// Where the token is sent.
    #[arg(long, env = "KEYFOB_EXCHANGE_URL", hide_env_values = true)]
    url: String,
    /// Allow an address without TLS. Anyone on the way can take the token then.
    #[arg(long, env = "KEYFOB_EXCHANGE_ALLOW_HTTP", hide_env_values = true)]
    allow_http: bool,
    /// How the token is sent.
    #[arg(long, value_enum, default_value_t = Style::Form, env = "KEYFOB_EXCHANGE_STYLE", hide_env_values = true)]
    style: Style,
    /// How it is asked: get for bearer and basic unless told, post for the others.
    #[arg(long, value_enum, env = "KEYFOB_EXCHANGE_METHOD", hide_env_values = true)]
    method: Option<Method>,
    /// For whom the login is to be.
    #[arg(long, env = "KEYFOB_EXCHANGE_AUDIENCE", hide_env_values = true)]
    audience: Option<Template>,
    /// What it is to open.
    #[arg(long, env = "KEYFOB_EXCHANGE_RESOURCE", hide_env_values = true)]
    resource: Option<Template>,
    /// What it is to allow.
    #[arg(long, env = "KEYFOB_EXCHANGE_SCOPE", hide_env_values = true)]
    scope: Option<Template>,
    /// What the pod's token is called.
    #[arg(
        long,
        value_name = "URN",
        default_value = "urn:ietf:params:oauth:token-type:jwt",
        env = "KEYFOB_EXCHANGE_SUBJECT_TOKEN_TYPE",
        hide_env_values = true
    )]
    subject_token_type: String,
    /// What is wanted for it.
    #[arg(
        long,
        value_name = "URN",
        env = "KEYFOB_EXCHANGE_REQUESTED_TOKEN_TYPE",
        hide_env_values = true
    )]
    requested_token_type: Option<Template>,
    /// The field that the token is sent in. With it no field of the standard is sent that is not asked for.
    #[arg(long, value_name = "FIELD", env = "KEYFOB_EXCHANGE_TOKEN_FIELD", hide_env_values = true)]
    token_field: Option<String>,
    /// One more field of the form or of the JSON. Repeatable; in the variable, one a line.
    #[arg(
        long,
        value_name = "FIELD=VALUE",
        value_delimiter = '\n',
        env = "KEYFOB_EXCHANGE_FIELD",
        hide_env_values = true
    )]
    field: Vec<Field>,
    /// The user's name at the registry; with --style basic also at the service.
    #[arg(long, value_name = "NAME", env = "KEYFOB_EXCHANGE_USERNAME", hide_env_values = true)]
    username: Option<Template>,
    /// Where the user's name stands in the answer, such as data.user (username, unless --username says it).
    #[arg(
        long,
        value_name = "PATH",
        env = "KEYFOB_EXCHANGE_USERNAME_FIELD",
        hide_env_values = true
    )]
    username_field: Option<Path>,
    /// Where the password stands in the answer (`access_token`, else token).
    #[arg(
        long,
        value_name = "PATH",
        env = "KEYFOB_EXCHANGE_PASSWORD_FIELD",
        hide_env_values = true
    )]
    password_field: Option<Path>,
    /// Where its life in seconds stands (`expires_in`).
    #[arg(
        long,
        value_name = "PATH",
        env = "KEYFOB_EXCHANGE_EXPIRES_IN_FIELD",
        hide_env_values = true
    )]
    expires_in_field: Option<Path>,
    /// Where its end stands, as 2030-01-01T00:00:00Z or in seconds since 1970.
    #[arg(
        long,
        value_name = "PATH",
        env = "KEYFOB_EXCHANGE_EXPIRES_AT_FIELD",
        hide_env_values = true
    )]
    expires_at_field: Option<Path>,
    /// Stop using a login this many seconds before its end.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        env = "KEYFOB_EXCHANGE_CACHE_MARGIN",
        hide_env_values = true
    )]
    cache_margin: u64,
    /// For what a login is kept.
    #[arg(long, value_enum, default_value_t = KeptFor::Registry, env = "KEYFOB_EXCHANGE_CACHE_KEY_TYPE", hide_env_values = true)]
    cache_key_type: KeptFor,
    /// Give logins to this registry only: a host with its port, `*` for parts of a label. Repeatable; in the variable, with
    /// commas between.
    #[arg(
        long,
        value_name = "HOST",
        value_delimiter = ',',
        env = "KEYFOB_EXCHANGE_REGISTRY",
        hide_env_values = true
    )]
    registry: Vec<RegistryPattern>,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// For what a login is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeptFor {
    /// The image.
    Image,
    /// All images of the registry.
    Registry,
    /// All images.
    Global,
}

impl From<KeptFor> for CacheKeyType {
    fn from(kept_for: KeptFor) -> Self {
        match kept_for {
            KeptFor::Image => Self::Image,
            KeptFor::Registry => Self::Registry,
            KeptFor::Global => Self::Global,
        }
    }
}

impl ProviderArgs for Args {
    fn common(&self) -> &CommonArgs {
        &self.common
    }

    fn annotations(&self) -> Vec<String> {
        let named = [&self.audience, &self.resource, &self.scope, &self.requested_token_type];
        let templates = named.into_iter().chain([&self.username]).flatten();
        let templates = templates.chain(self.field.iter().map(|field| &field.value));
        templates.flat_map(Template::annotations).map(str::to_owned).collect()
    }

    fn provider(self, world: World) -> Result<impl ImageCredentials, Failure> {
        Ok(Exchanging {
            exchange: Exchange::of(&self)?,
            http: Http::new(&self.http, world.environment.as_ref()),
            username: self.username,
            fields: Fields {
                username: self.username_field,
                password: self.password_field,
                expires_in: self.expires_in_field,
                expires_at: self.expires_at_field,
            },
            margin: Margin::Fixed(Duration::from_secs(self.cache_margin)),
            cache_key_type: self.cache_key_type.into(),
            registries: self.registry,
        })
    }
}

#[derive(Debug)]
struct Exchanging {
    exchange: Exchange,
    http: Http,
    username: Option<Template>,
    fields: Fields,
    margin: Margin,
    cache_key_type: CacheKeyType,
    registries: Vec<RegistryPattern>,
}

impl ImageCredentials for Exchanging {
    async fn credentials(&self, request: &ImageRequest) -> Result<Answer, Failure> {
        if !serves(&self.registries, request.registry()) {
            return Ok(Answer::nothing());
        }
        let username = self.username.as_ref().map(|name| name.fill(request)).transpose();
        let username = username.doing("--username")?;
        let login = self.login(request, username.as_deref()).await?;
        let username = self.chosen(username, login.username)?;
        let answer = Answer::login(request.registry(), username, login.password);
        let answer = answer.cached_by(self.cache_key_type);
        Ok(match login.end {
            Some(end) => answer.expires_at(end, self.margin),
            None => answer,
        })
    }
}

impl Exchanging {
    async fn login(
        &self,
        request: &ImageRequest,
        username: Option<&str>,
    ) -> Result<Login, Failure> {
        let token = request.required_service_account_token()?;
        let call = request.call();
        let sending = self.exchange.sending(&self.http, token, username, request)?;
        call.step("trading the pod's token");
        let reply = sending.send(call).await.and_then(Reply::success);
        let reply = reply.doing("trading the pod's token")?;
        let login = self.fields.read(reply.body().expose(), call.now())?;
        call.hide(&login.password);
        Ok(login)
    }

    /// A field that was named goes before a name, and a name before the field that is usual.
    fn chosen(&self, told: Option<String>, answered: Option<String>) -> Result<String, Failure> {
        let (first, second) =
            if self.fields.username.is_some() { (answered, told) } else { (told, answered) };
        first.or(second).ok_or_else(|| {
            Failure::new(
                "the answer names no user: say who with --username, or where with --username-field",
            )
        })
    }
}
