//! Tokens that were asked for, for as long as they are young enough.
//!
//! Upstream: `Manager` in `pkg/kubelet/token/token_manager.go`: its key, when it asks for a newer token, and the old one
//! while it is valid if there is no newer.
//! Differs: callers who ask for the same at the same time make one request; a token of unknown lifetime is
//! renewed once it has expired, not never; a clock that was set back ends what is kept; the number of tokens is
//! bounded; expired ones are swept by whoever asks. A failure is the source's own, with no words around it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_api::Chain;
use keyfob_exec::{
    Clock,
    aging::{make_room, was_set_back},
    single_flight::Group,
};

use super::{IdentityError, ServiceAccounts, Token, TokenRequest};

/// Older tokens are renewed, however long they live.
const MOST_AGE: Duration = Duration::from_hours(24);
const MOST_JITTER: Duration = Duration::from_secs(10);
const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// So many are kept, and then those that end first are forgotten.
const MOST_KEPT: usize = 4096;

/// Asks for tokens, and keeps them while they are young.
pub struct TokenManager {
    accounts: Arc<dyn ServiceAccounts>,
    clock: Arc<dyn Clock>,
    jitter: fn() -> Duration,
    kept: Mutex<Kept>,
    requests: Group<Result<Arc<Token>, IdentityError>>,
}

#[derive(Debug)]
struct Kept {
    tokens: HashMap<Box<[u8]>, Entry>,
    swept: SystemTime,
}

#[derive(Debug)]
struct Entry {
    token: Arc<Token>,
    kept: SystemTime,
    pod: Option<Box<str>>,
}

impl TokenManager {
    /// A manager of tokens that come from there.
    pub fn new(accounts: Arc<dyn ServiceAccounts>, clock: Arc<dyn Clock>) -> Self {
        let kept = Kept { tokens: HashMap::new(), swept: clock.now() };
        let requests = Group::default();
        Self { accounts, clock, jitter: random_jitter, kept: Mutex::new(kept), requests }
    }

    /// How much sooner than it must be a token is renewed, drawn anew each time; by default up to ten seconds, so that
    /// not all are renewed at once.
    #[must_use]
    pub fn jitter(self, jitter: fn() -> Duration) -> Self {
        Self { jitter, ..self }
    }

    /// A token that is young enough, or else a new one, or else the old one while it is valid.
    pub async fn token(&self, request: &TokenRequest) -> Result<Arc<Token>, IdentityError> {
        let key = key(request);
        loop {
            if let Some(young) = self.young(&key) {
                return Ok(young);
            }
            let (waiter, leader) = self.requests.join(&key);
            if let Some(leader) = leader {
                let token = self.request(&key, request).await;
                leader.finish(token.clone());
                return token;
            }
            // If the leader stopped waiting for its request, one of the waiters sends a new one.
            if let Some(token) = waiter.outcome().await {
                return token;
            }
        }
    }

    /// Forgets the tokens of a pod that is gone.
    pub fn forget_pod(&self, uid: &str) {
        self.lock().tokens.retain(|_, entry| entry.pod.as_deref() != Some(uid));
    }

    /// How many tokens are kept, expired ones that were not yet swept too.
    pub fn kept(&self) -> usize {
        self.lock().tokens.len()
    }

    fn young(&self, key: &[u8]) -> Option<Arc<Token>> {
        let now = self.clock.now();
        let mut kept = self.lock();
        kept.sweep_if_due(now);
        let entry = kept.tokens.get(key)?;
        let is_young = entry.is_valid(now) && !is_due(&entry.token, now, (self.jitter)());
        is_young.then(|| entry.token.clone())
    }

    /// Looks again before it asks: the flight before this one may just have stored its token.
    async fn request(
        &self,
        key: &[u8],
        request: &TokenRequest,
    ) -> Result<Arc<Token>, IdentityError> {
        if let Some(young) = self.young(key) {
            return Ok(young);
        }
        match self.accounts.token(request).await {
            Ok(token) => Ok(self.keep(key, request, token)),
            Err(error) => match self.valid(key) {
                Some(old) => {
                    let (namespace, name) = (&request.namespace, &request.service_account);
                    let error = Chain(&error);
                    tracing::warn!(namespace, name, %error, "the token was not renewed; the old one is still valid");
                    Ok(old)
                }
                None => Err(error),
            },
        }
    }

    /// A new one is given out however it looks by this clock, which may be the one that is wrong.
    fn keep(&self, key: &[u8], request: &TokenRequest, token: Token) -> Arc<Token> {
        let token = Arc::new(token);
        let pod = request.pod.as_ref().map(|pod| pod.uid.as_str().into());
        let entry = Entry { token: token.clone(), kept: self.clock.now(), pod };
        let tokens = &mut self.lock().tokens;
        if !tokens.contains_key(key) {
            make_room(tokens, MOST_KEPT, |entry| entry.token.expires);
        }
        tokens.insert(key.into(), entry);
        token
    }

    fn valid(&self, key: &[u8]) -> Option<Arc<Token>> {
        let now = self.clock.now();
        let kept = self.lock();
        kept.tokens.get(key).filter(|entry| entry.is_valid(now)).map(|entry| entry.token.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TokenManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenManager({} kept)", self.kept())
    }
}

impl Kept {
    fn sweep_if_due(&mut self, now: SystemTime) {
        let passed = now.duration_since(self.swept).unwrap_or_else(|back| back.duration());
        if passed >= SWEEP_EVERY {
            self.swept = now;
            self.tokens.retain(|_, entry| entry.is_valid(now));
        }
    }
}

impl Entry {
    fn is_valid(&self, now: SystemTime) -> bool {
        now <= self.token.expires && !was_set_back(now, self.kept)
    }
}

/// Upstream: `requiresRefresh`. Who does not know how long a token lives cannot know when it is old.
fn is_due(token: &Token, now: SystemTime, jitter: Duration) -> bool {
    let Some(lifetime) = token.lifetime else { return false };
    let last_fifth = Duration::from_secs(lifetime.as_secs() / 5);
    let left_at = |age: Duration| lifetime.saturating_sub(age);
    let left = token.expires.duration_since(now).unwrap_or_default();
    left < last_fifth + jitter || left < left_at(MOST_AGE.saturating_sub(jitter))
}

/// Upstream: `keyFunc`.
fn key(request: &TokenRequest) -> Vec<u8> {
    let TokenRequest { namespace, service_account, service_account_uid, audiences, pod, .. } =
        request;
    let seconds = request.expiration_seconds.unwrap_or_default();
    let key = format!(
        "{service_account:?}/{namespace:?}/{audiences:?}/{seconds}/{pod:?}/{service_account_uid:?}"
    );
    key.into_bytes()
}

fn random_jitter() -> Duration {
    MOST_JITTER.mul_f64(fastrand::f64())
}
