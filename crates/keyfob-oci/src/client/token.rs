//! A token, from the server that a registry names.
//!
//! Upstream: the distribution project's token specification, and docker's client for the second kind of login.

use http::{Method, header};
use keyfob_api::{Secret, speaks_of_a_secret};
use keyfob_keyring::Login;
use keyfob_net::{ConnectionError, named};
use reqwest::Url;

use super::{
    Repository,
    answer::Answer,
    challenge::Bearer,
    grant::{Grant, TokenAnswer},
    said::form,
};
use crate::PullError;

/// In the place of a user name: the password is a token to get tokens with.
const IDENTITY_TOKEN: &str = "<token>";

const CLIENT_ID: &str = "keyfob";

/// No token comes near this.
const LARGEST_TOKEN: u64 = 64 << 10;

impl Repository {
    /// A token for this repository. Redirects are not followed: a login goes where the registry says and nowhere else.
    pub(super) async fn token(&self, bearer: &Bearer) -> Result<Grant, PullError> {
        let realm: Url = bearer.realm.parse().map_err(|_| PullError::BadAnswer {
            what: self.endpoint.name(),
            reason: "names a token server that is no address".into(),
        })?;
        self.client.0.plain_http.check(&realm, "the registry names it as its token server")?;
        let mut answer = self.ask_token_server(&realm, bearer).await?;
        if !answer.status().is_success() {
            return Err(answer.failure(&self.secrets).await);
        }
        let body = answer.body(LARGEST_TOKEN).await?;
        for secret in issued(body.expose()) {
            self.secrets.learn_issued(&secret);
        }
        let what = || answer.what().to_owned();
        let token: TokenAnswer = keyfob_net::json(body.expose())
            .map_err(|error| PullError::BadAnswer { what: what(), reason: error.to_string() })?;
        let grant = token.grant(self.client.0.clock.now());
        grant.filter(|grant| grant.header(None).is_some()).ok_or_else(|| PullError::BadAnswer {
            what: what(),
            reason: "the answer holds no token that can be sent".into(),
        })
    }

    async fn ask_token_server(&self, realm: &Url, bearer: &Bearer) -> Result<Answer, PullError> {
        let identity_token = self.login.as_ref().filter(|login| &*login.username == IDENTITY_TOKEN);
        let method = if identity_token.is_some() { Method::POST } else { Method::GET };
        let what = self.secrets.redact(&named(&method, realm.as_str()));
        let unanswered = |error| PullError::unanswered(what.clone(), error);
        let client = self.client.0.clients.client(realm.scheme() == "https").map_err(unanswered)?;
        let request = match (identity_token, &self.login) {
            (Some(login), _) => client
                .post(realm.clone())
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(self.refresh_form(login, bearer)),
            (None, login) => {
                let shown =
                    Grant::Basic.header(login.as_ref()).map(|shown| (header::AUTHORIZATION, shown));
                let address = self.token_address(realm, bearer);
                client.get(address).headers(shown.into_iter().collect())
            }
        };
        let response =
            request.send().await.map_err(|error| unanswered(ConnectionError::of(error)))?;
        Ok(Answer::new(what, response, false, self.client.0.pace))
    }

    fn token_address(&self, realm: &Url, bearer: &Bearer) -> Url {
        let mut address = realm.clone();
        let mut query = address.query_pairs_mut();
        query.extend_pairs(bearer.service.iter().map(|service| ("service", service)));
        query.extend_pairs(self.scopes(bearer).iter().map(|scope| ("scope", scope)));
        drop(query);
        address
    }

    fn refresh_form(&self, login: &Login, bearer: &Bearer) -> String {
        let scope = self.scopes(bearer).join(" ");
        let fields = [
            ("grant_type", "refresh_token"),
            ("service", bearer.service.as_deref().unwrap_or_default()),
            ("client_id", CLIENT_ID),
            ("scope", &scope),
            ("refresh_token", login.password.expose()),
        ];
        form(&fields).expose().clone()
    }

    /// What we need, and what the registry says that we need, which may have another name for the repository.
    fn scopes(&self, bearer: &Bearer) -> Vec<String> {
        let ours = self.endpoint.scope();
        let theirs = bearer.scope.iter().flat_map(|scope| scope.split_whitespace());
        let theirs = theirs.filter(|scope| *scope != ours).map(str::to_owned).take(8);
        let theirs: Vec<_> = theirs.collect();
        std::iter::once(ours).chain(theirs).collect()
    }
}

/// Every secret in a token server's answer, also those that are of no use here.
fn issued(body: &[u8]) -> Vec<Secret<String>> {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let fields = answer.as_object().into_iter().flatten();
    let secrets = fields.filter(|(name, _)| speaks_of_a_secret(name));
    secrets.filter_map(|(_, value)| value.as_str()).map(Secret::from).collect()
}
