//! What lets us in, and for how long.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use aws_lc_rs::digest::{Context, SHA256};
use http::HeaderValue;
use keyfob_api::Secret;
use keyfob_keyring::Login;
use serde::Deserialize;

use super::said::basic;

/// What is shown to a registry.
#[derive(Debug)]
pub(crate) enum Grant {
    /// The login itself.
    Basic,
    /// A token, for as long as it lives.
    Bearer { token: Secret<String>, until: SystemTime },
}

impl Grant {
    /// The header that shows it; nothing if it cannot stand in one.
    pub(crate) fn header(&self, login: Option<&Login>) -> Option<HeaderValue> {
        let shown = match self {
            Self::Basic => format!("Basic {}", basic(login?).expose()),
            Self::Bearer { token, .. } => format!("Bearer {}", token.expose()),
        };
        let shown = Secret::new(shown);
        let mut header = HeaderValue::from_str(shown.expose()).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    pub(crate) fn token(&self) -> Option<&Secret<String>> {
        match self {
            Self::Basic => None,
            Self::Bearer { token, .. } => Some(token),
        }
    }

    pub(crate) fn is_alive(&self, now: SystemTime) -> bool {
        match self {
            Self::Basic => true,
            Self::Bearer { until, .. } => now < *until,
        }
    }
}

/// What a token server answers. Either name of the token will do.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    #[serde(default)]
    expires_in: serde_json::Value,
}

impl TokenAnswer {
    /// The token; nothing if there is none.
    pub(crate) fn grant(self, now: SystemTime) -> Option<Grant> {
        let (token, access_token) =
            (self.token.map(Secret::new), self.access_token.map(Secret::new));
        let is_given = |token: &Secret<String>| !token.expose().is_empty();
        let token = token.filter(is_given).or(access_token.filter(is_given))?;
        Some(Grant::Bearer { token, until: now + lifetime(&self.expires_in) })
    }
}

/// A minute if it is not told, as the protocol has it. It is renewed a little before it ends.
fn lifetime(expires_in: &serde_json::Value) -> Duration {
    const DEFAULT: u64 = 60;
    const LONGEST: u64 = 24 * 60 * 60;
    let told = expires_in.as_u64().filter(|seconds| *seconds > 0).unwrap_or(DEFAULT);
    Duration::from_secs(told.min(LONGEST)).mul_f32(0.9)
}

/// What is known for each registry, repository and login.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<HashMap<Key, Arc<Slot>>>);

/// The grant of one of them. Whoever renews it holds it, and the others wait and then use what came.
pub(crate) type Slot = tokio::sync::Mutex<Option<Arc<Grant>>>;

/// For what a grant is good. Of the login there is only a hash.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    repository: String,
    login: Option<Box<[u8]>>,
}

impl Key {
    /// `repository` is a whole address.
    pub(crate) fn new(repository: String, login: Option<&Login>) -> Self {
        let hash = |login: &Login| {
            let mut context = Context::new(&SHA256);
            // With its length in front, no user name can run into a password.
            context.update(&(login.username.len() as u64).to_be_bytes());
            context.update(login.username.as_bytes());
            context.update(login.password.expose().as_bytes());
            context.finish().as_ref().into()
        };
        Self { repository, login: login.map(hash) }
    }
}

impl Grants {
    pub(crate) fn slot(&self, key: Key) -> Arc<Slot> {
        const MOST: usize = 256;
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST {
            // What nobody holds can be had again.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::LeakCheck;
    use serde_json::json;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn granted(answer: serde_json::Value) -> Option<(String, u64)> {
        let answer: TokenAnswer = serde_json::from_value(answer).unwrap();
        let Grant::Bearer { token, until } = answer.grant(NOW)? else { panic!("no token") };
        Some((token.expose().clone(), until.duration_since(NOW).unwrap().as_secs()))
    }

    #[test]
    fn a_token_has_two_names_and_a_lifetime_that_may_be_anything() {
        let rows = [
            (json!({"token": "a", "expires_in": 300}), Some(("a", 270))),
            (json!({"access_token": "b"}), Some(("b", 54))),
            (json!({"token": "a", "access_token": "b", "expires_in": "300"}), Some(("a", 54))),
            (json!({"token": "", "access_token": "b", "expires_in": -1}), Some(("b", 54))),
            (json!({"token": "a", "expires_in": u64::MAX}), Some(("a", 77760))),
            (json!({"token": null}), None),
            (json!({}), None),
        ];
        for (answer, expected) in rows {
            let expected = expected.map(|(token, lives)| (token.to_owned(), lives));
            assert_eq!(granted(answer.clone()), expected, "{answer}");
        }
    }

    #[test]
    fn a_grant_is_shown_to_the_registry_and_to_nobody_else() {
        let login =
            Login { username: "ada".into(), password: "hunter2".into(), ..Login::default() };
        let token = Grant::Bearer { token: "hunter2-token".into(), until: NOW };
        let leaks = LeakCheck::new(["hunter2", "YWRhOmh1bnRlcjI"]);
        for grant in [&token, &Grant::Basic] {
            let header = grant.header(Some(&login)).unwrap();
            leaks.debug("a grant", grant).debug("a header", &header);
        }
        leaks.debug("a key", &Key::new("r".into(), Some(&login)));
        assert_eq!(Grant::Basic.header(Some(&login)).unwrap(), "Basic YWRhOmh1bnRlcjI=");
        assert_eq!(Grant::Basic.header(None), None);
        let unfit = Grant::Bearer { token: "a\nb".into(), until: NOW };
        assert_eq!(unfit.header(None), None);
    }

    #[test]
    fn each_login_has_grants_of_its_own_and_those_not_in_use_are_forgotten() {
        let login = |username: &str, password: &str| Login {
            username: username.into(),
            password: password.into(),
            ..Login::default()
        };
        let grants = Grants::default();
        let slot = |login: Option<&Login>| grants.slot(Key::new("https://r.io/app".into(), login));
        let ada = slot(Some(&login("ada", "x")));

        assert!(Arc::ptr_eq(&ada, &slot(Some(&login("ada", "x")))));
        for other in [Some(login("adax", "")), Some(login("ada", "y")), None] {
            assert!(!Arc::ptr_eq(&ada, &slot(other.as_ref())));
        }
        for number in 0..2_000 {
            grants.slot(Key::new(number.to_string(), None));
        }
        assert!(grants.0.lock().unwrap().len() <= 256);
        assert!(Arc::ptr_eq(&ada, &slot(Some(&login("ada", "x")))));
    }
}
