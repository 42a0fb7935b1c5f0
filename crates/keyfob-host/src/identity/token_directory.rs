//! Service accounts and their tokens from a directory, for those who may not ask an API server.
//!
//! The directory is a projected volume, or one that files were copied to. Files that end in `.yaml`, `.yml` or `.json` are
//! what `kubectl get serviceaccount -o yaml` prints: an account's uid and annotations. Every other file is a token, under
//! any name; what it is good for is read from its claims. Names that begin with a dot are passed over, as kubelets keep
//! their own there (`..data`), and directories are not entered; links are followed. Everything is read anew for each
//! question, since kubelets replace tokens before they end.
//!
//! Upstream: none; a kubelet asks the API server.

mod manifest;
mod scan;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use keyfob_api::{Claims, Timestamp};
use keyfob_exec::{BoxFuture, Clock};

use self::scan::{Scan, TokenFile};
use super::{
    IdentityError, ServiceAccount, ServiceAccounts, ServiceAccountsError, Token, TokenRequest,
};

/// A directory of tokens, and of manifests of service accounts.
///
/// An account without a manifest is known if a token speaks of it; it has no annotations then, unless a manifest cannot be
/// read: nobody knows whose that is. Of the tokens that fit a
/// request, the one that ends last is given: one of the account, for its audience, not at its end, and, if the request
/// names a pod, bound to that pod or to none. No signature is verified.
#[derive(Clone, Debug)]
pub struct TokenDirectory {
    path: Arc<Path>,
    clock: Arc<dyn Clock>,
}

impl TokenDirectory {
    /// A directory. Nothing is read yet.
    pub fn new(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { path: path.into().into(), clock }
    }

    /// Files may be slow: whoever else is waiting goes on meanwhile.
    async fn read<T: Send + 'static>(
        &self,
        choose: impl FnOnce(Scan) -> Result<T, IdentityError> + Send + 'static,
    ) -> Result<T, IdentityError> {
        let path = self.path.clone();
        let reading = tokio::task::spawn_blocking(move || choose(Scan::of(&path)?));
        let lost = "reading the token directory was given up";
        reading
            .await
            .unwrap_or_else(|_| Err(IdentityError::Unavailable(ServiceAccountsError::new(lost))))
    }
}

impl ServiceAccounts for TokenDirectory {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ServiceAccount, IdentityError>> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Box::pin(self.read(move |scan| account(&scan, &namespace, &name)))
    }

    fn token<'a>(
        &'a self,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<Token, IdentityError>> {
        let (request, now) = (request.clone(), self.clock.now());
        Box::pin(self.read(move |scan| token(&scan, &request, now)))
    }
}

fn account(scan: &Scan, namespace: &str, name: &str) -> Result<ServiceAccount, IdentityError> {
    let of_it = |file: &&TokenFile| file.claims.service_account() == Some((namespace, name));
    // A token of an earlier account of that name may still lie about.
    let last = scan.tokens.iter().filter(of_it).max_by_key(|file| file.claims.expires);
    let claimed = last.map(|file| uid(&file.claims).unwrap_or_default());
    let manifest = scan.accounts.iter().find(|(key, _)| key.0 == namespace && key.1 == name);
    let mut account = match (manifest, claimed) {
        (Some((_, account)), _) => account.clone(),
        (None, Some(_)) => scan.every_manifest_is_read().map(|()| ServiceAccount::default())?,
        (None, None) => {
            let others = |claims: &Claims| Some(whose(claims));
            return Err(scan.nothing(&format!("service account {namespace}/{name}"), others));
        }
    };
    if account.uid.is_empty() {
        claimed.unwrap_or_default().clone_into(&mut account.uid);
    }
    Ok(account)
}

fn token(scan: &Scan, request: &TokenRequest, now: SystemTime) -> Result<Token, IdentityError> {
    let fits = |file: &&TokenFile| why_not(&file.claims, request, now).is_none();
    let best = scan.tokens.iter().filter(fits).max_by_key(|file| file.claims.expires);
    let token = best.and_then(|file| {
        let expires = file.claims.expires?;
        let lifetime = file.claims.issued.and_then(|start| expires.duration_since(start).ok());
        Some(Token { token: file.token.clone(), expires, lifetime })
    });
    token.ok_or_else(|| {
        let TokenRequest { namespace, service_account, audiences, .. } = request;
        let what = format!(
            "token of service account {namespace}/{service_account} for audience {}",
            audiences.join(", ")
        );
        scan.nothing(&what, |claims| why_not(claims, request, now))
    })
}

/// Why a token does not fit; nothing if it does.
fn why_not(claims: &Claims, request: &TokenRequest, now: SystemTime) -> Option<String> {
    let wanted = (request.namespace.as_str(), request.service_account.as_str());
    if claims.service_account() != Some(wanted) {
        return Some(whose(claims));
    }
    if is_another(uid(claims), &request.service_account_uid) {
        return Some("is of an earlier account of that name".to_owned());
    }
    if !request.audiences.iter().all(|audience| claims.audiences.contains(audience)) {
        return Some(format!("is for audience {}", claims.audiences.join(", ")));
    }
    match claims.expires {
        None => return Some("does not say when it ends".to_owned()),
        Some(end) if end <= now => return Some(format!("expired at {}", Timestamp::from(end))),
        Some(_) => {}
    }
    let (pod, bound) = (request.pod.as_ref()?, claims.kubernetes.pod.as_ref()?);
    let is_another =
        is_another(Some(&bound.name), &pod.name) || is_another(Some(&bound.uid), &pod.uid);
    is_another.then(|| format!("is bound to pod {} ({})", bound.name, bound.uid))
}

/// What is not said or not wanted is no other.
fn is_another(claimed: Option<&str>, wanted: &str) -> bool {
    !wanted.is_empty() && claimed.is_some_and(|claimed| claimed != wanted)
}

fn whose(claims: &Claims) -> String {
    format!("is of {}", claims.subject.as_deref().unwrap_or("nobody"))
}

fn uid(claims: &Claims) -> Option<&str> {
    claims.kubernetes.service_account.as_ref().map(|account| account.uid.as_str())
}
