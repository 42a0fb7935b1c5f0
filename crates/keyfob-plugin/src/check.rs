//! What is looked at before an answer is printed.

use std::time::Duration;

use keyfob_api::{CredentialProviderResponse, GoDuration, RegistryKey, Timestamp};

use crate::{Answer, Doing as _, Failure, ImageRequest};

/// Docker's mark for a token that is no password, where the user name would be. Docker's own clients know it.
const IDENTITY_TOKEN: &str = "<token>";

/// The answer as it is printed, if it may be.
pub(crate) fn checked(
    answer: Answer,
    request: &ImageRequest,
) -> Result<CredentialProviderResponse, Failure> {
    for (key, auth) in &answer.auth {
        RegistryKey::parse(key).doing(format_args!("the answer's key {key:?}"))?;
        if auth.password.expose().is_empty() {
            return Err(Failure::new(format!("the password for {key} is empty")));
        }
        let token = request.service_account_token();
        let is_the_token =
            token.is_some_and(|token| auth.password == *token || auth.username == *token.expose());
        if is_the_token && !answer.hands_out_the_token {
            return Err(Failure::new(format!(
                "the login for {key} is the pod's own token: handing that out must be meant"
            )));
        }
    }
    Ok(CredentialProviderResponse {
        cache_key_type: answer.cache_key_type,
        cache_duration: cache_duration(&answer, request)?.map(GoDuration::from),
        auth: answer.auth,
    })
}

/// The answer, if a kubelet can use it.
pub(crate) fn usable_by_a_kubelet(
    answer: CredentialProviderResponse,
) -> Result<CredentialProviderResponse, Failure> {
    match answer.auth.iter().find(|(_, auth)| auth.username == IDENTITY_TOKEN) {
        Some((key, _)) => Err(Failure::new(format!(
            "the login for {key} is an identity token of docker's ({IDENTITY_TOKEN}), which a kubelet cannot use: store a user name and a password"
        ))),
        None => Ok(answer),
    }
}

fn cache_duration(answer: &Answer, request: &ImageRequest) -> Result<Option<Duration>, Failure> {
    let Some((end, margin)) = answer.expires else { return Ok(answer.cached_for) };
    let life = end.duration_since(request.call().now()).unwrap_or_default();
    if life.is_zero() {
        let end = Timestamp::from(end);
        return Err(Failure::new(format!(
            "the credential that was issued ended at {end}: look at the clocks of this node and of the issuer"
        )));
    }
    let whole_seconds = Duration::from_secs(life.as_secs());
    Ok(Some(answer.cached_for.unwrap_or_else(|| margin.of(life)).min(whole_seconds)))
}
