//! Whose request it is.
//!
//! Upstream: the bearer-token authenticators, and `impersonation.go` of `apiserver/pkg/endpoints/filters`.

use axum::http::{HeaderMap, HeaderValue};
use keyfob_control::rbac::Attributes;

use super::{
    Api,
    authorize::{attributes, refusal},
    claims::Claims,
    resources::{AUTHENTICATION, CORE},
    selector::Fields,
    signer,
    status::Refusal,
    store::Snapshot,
    users::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, account_groups, as_account},
};

/// A user whom a token belongs to, and for which of the wanted audiences it is.
#[derive(Clone, Debug)]
pub(super) struct Authenticated {
    pub(super) user: User,
    pub(super) audiences: Vec<String>,
}

impl Api {
    /// Whose token it is; why not, in upstream's words.
    pub(super) fn authenticate(
        &self,
        token: &str,
        wanted: &[String],
    ) -> Result<Authenticated, String> {
        if let Some(user) = self.tokens.find(token) {
            // These tokens say nothing of audiences: they are for this server.
            let audiences: Vec<String> =
                wanted.iter().filter(|each| **each == self.issuer).cloned().collect();
            let ours = !audiences.is_empty();
            return ours.then_some(Authenticated { user, audiences }).ok_or_else(unknown);
        }
        if !self.issued(token) {
            return Err(unknown());
        }
        let claims: Claims = self.signer.verify(token)?;
        let audiences = claims.audiences(wanted)?;
        let user = claims.holder(self.now(), &self.store.snapshot().objects)?;
        Ok(Authenticated { user, audiences })
    }

    /// Whether a token says that it is from here.
    fn issued(&self, token: &str) -> bool {
        let claims = token.split('.').nth(1).and_then(signer::part::<serde_json::Value>);
        claims.is_some_and(|claims| claims.get("iss").is_some_and(|issuer| *issuer == *self.issuer))
    }

    /// Who sent the request, or as whom.
    pub(super) fn user(&self, headers: &HeaderMap, snapshot: &Snapshot) -> Result<User, Refusal> {
        let user = match bearer(headers)? {
            None => User::anonymous(),
            Some(token) => {
                let found = self.authenticate(token, std::slice::from_ref(&self.issuer));
                found.map_err(|_| Refusal::unauthorized())?.user
            }
        };
        let wanted = Impersonation::read(headers)?;
        wanted.map_or(Ok(user.clone()), |wanted| wanted.by(&user, self, snapshot))
    }
}

fn unknown() -> String {
    "invalid bearer token".to_owned()
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(header) = headers.get("authorization") else { return Ok(None) };
    let header = header.to_str().map_err(|_| Refusal::unauthorized())?;
    let (scheme, token) = header.split_once(' ').ok_or_else(Refusal::unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(Refusal::unauthorized());
    }
    Ok(Some(token.trim()))
}

/// What a header says, as often as it stands there. Were one passed over that cannot be read, the request would be that of
/// whoever sent it.
fn texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Refusal> {
    let text = |value: &HeaderValue| String::from_utf8(value.as_bytes().to_vec());
    let texts: Result<Vec<String>, _> = headers.get_all(name).iter().map(text).collect();
    let mut texts = texts.map_err(|_| Refusal::bad_request(format!("{name} is not UTF-8")))?;
    texts.retain(|text| !text.is_empty());
    Ok(texts)
}

/// The headers of `kubectl --as`.
#[derive(Debug)]
struct Impersonation {
    user: String,
    groups: Vec<String>,
    uid: String,
}

impl Impersonation {
    fn read(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let first = |name: &str| Ok(texts(headers, name)?.into_iter().next().unwrap_or_default());
        let (user, uid) = (first("impersonate-user")?, first("impersonate-uid")?);
        let groups = texts(headers, "impersonate-group")?;
        if headers.keys().any(|name| name.as_str().starts_with("impersonate-extra-")) {
            return Err(Refusal::bad_request("Impersonate-Extra is not served here"));
        }
        match (user.is_empty(), groups.is_empty() && uid.is_empty()) {
            (true, true) => Ok(None),
            (true, false) => {
                Err(Refusal::bad_request("requested groups or uid without impersonating a user"))
            }
            (false, _) => Ok(Some(Self { user, groups, uid })),
        }
    }

    /// The user that is asked for, if this one may be that one.
    fn by(self, requestor: &User, api: &Api, snapshot: &Snapshot) -> Result<User, Refusal> {
        let account = as_account(&self.user);
        let (namespace, resource, name) = match account {
            Some((namespace, name)) => (namespace, "serviceaccounts", name),
            None => ("", "users", self.user.as_str()),
        };
        let mut wanted = vec![(CORE, namespace, resource, name)];
        wanted.extend(self.groups.iter().map(|group| (CORE, "", "groups", group.as_str())));
        if !self.uid.is_empty() {
            wanted.push((AUTHENTICATION, "", "uids", self.uid.as_str()));
        }
        for (group, namespace, resource, name) in wanted {
            let wanted = Attributes {
                api_group: group.to_owned(),
                namespace: namespace.to_owned(),
                resource: resource.to_owned(),
                name: name.to_owned(),
                ..attributes(requestor, "impersonate")
            };
            let opinion = api.authorize(&snapshot.objects, &wanted, &Fields::default());
            if !opinion.allowed {
                return Err(refusal(&wanted, &opinion.reason));
            }
        }
        Ok(self.into_user())
    }

    fn into_user(self) -> User {
        let Self { user: name, mut groups, uid } = self;
        if let Some((namespace, _)) = as_account(&name).filter(|_| groups.is_empty()) {
            groups = account_groups(namespace);
        }
        let has = |group: &str| groups.iter().any(|each| each == group);
        if name == ANONYMOUS {
            if !has(UNAUTHENTICATED) {
                groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        User { name, uid, groups, ..User::default() }
    }
}
