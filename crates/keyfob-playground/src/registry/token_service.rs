//! `GET /token?service=&scope=`: a bearer token for a login.
//!
//! Upstream: docker's token authentication specification. `POST`, which is OAuth's, is answered 405, as clients expect of a
//! service that has only the older form.

use axum::body::Body;
use http::{HeaderMap, Response, StatusCode, Uri, header::AUTHORIZATION};
use keyfob_api::Timestamp;
use serde_json::json;

use super::{
    Server,
    access::{Access, Right},
    answer::{json_response, pairs},
    refusal::{Code, Refusal},
    scope::Scope,
    tokens::Token,
    users::Visitor,
};

impl Server {
    /// A token for what is asked and may be had. Whoever is known gets one in any case, and learns from the registry what it
    /// does not open; whoever is not, only if it opens something.
    pub(super) fn issue_token(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        who: &mut Option<String>,
    ) -> Result<Response<Body>, Refusal> {
        if self.access != Access::Bearer {
            return Err(Refusal::no_such_path());
        }
        let visitor = if headers.contains_key(AUTHORIZATION) {
            self.login(headers).ok_or_else(|| self.no_such_login())?
        } else {
            Visitor::Stranger
        };
        *who = visitor.name().map(str::to_owned);
        let query = pairs(uri.query().unwrap_or_default());
        let all = |name: &'static str| {
            query.iter().filter(move |(each, _)| each == name).map(|(_, value)| value.as_str())
        };
        if all("service").any(|service| service != self.service) {
            let message = format!("tokens are for the service {} here", self.service);
            return Err(Refusal::new(Code::Unsupported, message).status(StatusCode::BAD_REQUEST));
        }
        let scopes = self.granted(&visitor, Scope::parse_all(all("scope")));
        if visitor == Visitor::Stranger && scopes.is_empty() {
            return Err(self.no_such_login());
        }
        self.token_response(visitor, scopes)
    }

    /// What remains of the scopes that are asked for.
    fn granted(&self, visitor: &Visitor, asked: Vec<Scope>) -> Vec<Scope> {
        let granted = |scope: Scope| {
            let may = |right: &Right| self.users.may(visitor, &scope.repository, *right);
            let right = [scope.right, Right::Pull].into_iter().find(may)?;
            Some(Scope { right, ..scope })
        };
        asked.into_iter().filter_map(granted).collect()
    }

    fn token_response(
        &self,
        visitor: Visitor,
        scopes: Vec<Scope>,
    ) -> Result<Response<Body>, Refusal> {
        let now = self.clock.now();
        let token = Token { visitor, scopes, ends: now + self.token_lifetime };
        let token = self.tokens.issue(token, now);
        let token = token.ok_or_else(|| Refusal::internal("the system gives no random numbers"))?;
        Ok(json_response(&json!({
            "token": token.expose(),
            "access_token": token.expose(),
            "expires_in": self.token_lifetime.as_secs(),
            "issued_at": Timestamp::from(now).to_string(),
        })))
    }
}
