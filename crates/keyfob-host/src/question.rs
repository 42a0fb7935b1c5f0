//! What a provider is asked: about which image, and as whom.

use std::sync::Arc;

use keyfob_keyring::ServiceAccountCoordinates;

use crate::{
    CallError, Identity, ServiceAccountKey,
    cache::{CacheKeys, flight_key, token_hash},
};

/// A question, without a copy of anything: most are answered from the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) image: &'a str,
    /// As whom; nothing if without a service account.
    pub(crate) identity: Option<&'a Arc<Identity>>,
    /// Under which an answer may be found and kept.
    pub(crate) keys: &'a CacheKeys,
    /// What makes it the same question: one run answers it, and its failures are held against it alone.
    pub(crate) flight_key: &'a [u8],
}

/// A question that can be waited with.
#[derive(Debug)]
pub(crate) struct HeldQuestion {
    image: Box<str>,
    identity: Option<Arc<Identity>>,
    keys: CacheKeys,
    flight_key: Box<[u8]>,
}

impl<'a> Question<'a> {
    /// Without a service account.
    pub(crate) fn of_nobody(image: &'a str, keys: &'a CacheKeys) -> Self {
        Self { image, identity: None, keys, flight_key: image.as_bytes() }
    }

    pub(crate) fn account(&self) -> Option<&'a Arc<ServiceAccountCoordinates>> {
        self.identity.map(|identity| &identity.account)
    }

    pub(crate) fn hold(&self) -> Arc<HeldQuestion> {
        Arc::new(HeldQuestion {
            image: self.image.into(),
            identity: self.identity.cloned(),
            keys: self.keys.clone(),
            flight_key: self.flight_key.into(),
        })
    }
}

impl HeldQuestion {
    /// As somebody. An answer belongs to the token alone, or to all of its account.
    pub(crate) fn of_somebody(
        image: &str,
        identity: Arc<Identity>,
        by_token: bool,
    ) -> Result<Self, CallError> {
        let Identity { account, annotations, token, .. } = &*identity;
        let hash = token_hash(token.expose());
        let token = by_token.then_some(&*hash);
        let key = ServiceAccountKey::new(account, annotations, token);
        let key = key.map_err(CallError::ServiceAccountKey)?;
        let keys = CacheKeys::new(image, key.as_bytes()).map_err(CallError::CacheKey)?;
        let flight_key = flight_key(image, &hash, annotations).map_err(CallError::CacheKey)?;
        Ok(Self { image: image.into(), identity: Some(identity), keys, flight_key })
    }

    pub(crate) fn get(&self) -> Question<'_> {
        let Self { image, identity, keys, flight_key } = self;
        Question { image, identity: identity.as_ref(), keys, flight_key }
    }
}
