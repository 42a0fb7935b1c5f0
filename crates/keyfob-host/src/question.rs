//! What a provider is asked: about which image, and as whom.

use std::{sync::Arc, time::Duration};

use keyfob_keyring::ServiceAccountCoordinates;

use crate::{
    CallError, Identity, Pull, ServiceAccountKey,
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
    /// How long a cached answer must still be valid.
    pub(crate) fresh_for: Duration,
    /// In whose turn a run is; nothing if it comes first.
    pub(crate) caller: Option<&'a Arc<str>>,
}

/// A question that can be waited with.
#[derive(Debug)]
pub(crate) struct HeldQuestion {
    image: Box<str>,
    identity: Option<Arc<Identity>>,
    keys: CacheKeys,
    flight_key: Box<[u8]>,
    fresh_for: Duration,
    caller: Option<Arc<str>>,
}

impl<'a> Question<'a> {
    /// Without a service account.
    pub(crate) fn of_nobody(pull: &'a Pull, keys: &'a CacheKeys) -> Self {
        let image = pull.image();
        Self {
            image,
            identity: None,
            keys,
            flight_key: image.as_bytes(),
            fresh_for: pull.wanted_lifetime(),
            caller: pull.caller(),
        }
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
            fresh_for: self.fresh_for,
            caller: self.caller.cloned(),
        })
    }
}

impl HeldQuestion {
    /// As somebody. An answer belongs to the token alone, or to all of its account.
    pub(crate) fn of_somebody(
        pull: &Pull,
        identity: Arc<Identity>,
        by_token: bool,
    ) -> Result<Self, CallError> {
        let image = pull.image();
        let Identity { account, annotations, token, .. } = &*identity;
        let hash = token_hash(token.expose());
        let token = by_token.then_some(&*hash);
        let key = ServiceAccountKey::new(account, annotations, token);
        let key = key.map_err(CallError::ServiceAccountKey)?;
        let keys = CacheKeys::new(image, key.as_bytes()).map_err(CallError::CacheKey)?;
        let flight_key = flight_key(image, &hash, annotations).map_err(CallError::CacheKey)?;
        Ok(Self {
            image: image.into(),
            identity: Some(identity),
            keys,
            flight_key,
            fresh_for: pull.wanted_lifetime(),
            caller: pull.caller().cloned(),
        })
    }

    pub(crate) fn get(&self) -> Question<'_> {
        let Self { image, identity, keys, flight_key, fresh_for, caller } = self;
        let (identity, fresh_for, caller) = (identity.as_ref(), *fresh_for, caller.as_ref());
        Question { image, identity, keys, flight_key, fresh_for, caller }
    }
}
