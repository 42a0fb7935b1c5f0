//! The token that ECR logs in with.

use std::time::SystemTime;

use aws_config::{Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::SdkError};
use aws_smithy_types::{DateTime, error::metadata::ProvideErrorMetadata};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyfob_api::Secret;
use keyfob_plugin::Failure;

use super::{registry::Registry, told};

/// A login, and when it ends, if the API says so.
pub(super) struct Token {
    pub(super) username: String,
    pub(super) password: Secret<String>,
    pub(super) end: Option<SystemTime>,
}

impl Token {
    /// Asks the API that stands behind the registry's host.
    pub(super) async fn get(
        registry: &Registry,
        config: &SdkConfig,
        credentials: Credentials,
    ) -> Result<Self, Failure> {
        let config = configured(registry, config, credentials);
        if registry.public { Self::public(&config).await } else { Self::private(&config).await }
    }

    async fn private(config: &SdkConfig) -> Result<Self, Failure> {
        let answer = aws_sdk_ecr::Client::new(config).get_authorization_token().send().await;
        let answer = answer.map_err(|error| refused(&error, "ecr:GetAuthorizationToken"))?;
        let data = answer.authorization_data().first().ok_or_else(nothing)?;
        Self::decode(data.authorization_token(), data.expires_at())
    }

    async fn public(config: &SdkConfig) -> Result<Self, Failure> {
        const NEEDS: &str = "ecr-public:GetAuthorizationToken and sts:GetServiceBearerToken";
        let answer = aws_sdk_ecrpublic::Client::new(config).get_authorization_token().send().await;
        let answer = answer.map_err(|error| refused(&error, NEEDS))?;
        let data = answer.authorization_data().ok_or_else(nothing)?;
        Self::decode(data.authorization_token(), data.expires_at())
    }

    /// It is `user:password`, in base64.
    fn decode(token: Option<&str>, end: Option<&DateTime>) -> Result<Self, Failure> {
        let token = token.ok_or_else(|| {
            Failure::new(
                "authorization token in response was nil: ECR granted the request without one",
            )
        })?;
        let unreadable =
            || Failure::new("error parsing username and password from authorization token");
        let plain = STANDARD.decode(token).map_err(|_| unreadable())?;
        let plain = Secret::new(String::from_utf8(plain).map_err(|_| unreadable())?);
        let (username, password) = plain.expose().split_once(':').ok_or_else(unreadable)?;
        let end = end.map(|end| SystemTime::try_from(*end)).transpose()?;
        Ok(Self { username: username.into(), password: password.into(), end })
    }
}

/// The API of a FIPS or dual-stack host is the one of that kind, whatever the environment says of others.
fn configured(registry: &Registry, config: &SdkConfig, credentials: Credentials) -> SdkConfig {
    let also = |asked_for: Option<bool>| asked_for.unwrap_or_default();
    config
        .to_builder()
        .region(Region::new(registry.region.clone()))
        .use_fips(registry.fips || also(config.use_fips()))
        .use_dual_stack(registry.dual_stack || also(config.use_dual_stack()))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

fn nothing() -> Failure {
    Failure::new("response output from ECR was nil: there is no authorizationData in it")
}

/// What AWS said, and what to do when it said no.
fn refused<E>(error: &SdkError<E, HttpResponse>, needs: &str) -> Failure
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    let said = told(error);
    if error.code().is_some_and(|code| code.starts_with("AccessDenied")) {
        return Failure::new(format!(
            "ECR refused the token: {said}: the identity must be allowed {needs}"
        ));
    }
    Failure::new(format!("asking ECR for a token: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(plain: &[u8]) -> Result<(String, String), String> {
        let token = Token::decode(Some(&STANDARD.encode(plain)), None);
        let parts = |token: Token| (token.username, token.password.expose().clone());
        token.map(parts).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_first_colon_ends_the_user() {
        assert_eq!(decoded(b"AWS:a:b:c").unwrap(), ("AWS".into(), "a:b:c".into()));
    }

    #[test]
    fn a_token_of_another_make_is_refused_and_not_quoted() {
        let failures = [
            decoded(b"hunter2").unwrap_err(),
            decoded(b"AWS:\xff").unwrap_err(),
            Token::decode(Some("hunter2!"), None).err().unwrap().to_string(),
        ];
        for failure in failures {
            let told = "error parsing username and password from authorization token";
            assert_eq!(failure, told);
        }
    }
}
