//! One identity traded for that of a service account.

use std::{fmt, str::FromStr};

use keyfob_api::{Secret, Timestamp};
use keyfob_plugin::{Call, Doing as _, Failure};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;

use super::{
    SCOPE,
    token::{End, Token},
};
use crate::http::{Http, Reply};

#[derive(Debug)]
pub(super) struct Impersonation {
    http: Http,
    base: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated {
    access_token: String,
    #[serde(default)]
    expire_time: String,
}

impl Impersonation {
    pub(super) fn new(http: Http, url: &str) -> Self {
        Self { http, base: url.trim_end_matches('/').to_owned() }
    }

    pub(super) async fn token(
        &self,
        own: &Token,
        account: &Email,
        call: &Call,
    ) -> Result<Token, Failure> {
        call.step(format!("asking for a token of {account}"));
        let base = &self.base;
        let url = format!("{base}/v1/projects/-/serviceAccounts/{account}:generateAccessToken");
        let bearer = Secret::new(format!("Bearer {}", own.secret.expose()));
        let reply = self
            .http
            .post(url)
            .header("authorization", bearer.expose())
            .json(&json!({ "scope": [SCOPE] }))
            .send(call)
            .await
            .and_then(Reply::success)
            .doing(format_args!("impersonating {account}"))?;
        let Generated { access_token, expire_time } = reply.json()?;
        let end = Timestamp::parse(&expire_time).ok().and_then(Timestamp::to_system_time);
        Token::new(access_token.into(), end.map_or(End::Unsaid, End::At))
    }
}

/// The e-mail address of a service account. It becomes part of an address, so it can hold nothing that changes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Email(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "not the e-mail address of a service account, such as NAME@PROJECT.iam.gserviceaccount.com"
)]
pub(super) struct NotAnEmail;

impl FromStr for Email {
    type Err = NotAnEmail;

    fn from_str(text: &str) -> Result<Self, NotAnEmail> {
        const LONGEST: usize = 254;
        let is_word = |word: &str| {
            !word.is_empty()
                && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        let (name, domain) = text.split_once('@').ok_or(NotAnEmail)?;
        let is_host = domain.contains('.') && domain.split('.').all(is_word);
        let is_name = name.split('.').all(is_word);
        if !is_host || !is_name || text.len() > LONGEST {
            return Err(NotAnEmail);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_cannot_change_the_address_it_stands_in() {
        for good in
            ["puller@my-project.iam.gserviceaccount.com", "1-compute@developer.gserviceaccount.com"]
        {
            assert_eq!(good.parse::<Email>().map(|email| email.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "puller",
            "@a.b",
            "a@b",
            "a@b.",
            "a/../../x@b.c",
            "..@b.c",
            "a@b.c/d",
            "a@b.c:signBlob?",
            "a@b.c#",
            "a%2f@b.c",
            "a b@b.c",
            "a@b@c.d",
            "a@b.c\n",
        ] {
            assert_eq!(bad.parse::<Email>(), Err(NotAnEmail), "{bad:?}");
        }
        assert_eq!(format!("a@{}.c", "b".repeat(254)).parse::<Email>(), Err(NotAnEmail));
    }
}
