//! What the API server's answers mean.

use std::{collections::BTreeMap, time::Duration};

use http::StatusCode;
use k8s_openapi::api::authentication::v1::TokenRequest as ApiTokenRequest;
use keyfob_api::{Secret, SecretSet};
use keyfob_net::api_server::{ApiResponse, root_cause, status_message};
use serde::Deserialize;

use super::KubernetesError;
use crate::identity::{IdentityError, Token};

/// What is read of a pod or of a service account.
///
/// Not a type of the API: what there is in a `Pod` would all be compiled in, to read two names.
#[derive(Deserialize)]
pub(super) struct Object {
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) spec: Option<Spec>,
}

#[derive(Default, Deserialize)]
pub(super) struct Metadata {
    pub(super) uid: Option<String>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) service_account_name: Option<String>,
    pub(super) node_name: Option<String>,
}

/// The token of an answer that has one, and says when it ends.
pub(super) fn token(answer: ApiTokenRequest) -> Result<Token, &'static str> {
    let status = answer.status.unwrap_or_default();
    let token = Secret::new(status.token.unwrap_or_default());
    if token.expose().is_empty() {
        return Err("its answer has no token");
    }
    let expires =
        status.expiration_timestamp.ok_or("its answer does not say when the token ends")?;
    let seconds = answer.spec.and_then(|spec| spec.expiration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Ok(Token { token, expires: expires.0.into(), lifetime: seconds.map(Duration::from_secs) })
}

/// An answer that is none, in the server's own words if it has some.
pub(super) fn refusal(server: &str, response: &ApiResponse, secrets: &SecretSet) -> IdentityError {
    let (status, words) = (response.status(), words(response.body(), secrets));
    let said = |words: Option<String>| words.unwrap_or_else(|| format!("{server}: {status}"));
    let message = match status {
        StatusCode::NOT_FOUND
        | StatusCode::CONFLICT
        | StatusCode::BAD_REQUEST
        | StatusCode::FORBIDDEN
        | StatusCode::UNPROCESSABLE_ENTITY => said(words),
        StatusCode::UNAUTHORIZED => format!("{server} does not know who asks: {}", said(words)),
        _ => {
            let words = words.map(|words| format!(": {words}")).unwrap_or_default();
            format!("{server}: {status}{words}")
        }
    };
    KubernetesError::Refused { status, message }.into()
}

/// The message of a `Status`; of anything else nothing, since nobody knows what stands in it.
fn words(body: &[u8], secrets: &SecretSet) -> Option<String> {
    const MOST: usize = 2_000;
    // A secret that begins within what is shown ends within what is read.
    const READ: usize = 16_000;
    let message: String = status_message(body)?.chars().take(READ).collect();
    let message: String = secrets.redact(&message).chars().take(MOST).collect();
    (!message.is_empty()).then_some(message)
}

/// Why there is no answer: what is under all the layers of a client.
pub(super) fn not_answered(error: &kube::Error) -> String {
    root_cause(error).unwrap_or_else(|| {
        "the client's own credentials cannot be had; run the kubeconfig's plugin by hand".to_owned()
    })
}
