//! What pods may try.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use keyfob_api::ImageRef;
use keyfob_exec::BoxFuture;
use keyfob_images::{Attempt, CredentialLookupError, PullCredentials};
use keyfob_keyring::{Login, Logins, SecretCoordinates, Source, select};

use super::Diary;

/// What a pod may try.
#[derive(Debug)]
pub(crate) struct Purse {
    pub(crate) diary: Diary,
    pub(crate) attempts: Result<Vec<Attempt>, &'static str>,
    /// What comes in the place of a refused credential, by its user.
    pub(crate) instead: BTreeMap<&'static str, Attempt>,
    /// Whether it never answers.
    pub(crate) is_stuck: bool,
    /// Whether it never has anything in the place of what was refused, nor says so.
    pub(crate) never_replaces: bool,
}

impl Purse {
    pub(crate) fn of<const N: usize>(attempts: [Attempt; N]) -> Self {
        let (diary, attempts) = (Diary::default(), Ok(attempts.into()));
        Self { diary, attempts, instead: BTreeMap::new(), is_stuck: false, never_replaces: false }
    }

    pub(crate) fn empty() -> Self {
        Self::of([])
    }

    pub(crate) fn instead(mut self, user: &'static str, attempt: Attempt) -> Self {
        self.instead.insert(user, attempt);
        self
    }
}

impl PullCredentials for Purse {
    fn attempts(&self) -> BoxFuture<'_, Result<Vec<Attempt>, CredentialLookupError>> {
        Box::pin(async {
            self.diary.write("attempts");
            if self.is_stuck {
                pending::<()>().await;
            }
            self.attempts.clone().map_err(CredentialLookupError::new)
        })
    }

    fn refused<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Option<Attempt>> {
        Box::pin(async {
            let user = attempt.credential.as_ref().unwrap().username();
            self.diary.write(format!("refused {user}"));
            if self.never_replaces {
                pending::<()>().await;
            }
            self.instead.get(user).cloned()
        })
    }
}

/// An attempt with a pull secret that is called as its user is.
pub(crate) fn with_secret(from: &str, user: &str) -> Attempt {
    let coordinates = SecretCoordinates { name: user.into(), ..SecretCoordinates::default() };
    with(from, Source::PullSecret(Arc::new(coordinates)), user)
}

/// An attempt with what a provider gave.
pub(crate) fn with_provider(from: &str, user: &str) -> Attempt {
    with(from, Source::provider("ecr"), user)
}

pub(crate) fn plain(from: &str) -> Attempt {
    Attempt { from: ImageRef::parse(from).unwrap(), credential: None }
}

/// The password of user `u` is `word-of-u`.
fn with(from: &str, source: Source, user: &str) -> Attempt {
    let password = format!("word-of-{user}").into();
    let login = Login { username: user.into(), password, ..Login::default() };
    let from = ImageRef::parse(from).unwrap();
    let logins = Arc::new(Logins::new(source, [(from.repository(), login)]));
    let credential = select(from.repository(), from.target().ok().as_ref(), [&logins]).remove(0);
    Attempt { from, credential: Some(credential) }
}
