//! Service accounts that can be waited for, and none at all.
//!
//! Differs: a kubelet waits for its API server without a bound of its own.

use std::{sync::Arc, time::Duration};

use keyfob_exec::BoxFuture;
use tokio::time::timeout;

use super::{
    IdentityError, ServiceAccount, ServiceAccounts, ServiceAccountsError, Token, TokenRequest,
};

/// No answer may take longer than this.
#[derive(Debug)]
pub(super) struct Bounded {
    pub(super) accounts: Arc<dyn ServiceAccounts>,
    pub(super) timeout: Duration,
}

impl Bounded {
    async fn within<T>(
        &self,
        fetching: BoxFuture<'_, Result<T, IdentityError>>,
    ) -> Result<T, IdentityError> {
        let late = |_| {
            let seconds = self.timeout.as_secs_f64();
            IdentityError::Unavailable(ServiceAccountsError::new(format!(
                "no answer within {seconds} s: is the API server there?"
            )))
        };
        timeout(self.timeout, fetching).await.map_err(late)?
    }
}

impl ServiceAccounts for Bounded {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        Box::pin(self.within(self.accounts.get(namespace, name)))
    }

    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        Box::pin(self.within(self.accounts.token(request)))
    }
}

/// What a host has that was given no service accounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standalone;

impl ServiceAccounts for Standalone {
    fn get<'a>(
        &'a self,
        _namespace: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        Box::pin(async { Err(IdentityError::Standalone) })
    }

    fn token<'a>(
        &'a self,
        _request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        Box::pin(async { Err(IdentityError::Standalone) })
    }
}
