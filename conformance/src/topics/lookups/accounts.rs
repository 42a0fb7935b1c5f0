//! Service accounts as a question tells of them, and what is asked about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::SystemTime,
};

use keyfob_exec::BoxFuture;
use keyfob_host::{
    IdentityError, PodIdentity, PodReference, ServiceAccount, ServiceAccounts,
    ServiceAccountsError, Token, TokenRequest,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A service account, and what becomes of who asks for it or for a token of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Account {
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) uid: String,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
    /// Its tokens are told apart by it. Without one they are empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u32>,
    /// Why it is not to be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gone: Option<String>,
    /// Why no token of it is to be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<String>,
}

/// The pod that pulls.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) service_account: String,
}

impl Pod {
    pub(super) fn identity(&self) -> PodIdentity {
        PodIdentity {
            namespace: self.namespace.clone(),
            service_account: self.service_account.clone(),
            pod: Some(PodReference { name: self.name.clone(), uid: self.uid.clone() }),
        }
    }
}

/// All service accounts there are. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    accounts: BTreeMap<(String, String), Account>,
    got: Vec<String>,
    /// Each once, since who asks for the same at the same time gets one token.
    wanted: BTreeSet<String>,
}

impl Accounts {
    /// From now on it is like this.
    pub(super) fn set(&self, account: &Account) {
        let name = (account.namespace.clone(), account.name.clone());
        self.lock().accounts.insert(name, account.clone());
    }

    /// Which accounts and which tokens were asked for since it was last called; nothing if none was.
    pub(super) fn new_requests(&self) -> Option<Value> {
        let State { got, wanted, .. } = &mut *self.lock();
        let (mut got, wanted) = (std::mem::take(got), std::mem::take(wanted));
        got.sort();
        (!got.is_empty()).then(|| json!({ "accounts": got, "tokens": wanted }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl State {
    fn find(&self, namespace: &str, name: &str) -> Result<&Account, IdentityError> {
        let missing = || {
            let message = format!("serviceaccounts {name:?} not found");
            IdentityError::NotFound(ServiceAccountsError::new(message))
        };
        self.accounts.get(&(namespace.to_owned(), name.to_owned())).ok_or_else(missing)
    }

    fn get(&self, namespace: &str, name: &str) -> Result<ServiceAccount, IdentityError> {
        let account = self.find(namespace, name)?;
        match account.gone.clone() {
            Some(why) => Err(IdentityError::Unavailable(ServiceAccountsError::new(why))),
            None => Ok(ServiceAccount {
                uid: account.uid.clone(),
                annotations: account.annotations.clone(),
            }),
        }
    }

    fn token(&self, request: &TokenRequest, wanted: &str) -> Result<String, IdentityError> {
        let account = self.find(&request.namespace, &request.service_account)?;
        if let Some(why) = account.refused.clone() {
            return Err(IdentityError::Forbidden(ServiceAccountsError::new(why)));
        }
        let token = |generation| format!("{wanted}, {generation}");
        Ok(account.generation.map(token).unwrap_or_default())
    }
}

impl ServiceAccounts for Accounts {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        let mut state = self.lock();
        state.got.push(format!("{namespace}/{name}"));
        let account = state.get(namespace, name);
        Box::pin(async { account })
    }

    /// A token has expired when it comes, so that none is kept: upstream's tokens are not kept here either.
    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        let wanted = wanted(request);
        let mut state = self.lock();
        let token = state.token(request, &wanted);
        state.wanted.insert(wanted);
        Box::pin(async {
            Ok(Token { token: token?.into(), expires: SystemTime::UNIX_EPOCH, lifetime: None })
        })
    }
}

/// All that is said when a token is asked for.
fn wanted(request: &TokenRequest) -> String {
    let TokenRequest { namespace, service_account, service_account_uid, audiences, .. } = request;
    let PodReference { name, uid } = request.pod.clone().unwrap_or_default();
    let audiences = audiences.join(" ");
    let seconds = request.expiration_seconds.map(|seconds| format!(" for {seconds} s"));
    let seconds = seconds.unwrap_or_default();
    format!(
        "{namespace}/{service_account}/{service_account_uid} for {audiences} in {name}/{uid}{seconds}"
    )
}
