//! From a pod to the identity that a provider is asked with.
//!
//! Upstream: `serviceAccountProvider` in `pkg/credentialprovider/plugin/plugin.go`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use keyfob_config::ValidTokenAttributes;
use keyfob_exec::Clock;
use keyfob_keyring::ServiceAccountCoordinates;

use super::{
    Identity, IdentityError, IdentityStep, PodIdentity, ServiceAccounts, TokenManager,
    TokenRequest, bounded::Bounded,
};
use crate::{CallError, ProviderOutcome, Skipped};

/// Where a host has identities from.
#[derive(Debug)]
pub(crate) struct Identities {
    accounts: Arc<dyn ServiceAccounts>,
    pub(crate) tokens: TokenManager,
}

impl Identities {
    pub(crate) fn new(
        accounts: Arc<dyn ServiceAccounts>,
        clock: Arc<dyn Clock>,
        timeout: Duration,
    ) -> Self {
        let accounts = Arc::new(Bounded { accounts, timeout });
        Self { tokens: TokenManager::new(accounts.clone(), clock), accounts }
    }

    /// The account as it is now, then a token of it. Otherwise, what the provider does without.
    pub(crate) async fn establish(
        &self,
        attributes: &ValidTokenAttributes,
        pod: &PodIdentity,
    ) -> Result<Identity, ProviderOutcome> {
        let audience = attributes.audience();
        let mut coordinates = ServiceAccountCoordinates {
            uid: String::new(),
            namespace: pod.namespace.clone(),
            name: pod.service_account.clone(),
        };
        let found = self.accounts.get(&pod.namespace, &pod.service_account).await;
        let account = match found {
            Ok(account) => account,
            Err(error) => {
                return Err(failed(IdentityStep::ServiceAccount, coordinates, audience, error));
            }
        };
        let annotations = handed_over(attributes, &account.annotations)?;
        coordinates.uid = account.uid;
        match self.tokens.token(&request(&coordinates, audience, pod)).await {
            Ok(token) => Ok(Identity {
                account: Arc::new(coordinates),
                pod: pod.pod.clone(),
                audience: audience.to_owned(),
                annotations,
                token: token.token.clone(),
                expires: token.expires,
            }),
            Err(error) => Err(failed(IdentityStep::Token, coordinates, audience, error)),
        }
    }
}

/// Which annotations the plugin gets; it is not asked if one that it requires is not there. An empty one is there.
pub(super) fn handed_over(
    attributes: &ValidTokenAttributes,
    annotations: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ProviderOutcome> {
    let required = attributes.required_annotation_keys();
    let optional = attributes.optional_annotation_keys();
    let is_missing = |key: &&String| !annotations.contains_key(*key);
    if let Some(key) = required.iter().find(is_missing) {
        return Err(ProviderOutcome::Skipped(Skipped::MissingAnnotation { key: key.clone() }));
    }
    let wanted = required.iter().chain(optional);
    Ok(wanted.filter_map(|key| Some((key.clone(), annotations.get(key)?.clone()))).collect())
}

/// The token lives as long as the server likes.
fn request(account: &ServiceAccountCoordinates, audience: &str, pod: &PodIdentity) -> TokenRequest {
    TokenRequest {
        namespace: account.namespace.clone(),
        service_account: account.name.clone(),
        service_account_uid: account.uid.clone(),
        audiences: vec![audience.to_owned()],
        expiration_seconds: None,
        pod: pod.pod.clone(),
    }
}

fn failed(
    step: IdentityStep,
    account: ServiceAccountCoordinates,
    audience: &str,
    source: IdentityError,
) -> ProviderOutcome {
    let (account, audience) = (Arc::new(account), audience.to_owned());
    ProviderOutcome::Failed(Arc::new(CallError::Identity { step, account, audience, source }))
}
