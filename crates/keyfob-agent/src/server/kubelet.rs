//! `POST /v1/provider`: the kubelet's own request and response.
//!
//! The response may not be cached: asking again is nearly free, and a new configuration of the agent then takes effect at once.

use std::time::Duration;

use http::{Response, StatusCode};
use keyfob_api::{
    AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, GoDuration,
    RequestError,
};
use keyfob_host::GivenToken;

use super::{Body, respond as response};
use crate::{
    access::{Attempt, GrantedCredential, Requester, Wanted},
    agent::Shared,
    error::{ApiError, ErrorCode},
    repository::Repository,
};

pub(super) async fn respond(
    shared: &Shared,
    attempt: &mut Attempt<'_>,
    requester: &Requester,
    body: &[u8],
) -> Result<Response<Body>, ApiError> {
    let (version, request) =
        CredentialProviderRequest::decode(body).map_err(|error| undecodable(&error))?;
    let CredentialProviderRequest { image, service_account_token, service_account_annotations } =
        request;
    if image.is_empty() {
        let message = "the CredentialProviderRequest has no image";
        return Err(ApiError::new(ErrorCode::BadRequest, message));
    }
    let token =
        service_account_token.map(|token| GivenToken::new(token, service_account_annotations));
    let repository = Repository::of_image(&image)?;
    let wanted = Wanted { repository: &repository, fresh_for: Duration::ZERO, token };
    let auth = match shared.grant(attempt, requester, wanted).await {
        Ok(granted) => auth(&image, &granted.credentials),
        // A provider that matches and has nothing is no failure: the kubelet goes on without it.
        Err(error) if error.code == ErrorCode::NotFound => {
            attempt.finish(Err(&error));
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    let answer = CredentialProviderResponse {
        auth,
        cache_duration: Some(GoDuration::ZERO),
        cache_key_type: CacheKeyType::Image,
    };
    Ok(response(StatusCode::OK, answer.encode(version).expose().clone()))
}

/// The refusal of a body that cannot be read. It has fixed texts and positions only, because the body may have a token anywhere.
fn undecodable(error: &RequestError) -> ApiError {
    let mut message = "the body is not a CredentialProviderRequest".to_owned();
    if let RequestError::Json(error) = error {
        message = format!("{message}: invalid JSON at {}", error.at);
    }
    ApiError::new(ErrorCode::BadRequest, message)
        .help("send what a kubelet sends, in version v1, v1beta1 or v1alpha1 of credentialprovider.kubelet.k8s.io")
}

/// The credentials under keys that a kubelet tries in the same order: a longer key comes first. The last credential has the
/// registry as its key, the one before it the registry and the first part of the path, and so on. Credentials beyond the parts of
/// the name are left out.
fn auth(image: &str, credentials: &[GrantedCredential]) -> Vec<(String, AuthConfig)> {
    let mut keys: Vec<&str> = image.match_indices('/').map(|(at, _)| &image[..at]).collect();
    keys.push(image);
    let used = credentials.len().min(keys.len());
    let keys = keys.iter().take(used).rev();
    let auth = keys.zip(credentials).map(|(key, each)| {
        let login = AuthConfig {
            username: each.credential.username().to_owned(),
            password: each.credential.password().clone(),
        };
        ((*key).to_owned(), login)
    });
    auth.collect()
}
