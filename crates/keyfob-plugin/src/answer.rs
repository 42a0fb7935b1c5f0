//! What a plugin answers.

use std::time::{Duration, SystemTime};

use keyfob_api::{AuthConfig, CacheKeyType, Secret};

use crate::Margin;

/// Logins for registries, and how long they may be kept.
///
/// ```
/// use std::time::Duration;
///
/// use keyfob_plugin::{Answer, CacheKeyType};
///
/// let answer = Answer::login("r.io", "robot", "hunter2")
///     .cached_by(CacheKeyType::Image)
///     .cached_for(Duration::from_secs(600));
/// # let _ = answer;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) auth: Vec<(String, AuthConfig)>,
    pub(crate) cache_key_type: CacheKeyType,
    pub(crate) cached_for: Option<Duration>,
    pub(crate) expires: Option<(SystemTime, Margin)>,
    pub(crate) hands_out_the_token: bool,
}

impl Answer {
    /// A login for the registries that `key` matches: a host with its port, a path if need be, `*` for parts of a label.
    /// It is cached for the registry, for as long as the provider's configuration says.
    pub fn login(
        key: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<Secret<String>>,
    ) -> Self {
        let empty = Self { cached_for: None, ..Self::nothing().cached_by(CacheKeyType::Registry) };
        empty.and(key, username, password)
    }

    /// Nothing to offer for this image; the next request asks again. The pull goes on without credentials of this plugin.
    pub fn nothing() -> Self {
        Self {
            auth: Vec::new(),
            cache_key_type: CacheKeyType::Image,
            cached_for: Some(Duration::ZERO),
            expires: None,
            hands_out_the_token: false,
        }
    }

    /// One more login.
    #[must_use]
    pub fn and(
        mut self,
        key: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<Secret<String>>,
    ) -> Self {
        let auth = AuthConfig { username: username.into(), password: password.into() };
        self.auth.push((key.into(), auth));
        self
    }

    /// For which images the answer may be used again.
    #[must_use]
    pub fn cached_by(mut self, cache_key_type: CacheKeyType) -> Self {
        self.cache_key_type = cache_key_type;
        self
    }

    /// For how long; zero forbids it. It is cut to the credential's life, if that is known.
    #[must_use]
    pub fn cached_for(mut self, duration: Duration) -> Self {
        self.cached_for = Some(duration);
        self
    }

    /// When the credential ends. Unless [`Answer::cached_for`] says otherwise, it is cached until the margin before.
    /// One that has ended already is a failure, not an answer.
    #[must_use]
    pub fn expires_at(mut self, end: SystemTime, margin: Margin) -> Self {
        self.expires = Some((end, margin));
        self
    }

    /// The pod's own token is the password, and that is meant.
    #[must_use]
    pub fn hands_out_the_token(mut self) -> Self {
        self.hands_out_the_token = true;
        self
    }
}
