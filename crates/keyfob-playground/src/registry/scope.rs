//! What a token is asked for: `repository:team/app:pull,push`.
//!
//! Upstream: docker's token scope grammar.

use std::fmt;

use super::{access::Right, name::Repository};

/// A right in one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) repository: Repository,
    pub(super) right: Right,
}

/// More than this many in one request are not looked at.
const MOST: usize = 32;

impl Scope {
    /// Every scope of a text that this registry has a use for. What it does not know is passed over, as the grammar wants it:
    /// nobody gets anything by it.
    pub(super) fn parse_all<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Self> {
        texts.flat_map(|text| text.split(' ')).take(MOST).filter_map(Self::parse).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, actions) = text.strip_prefix("repository:")?.rsplit_once(':')?;
        let has = |action: &str| actions.split(',').any(|each| each == action);
        let right = match (has("push"), has("pull")) {
            (true, _) => Right::Push,
            (false, true) => Right::Pull,
            (false, false) => return None,
        };
        Some(Self { repository: Repository::parse(name)?, right })
    }

    pub(super) fn covers(&self, repository: &Repository, right: Right) -> bool {
        self.repository == *repository && right <= self.right
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions = match self.right {
            Right::Pull => "pull",
            Right::Push => "pull,push",
        };
        write!(f, "repository:{}:{actions}", self.repository)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_told_apart() {
        let texts = [
            "repository:a/b:pull repository:c:pull,push",
            "repository:d:push",
            "repository:e:delete,pull",
        ];
        let scopes = Scope::parse_all(texts.into_iter());
        let said: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "repository:a/b:pull",
                "repository:c:pull,push",
                "repository:d:pull,push",
                "repository:e:pull"
            ]
        );
    }

    #[test]
    fn what_is_no_scope_of_ours_is_passed_over() {
        for text in [
            "",
            " ",
            "registry:catalog:*",
            "repository:a",
            "repository:A:pull",
            "repository:a:*",
            "repository:../a:pull",
        ] {
            assert_eq!(Scope::parse_all([text].into_iter()), [], "{text}");
        }
        let many = "repository:a:pull ".repeat(1000);
        assert_eq!(Scope::parse_all([many.as_str()].into_iter()).len(), MOST);
    }
}
