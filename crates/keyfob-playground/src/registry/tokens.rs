//! Bearer tokens: texts that say nothing, and what they open. Only their sums are kept.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use keyfob_api::Secret;

use super::{
    digest::Digest,
    scope::Scope,
    users::{Visitor, unguessable},
};

/// Tokens at the same time; the one that ends first gives way.
const MOST: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<HashMap<Digest, Token>>);

/// What a token opens.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) visitor: Visitor,
    pub(super) scopes: Vec<Scope>,
    pub(super) ends: SystemTime,
}

impl Tokens {
    /// A new one; nothing, if the system gives no random numbers.
    pub(super) fn issue(&self, token: Token, now: SystemTime) -> Option<Secret<String>> {
        let text = unguessable()?;
        let mut tokens = self.lock();
        if tokens.len() >= MOST {
            tokens.retain(|_, token| now < token.ends);
        }
        if tokens.len() >= MOST
            && let Some(first) = tokens.iter().min_by_key(|(_, token)| token.ends)
        {
            let first = *first.0;
            tokens.remove(&first);
        }
        tokens.insert(Digest::of(text.expose().as_bytes()), token);
        Some(text)
    }

    /// What a token opens, if it is one and has not ended. It is found by its sum, so nobody can feel their way to it.
    pub(super) fn find(&self, text: &str, now: SystemTime) -> Option<Token> {
        let tokens = self.lock();
        tokens.get(&Digest::of(text.as_bytes())).filter(|token| now < token.ends).cloned()
    }

    /// Ends all.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Ends those of a user.
    pub(super) fn revoke(&self, user: &str) {
        self.lock().retain(|_, token| token.visitor.name() != Some(user));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn issue(tokens: &Tokens, seconds: u64) -> Secret<String> {
        let ends = NOW + Duration::from_secs(seconds);
        let token = Token { visitor: Visitor::User("ada".into()), scopes: Vec::new(), ends };
        tokens.issue(token, NOW).unwrap()
    }

    #[test]
    fn a_token_ends() {
        let tokens = Tokens::default();
        let text = issue(&tokens, 60);
        let is_one = |after| tokens.find(text.expose(), NOW + Duration::from_secs(after)).is_some();
        assert!(is_one(59) && !is_one(60));
        assert!(tokens.find("", NOW).is_none());
        tokens.revoke("bob");
        assert!(is_one(0));
        tokens.revoke("ada");
        assert!(!is_one(0));
    }

    #[test]
    fn tokens_do_not_grow_without_end() {
        let tokens = Tokens::default();
        let (first, long) = (issue(&tokens, 1), issue(&tokens, 1000));
        for _ in 0..MOST {
            issue(&tokens, 100);
        }
        assert_eq!(tokens.lock().len(), MOST);
        assert!(tokens.find(first.expose(), NOW).is_none(), "what ends first gives way");
        assert!(tokens.find(long.expose(), NOW).is_some());
    }
}
