//! How a review ended, and what follows from it.

use std::time::Duration;

use axum::http::StatusCode;

use crate::{
    rule::{Asked, Verdict},
    webhook::{
        OnUndecided,
        answer::{Answer, Refusal},
    },
};

/// How a review ended.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The rule decided.
    Decided(Verdict),
    /// The API server could not be asked, for this reason.
    Unanswered(String),
    /// The time was over.
    TooSlow(Duration),
    /// Too many were on their way. This is refused whatever the choice is, or a flood would open the door.
    Overloaded,
}

impl Decision {
    /// What decided, for people and metrics.
    pub(crate) fn clause(&self) -> &'static str {
        match self {
            Self::Decided(verdict) => verdict.name(),
            Self::Unanswered(_) => "api-server-unanswered",
            Self::TooSlow(_) => "out-of-time",
            Self::Overloaded => "overloaded",
        }
    }

    pub(crate) fn is_undecided(&self) -> bool {
        !matches!(self, Self::Decided(_))
    }

    pub(crate) fn allows(&self, on_undecided: OnUndecided) -> bool {
        match self {
            Self::Decided(verdict) => verdict.allowed(),
            Self::Unanswered(_) | Self::TooSlow(_) => on_undecided == OnUndecided::Allow,
            Self::Overloaded => false,
        }
    }

    pub(crate) fn answer(&self, uid: String, on_undecided: OnUndecided) -> Answer {
        let clause = self.clause();
        match (self.allows(on_undecided), self.is_undecided()) {
            (true, false) => Answer::allowed(uid, clause),
            (true, true) => {
                let warning = format!("keyfob allowed this without a decision: {}", self.reason());
                Answer::allowed_with(warning, uid, clause)
            }
            (false, false) => Answer::refused(self.refusal(), uid, clause),
            (false, true) => Answer::refused(self.refusal().for_now(), uid, clause),
        }
    }

    fn refusal(&self) -> Refusal {
        let (code, reason) = match self {
            Self::Decided(verdict) if verdict.code() == 404 => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Decided(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::Unanswered(_) | Self::TooSlow(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable")
            }
            Self::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        };
        Refusal::new(code, reason, self.reason())
    }

    fn reason(&self) -> String {
        match self {
            Self::Decided(verdict) => verdict.message(),
            Self::Unanswered(error) => format!("the API server could not be asked: {error}"),
            Self::TooSlow(budget) => format!("there was no decision within {budget:?}"),
            Self::Overloaded => "too many requests for tokens at once".to_owned(),
        }
    }

    /// Never the object: what was asked, and what became of it.
    pub(crate) fn log(&self, uid: &str, asked: &Asked, on_undecided: OnUndecided) {
        let outcome = if self.allows(on_undecided) { "allowed" } else { "refused" };
        let uid = brief(uid);
        let node = brief(asked.user.strip_prefix("system:node:").unwrap_or(&asked.user));
        let pod = asked.bound.as_ref().map_or("", |bound| brief(&bound.name));
        let audiences = asked.audiences.iter().map(|audience| brief(audience));
        let audience = audiences.take(3).collect::<Vec<_>>().join(",");
        let (namespace, service_account) = (brief(&asked.namespace), brief(&asked.service_account));
        macro_rules! log {
            ($level:ident, $sentence:literal $(, $error:ident)?) => {
                tracing::$level!(
                    uid, clause = self.clause(), outcome, node, namespace, service_account, pod, audience
                    $(, $error)?, $sentence
                )
            };
        }
        let error = self.reason();
        match (self.is_undecided(), outcome) {
            (true, _) => log!(warn, "no decision about a token", error),
            (false, "allowed") => log!(debug, "token allowed"),
            (false, _) => log!(info, "token refused"),
        }
    }
}

/// A node may ask for anything, and so may whoever reaches the port; a log need not hold all of it.
fn brief(text: &str) -> &str {
    const MOST: usize = 256;
    text.get(..text.floor_char_boundary(MOST)).unwrap_or_default()
}
