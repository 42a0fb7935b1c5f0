//! Whose request it is, and whether they may.
//!
//! Upstream: RFC 6750 for `error` in a challenge; docker's token authentication for the rest.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};
use keyfob_api::Secret;

use super::{
    Server,
    access::{Access, Right},
    name::Repository,
    refusal::{Code, Refusal},
    scope::Scope,
    users::Visitor,
};

/// Who asks, and what their token opens, if it was a token that they showed.
#[derive(Debug)]
pub(super) struct Identified {
    pub(super) visitor: Visitor,
    scopes: Option<Vec<Scope>>,
}

/// Why whoever asks must show something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Complaint {
    /// Nothing was shown, or nothing that says who it is.
    Missing,
    InvalidToken,
    InsufficientScope,
}

impl Server {
    /// Who asks. `wanted` is what the challenge asks for.
    pub(super) fn identify(
        &self,
        headers: &HeaderMap,
        wanted: Option<&Scope>,
    ) -> Result<Identified, Refusal> {
        let stranger = Identified { visitor: Visitor::Stranger, scopes: None };
        match (self.access, headers.contains_key(AUTHORIZATION)) {
            (Access::Anonymous, _) => Ok(stranger),
            (Access::Basic, false) if wanted.is_some() => Ok(stranger),
            (Access::Basic, _) => match self.login(headers) {
                Some(visitor) => Ok(Identified { visitor, scopes: None }),
                None => Err(self.challenge(wanted, Complaint::Missing)),
            },
            (Access::Bearer, _) => {
                let token = credentials(headers, "bearer");
                let token = token.ok_or_else(|| self.challenge(wanted, Complaint::Missing))?;
                let found = self.tokens.find(token, self.clock.now());
                let found = found.ok_or_else(|| self.challenge(wanted, Complaint::InvalidToken))?;
                Ok(Identified { visitor: found.visitor, scopes: Some(found.scopes) })
            }
        }
    }

    /// Whether they may. Whoever could prove that they may is asked to; whoever has proved who they are, and may not, is denied.
    pub(super) fn authorize(&self, who: &Identified, wanted: &Scope) -> Result<(), Refusal> {
        if self.may(who, &wanted.repository, wanted.right) {
            return Ok(());
        }
        let is_entitled = self.users.may(&who.visitor, &wanted.repository, wanted.right);
        match (&who.visitor, &who.scopes) {
            (Visitor::User(name), _) if !is_entitled => {
                let message = format!("{name} may not do this: {wanted}");
                Err(Refusal::new(Code::Denied, message))
            }
            (_, Some(_)) => Err(self.challenge(Some(wanted), Complaint::InsufficientScope)),
            (_, None) => Err(self.challenge(Some(wanted), Complaint::Missing)),
        }
    }

    pub(super) fn may(&self, who: &Identified, repository: &Repository, right: Right) -> bool {
        match (self.access, &who.scopes) {
            (Access::Anonymous, _) => true,
            (_, Some(scopes)) => scopes.iter().any(|scope| scope.covers(repository, right)),
            (_, None) => self.users.may(&who.visitor, repository, right),
        }
    }

    /// Whose name and password it is.
    pub(super) fn login(&self, headers: &HeaderMap) -> Option<Visitor> {
        let decoded = BASE64_STANDARD.decode(credentials(headers, "basic")?).ok()?;
        let both = Secret::new(String::from_utf8(decoded).ok()?);
        let (name, password) = both.expose().split_once(':')?;
        self.users.check(name, password, self.clock.now())
    }

    fn challenge(&self, wanted: Option<&Scope>, complaint: Complaint) -> Refusal {
        let scope = wanted.map(|scope| format!(r#",scope="{scope}""#)).unwrap_or_default();
        let error = match complaint {
            Complaint::Missing => "",
            Complaint::InvalidToken => r#",error="invalid_token""#,
            Complaint::InsufficientScope => r#",error="insufficient_scope""#,
        };
        let (realm, service) = (format!("http://{}/token", self.address), &self.service);
        let challenge = match self.access {
            Access::Bearer => {
                format!(r#"Bearer realm="{realm}",service="{service}"{scope}{error}"#)
            }
            Access::Anonymous | Access::Basic => format!(r#"Basic realm="{service}""#),
        };
        unauthorized("authentication required", &challenge)
    }

    /// What the token service says to whoever shows the wrong login, or none.
    pub(super) fn no_such_login(&self) -> Refusal {
        unauthorized("no such user or password", &format!(r#"Basic realm="{}""#, self.service))
    }
}

fn unauthorized(message: &str, challenge: &str) -> Refusal {
    let refusal = Refusal::new(Code::Unauthorized, message);
    match HeaderValue::from_str(challenge) {
        Ok(challenge) => refusal.header(WWW_AUTHENTICATE, challenge),
        Err(_) => refusal,
    }
}

/// What follows the scheme in `Authorization`.
pub(super) fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let (said, credentials) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    said.eq_ignore_ascii_case(scheme).then(|| credentials.trim())
}
