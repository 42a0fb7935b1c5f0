//! What a client has shown to its server, which may repeat it.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use http::{HeaderValue, Request, header::AUTHORIZATION};
use keyfob_api::SecretSet;

/// Remembers the credentials of requests. A request with the same credential as the one before takes no lock.
#[derive(Clone)]
pub(super) struct Shown {
    secrets: SecretSet,
    last: Arc<ArcSwapOption<HeaderValue>>,
}

impl Shown {
    pub(super) fn new(secrets: SecretSet) -> Self {
        Self { secrets, last: Arc::default() }
    }

    /// Remembers the credential of a request that is on its way.
    pub(super) fn note<B>(&self, request: Request<B>) -> Request<B> {
        if let Some(header) = request.headers().get(AUTHORIZATION)
            && self.last.load().as_deref() != Some(header)
        {
            self.secrets.learn_authorization(&String::from_utf8_lossy(header.as_bytes()));
            self.last.store(Some(Arc::new(header.clone())));
        }
        request
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.secrets).finish()
    }
}
