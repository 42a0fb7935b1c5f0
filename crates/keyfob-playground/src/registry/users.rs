//! Logins that are right, until they end or are taken away. Only sums of passwords are kept.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use aws_lc_rs::{constant_time::verify_slices_are_equal, rand};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use keyfob_api::Secret;

use super::{
    access::{Grant, Right, User, allows},
    digest::Digest,
    name::Repository,
};

/// Logins of one user at the same time that were issued for a token; the oldest gives way.
const MOST_LOGINS: usize = 1024;

#[derive(Debug)]
pub(super) struct Users {
    accounts: Mutex<BTreeMap<String, Account>>,
    anonymous: Vec<Grant>,
}

#[derive(Debug)]
struct Account {
    subject: Option<String>,
    grants: Vec<Grant>,
    passwords: Vec<Password>,
}

#[derive(Debug)]
struct Password {
    sum: Digest,
    ends: Option<SystemTime>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Visitor {
    Stranger,
    User(String),
}

impl Visitor {
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Stranger => None,
            Self::User(name) => Some(name),
        }
    }
}

impl Users {
    pub(super) fn new(users: Vec<User>, anonymous: Vec<Grant>) -> Self {
        let all = Self { accounts: Mutex::default(), anonymous };
        for user in users {
            all.set(user);
        }
        all
    }

    /// Adds a user, or replaces the one of that name with all their logins.
    pub(super) fn set(&self, user: User) {
        let passwords = user.password.iter().map(Password::lasting).collect();
        let account = Account { subject: user.subject, grants: user.grants, passwords };
        self.lock().insert(user.name, account);
    }

    /// Whose login it is. It takes as long for a name that nobody has.
    pub(super) fn check(&self, name: &str, password: &str, now: SystemTime) -> Option<Visitor> {
        let sum = Digest::of(password.as_bytes());
        let accounts = self.lock();
        let passwords = accounts.get(name).map_or(&[][..], |account| &account.passwords);
        let is_right = passwords.iter().fold(false, |found, each| found | each.is(&sum, now));
        is_right.then(|| Visitor::User(name.to_owned()))
    }

    pub(super) fn may(&self, visitor: &Visitor, repository: &Repository, right: Right) -> bool {
        match visitor {
            Visitor::Stranger => allows(&self.anonymous, repository, right),
            Visitor::User(name) => {
                let accounts = self.lock();
                let account = accounts.get(name);
                account.is_some_and(|account| allows(&account.grants, repository, right))
                    || allows(&self.anonymous, repository, right)
            }
        }
    }

    /// A password for whoever is known by this subject.
    pub(super) fn issue(&self, subject: &str, ends: SystemTime, now: SystemTime) -> Issued {
        let mut accounts = self.lock();
        let is_theirs = |account: &Account| account.subject.as_deref() == Some(subject);
        let Some((name, account)) = accounts.iter_mut().find(|(_, each)| is_theirs(each)) else {
            return Issued::Unknown;
        };
        let Some(password) = unguessable() else { return Issued::NoRandomNumbers };
        account.passwords.retain(|each| each.lasts(now));
        let issued = account.passwords.iter().filter(|each| each.ends.is_some()).count();
        if issued >= MOST_LOGINS
            && let Some(oldest) = account.passwords.iter().position(|each| each.ends.is_some())
        {
            account.passwords.remove(oldest);
        }
        let sum = Digest::of(password.expose().as_bytes());
        account.passwords.push(Password { sum, ends: Some(ends) });
        Issued::Login { user: name.clone(), password }
    }

    /// Gives a user another password; those before it end.
    pub(super) fn set_password(&self, name: &str, password: &Secret<String>) -> bool {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(name) else { return false };
        account.passwords = vec![Password::lasting(password)];
        true
    }

    /// Makes a user a stranger.
    pub(super) fn revoke(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a request for a login.
#[derive(Debug)]
pub(super) enum Issued {
    Login { user: String, password: Secret<String> },
    Unknown,
    NoRandomNumbers,
}

impl Password {
    fn lasting(password: &Secret<String>) -> Self {
        Self { sum: Digest::of(password.expose().as_bytes()), ends: None }
    }

    fn is(&self, sum: &Digest, now: SystemTime) -> bool {
        verify_slices_are_equal(self.sum.bytes(), sum.bytes()).is_ok() & self.lasts(now)
    }

    fn lasts(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| now < ends)
    }
}

/// A secret that nobody can guess.
pub(super) fn unguessable() -> Option<Secret<String>> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes).into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const SUBJECT: &str = "system:serviceaccount:team:puller";

    fn login(users: &Users) -> Secret<String> {
        match users.issue(SUBJECT, NOW + Duration::from_mins(1), NOW) {
            Issued::Login { user, password } if user == "team/puller" => password,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_login_that_was_issued_ends_and_others_do_not() {
        let users = Users::new(vec![User::service_account("team", "puller")], Vec::new());
        let (first, second) = (login(&users), login(&users));
        let is_right = |password: &Secret<String>, after| {
            users
                .check("team/puller", password.expose(), NOW + Duration::from_secs(after))
                .is_some()
        };
        assert!(is_right(&first, 59) && is_right(&second, 59));
        assert!(!is_right(&first, 60));
        assert!(users.set_password("team/puller", &"hunter2".into()));
        assert!(!is_right(&second, 0) && is_right(&"hunter2".into(), 1 << 40));
    }

    #[test]
    fn logins_do_not_grow_without_end() {
        let user =
            User { password: Some("hunter2".into()), ..User::service_account("team", "puller") };
        let users = Users::new(vec![user], Vec::new());
        let first = login(&users);
        let rest: Vec<_> = (0..MOST_LOGINS).map(|_| login(&users)).collect();
        let is_right = |password: &str| users.check("team/puller", password, NOW).is_some();
        assert!(!is_right(first.expose()), "the oldest gives way");
        assert!(rest.iter().all(|password| is_right(password.expose())) && is_right("hunter2"));
    }

    #[test]
    fn nobody_is_known_by_another_name_or_by_no_password() {
        let users =
            Users::new(vec![User::new("ada", "hunter2"), User::service_account("a", "b")], vec![]);
        assert_eq!(users.check("ada", "hunter2", NOW), Some(Visitor::User("ada".into())));
        for (name, password) in [("ada", ""), ("ada", "hunter"), ("bob", "hunter2"), ("a/b", "")] {
            assert_eq!(users.check(name, password, NOW), None, "{name}");
        }
        assert!(matches!(users.issue("system:serviceaccount:a:c", NOW, NOW), Issued::Unknown));
    }
}
