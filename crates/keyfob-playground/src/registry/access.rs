//! Who is known, and what they may do.

use keyfob_api::Secret;

use super::name::Repository;

/// How a client shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Not at all: everybody may do everything.
    Anonymous,
    /// By name and password, with each request.
    Basic,
    /// By a token from the registry's own token service, which takes name and password.
    Bearer,
}

/// Somebody whom the registry knows, by a password, by a subject that a trusted issuer vouches for, or by both.
///
/// ```
/// use keyfob_playground::registry::User;
///
/// let node = User::new("node", "hunter2").may_pull("system").may_pull("team-a");
/// let pods = User::service_account("team-a", "puller").may_pull("team-a");
/// assert_eq!(pods.name, "team-a/puller");
/// assert_eq!(pods.subject.as_deref(), Some("system:serviceaccount:team-a:puller"));
/// # let _ = node;
/// ```
#[derive(Clone, Debug)]
pub struct User {
    /// Their name. It has no colon, which would end it in a login.
    pub name: String,
    /// Their password, if they have one.
    pub password: Option<Secret<String>>,
    /// What `sub` is in their identity's tokens, if they have one.
    pub subject: Option<String>,
    /// What they may do.
    pub grants: Vec<Grant>,
}

impl User {
    /// Somebody with a password.
    pub fn new(name: impl Into<String>, password: impl Into<Secret<String>>) -> Self {
        let (name, password) = (name.into(), Some(password.into()));
        Self { name, password, subject: None, grants: Vec::new() }
    }

    /// The pods of a service account, called `NAMESPACE/NAME` here.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let subject = Some(format!("system:serviceaccount:{namespace}:{name}"));
        let name = format!("{namespace}/{name}");
        Self { name, password: None, subject, grants: Vec::new() }
    }

    /// They may pull from a repository and those below it; from all, if the name is empty.
    #[must_use]
    pub fn may_pull(mut self, below: &str) -> Self {
        self.grants.push(Grant::new(below, Right::Pull));
        self
    }

    /// They may also push there.
    #[must_use]
    pub fn may_push(mut self, below: &str) -> Self {
        self.grants.push(Grant::new(below, Right::Push));
        self
    }
}

/// Something that somebody may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// In this repository and those below it: `team-a` is also `team-a/app`, but not `team-ab`. Empty is everywhere.
    pub below: String,
    /// What they may do there.
    pub right: Right,
}

/// What somebody may do with a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Right {
    /// Read.
    Pull,
    /// Read and write.
    Push,
}

impl Grant {
    /// A right in a repository and those below it.
    pub fn new(below: &str, right: Right) -> Self {
        Self { below: below.to_owned(), right }
    }

    fn covers(&self, repository: &Repository, right: Right) -> bool {
        let below = self.below.trim_end_matches('/');
        let rest = repository.as_str().strip_prefix(below);
        let is_below =
            below.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_below && right <= self.right
    }
}

/// Whether one of these grants covers it.
pub(super) fn allows(grants: &[Grant], repository: &Repository, right: Right) -> bool {
    grants.iter().any(|grant| grant.covers(repository, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_covers_whole_parts_of_a_name() {
        let rows = [
            ("team-a", "team-a", true),
            ("team-a", "team-a/app", true),
            ("team-a/", "team-a/app", true),
            ("team-a", "team-ab", false),
            ("team-a", "team-ab/app", false),
            ("team-a/app", "team-a", false),
            ("", "anything/at/all", true),
        ];
        for (below, name, want) in rows {
            let name = Repository::parse(name).unwrap();
            let grants = [Grant::new(below, Right::Pull)];
            assert_eq!(allows(&grants, &name, Right::Pull), want, "{below} {name}");
            assert!(!allows(&grants, &name, Right::Push), "{below} {name}");
        }
    }

    #[test]
    fn who_may_push_may_pull() {
        let name = Repository::parse("a").unwrap();
        let grants = User::new("ada", "hunter2").may_push("a").grants;
        assert!(allows(&grants, &name, Right::Pull) && allows(&grants, &name, Right::Push));
        assert!(!allows(&[], &name, Right::Pull));
    }
}
