//! A token of Google, and when it ends.

use std::time::{Duration, SystemTime};

use keyfob_api::Secret;
use keyfob_plugin::{Answer, Call, Failure, Margin};
use serde::Deserialize;

use super::registries;

/// The name that every registry of Google takes with a token.
const USERNAME: &str = "_token";

/// The metadata service hands out the same token until it has less than this to live.
const MARGIN: Margin = Margin::Fixed(Duration::from_mins(5));

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) secret: Secret<String>,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    At(SystemTime),
    /// Nobody said, and the token may be old: it is not kept.
    Unsaid,
    /// Nobody said, but it was issued a moment ago: the kubelet's configuration decides.
    Unknown,
}

/// How OAuth answers.
#[derive(Deserialize)]
pub(super) struct Issued {
    access_token: String,
    expires_in: Option<i64>,
}

impl Issued {
    pub(super) fn token(self, call: &Call) -> Result<Token, Failure> {
        let after = |seconds: i64| {
            let life = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            call.now().checked_add(life).map_or(End::Unsaid, End::At)
        };
        let end = self.expires_in.map_or(End::Unsaid, after);
        Token::new(self.access_token.into(), end)
    }
}

impl Token {
    pub(super) fn new(secret: Secret<String>, end: End) -> Result<Self, Failure> {
        if secret.expose().trim().is_empty() {
            return Err(Failure::new("the token in the answer is empty"));
        }
        Ok(Self { secret, end })
    }

    /// The login for Google's registries, and for one more.
    pub(super) fn answer(&self, one_more: Option<&str>) -> Answer {
        let [first, others @ ..] = registries::GOOGLE;
        let login = Answer::login(first, USERNAME, self.secret.clone());
        let keys = others.into_iter().chain(one_more);
        let answer = keys.fold(login, |answer, key| answer.and(key, USERNAME, self.secret.clone()));
        match self.end {
            End::At(end) => answer.expires_at(end, MARGIN),
            End::Unsaid => answer.cached_for(Duration::ZERO),
            End::Unknown => answer,
        }
    }
}
