//! Which plugins may be run.
//!
//! A policy is set by a program, or by a [kuberc](crate::Kuberc); a kubeconfig cannot loosen it. It is a comparison of
//! paths: links are not followed, and nobody looks at what lies there.
//!
//! Upstream: `ValidatePluginPolicy` and `updateCommandAndCheckAllowlistLocked` in `plugin/pkg/client/auth/exec/exec.go`.
//! Differs: a policy that is not valid lets nothing run, also if nobody has validated it.

mod allowlist;
mod flags;
mod look_path;

use std::path::{Path, PathBuf};

use keyfob_api::Quoted;
use keyfob_exec::{Environment, Program, go::clean};
use thiserror::Error;

pub use flags::PolicyFlagsError;
pub use look_path::LookPathError;

/// Which plugins a program lets a kubeconfig run.
///
/// ```
/// use keyfob_client::{PluginPolicy, PolicyType};
/// use keyfob_exec::SystemEnvironment;
///
/// let policy = PluginPolicy {
///     policy_type: PolicyType::Allowlist,
///     allowlist: Some(vec!["aws-iam-authenticator".into()]),
/// };
/// policy.validate()?;
/// assert!(policy.check("aws-iam-authenticator", &SystemEnvironment).is_ok());
/// let denied = policy.check("sh", &SystemEnvironment).unwrap_err().to_string();
/// assert!(denied.ends_with("sh\" is not permitted by the credential plugin allowlist"), "{denied}");
/// # Ok::<(), keyfob_client::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a policy of upstream is these two, and is written out"
)]
pub struct PluginPolicy {
    /// What the policy is.
    pub policy_type: PolicyType,
    /// The commands of an [`PolicyType::Allowlist`]; `None` if no list was given at all.
    pub allowlist: Option<Vec<String>>,
}

/// The sort of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyType {
    /// Nothing was said, which allows all.
    #[default]
    Unspecified,
    /// Every plugin may be run.
    AllowAll,
    /// No plugin may be run.
    DenyAll,
    /// Only those of the list may be run.
    Allowlist,
    /// A word nobody knows: nothing is run.
    Unknown(String),
}

impl PolicyType {
    /// The word of a kuberc.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unspecified => "",
            Self::AllowAll => "AllowAll",
            Self::DenyAll => "DenyAll",
            Self::Allowlist => "Allowlist",
            Self::Unknown(word) => word,
        }
    }
}

impl From<&str> for PolicyType {
    fn from(word: &str) -> Self {
        match word {
            "" => Self::Unspecified,
            "AllowAll" => Self::AllowAll,
            "DenyAll" => Self::DenyAll,
            "Allowlist" => Self::Allowlist,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl PluginPolicy {
    /// Whether it says something that can be meant.
    pub fn validate(&self) -> Result<(), PolicyError> {
        match (&self.policy_type, self.allowlist.as_deref()) {
            (PolicyType::Unknown(word), _) => Err(PolicyError::UnknownType(word.clone())),
            (PolicyType::Allowlist, None) => Err(PolicyError::NoList),
            (PolicyType::Allowlist, Some([])) => Err(PolicyError::EmptyList),
            (PolicyType::Allowlist, Some(list)) => {
                list.iter().enumerate().try_for_each(|(index, entry)| valid_entry(index, entry))
            }
            (other, Some(_)) => Err(PolicyError::ListWithout(other.as_str().to_owned())),
            (_, None) => Ok(()),
        }
    }

    /// Whether a command may be run, as [`clean`] has left it; `environment` is where its `PATH` is.
    pub fn check(&self, command: &str, environment: &dyn Environment) -> Result<Allowed, Denied> {
        self.validate().map_err(Denied::Invalid)?;
        match (&self.policy_type, &self.allowlist) {
            (PolicyType::Unspecified | PolicyType::AllowAll, None) => Ok(Allowed::default()),
            (PolicyType::Allowlist, Some(list)) => allowlist::check(list, command, environment),
            _ => Err(Denied::All { command: command.to_owned() }),
        }
    }
}

fn valid_entry(index: usize, entry: &str) -> Result<(), PolicyError> {
    let cleaned = clean(entry);
    if entry.is_empty() {
        Err(PolicyError::EmptyEntry { number: index + 1 })
    } else if cleaned != entry {
        Err(PolicyError::NotClean { entry: entry.to_owned(), cleaned })
    } else {
        Ok(())
    }
}

/// A command may be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allowed {
    /// What exactly was allowed, if the name alone is not: this, and nothing that is looked up later, must be run.
    pub program: Option<Program>,
}

/// What cannot be meant by a policy. The sentences are upstream's, without what it puts before them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// There is a list, and the policy does not look at it.
    #[error(
        "misconfigured credential plugin allowlist: plugin policy is {} but allowlist is non-nil",
        Quoted(.0)
    )]
    ListWithout(String),
    /// The list is missing; perhaps its name is misspelled.
    #[error("credential plugin policy set to \"Allowlist\", but allowlist is unspecified")]
    NoList,
    /// The list has no entry.
    #[error(
        "credential plugin policy set to \"Allowlist\", but allowlist is empty; use \"DenyAll\" policy instead"
    )]
    EmptyList,
    /// An entry says nothing.
    #[error("misconfigured credential plugin allowlist: empty allowlist entry #{number}")]
    EmptyEntry {
        /// Which, from 1.
        number: usize,
    },
    /// An entry is a path that could be shorter, and would never be compared as it was meant.
    #[error("non-normalized file path: {} vs {}", Quoted(entry), Quoted(cleaned))]
    NotClean {
        /// The entry.
        entry: String,
        /// What to write in its place.
        cleaned: String,
    },
    /// There is no such policy.
    #[error("unknown plugin policy: {}", Quoted(.0))]
    UnknownType(String),
}

/// Why a command may not be run. The sentences are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Denied {
    /// Nothing may.
    #[error("plugin {} not allowed: policy set to \"DenyAll\"", Quoted(command))]
    All {
        /// The command.
        command: String,
    },
    /// It is not on the list, and what it means could not be found out.
    #[error(
        "plugin path {} cannot be resolved for credential plugin allowlist check: {reason}",
        quoted(path)
    )]
    Unresolved {
        /// What was found of it.
        path: PathBuf,
        /// Why not. Part of the sentence, so it is no source.
        reason: LookPathError,
    },
    /// It is not on the list.
    #[error("plugin path {} is not permitted by the credential plugin allowlist", quoted(path))]
    NotListed {
        /// What would have been run.
        path: PathBuf,
    },
    /// Nobody knows what may.
    #[error("invalid plugin policy: {0}")]
    Invalid(PolicyError),
}

fn quoted(path: &Path) -> String {
    Quoted(path.as_os_str().as_encoded_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use keyfob_testkit::MapEnvironment;

    use super::*;

    fn policy(word: &str, list: Option<&[&str]>) -> PluginPolicy {
        let owned = |list: &[&str]| list.iter().copied().map(str::to_owned).collect();
        PluginPolicy { policy_type: word.into(), allowlist: list.map(owned) }
    }

    #[test]
    fn what_cannot_be_meant_is_said_in_upstreams_words_and_lets_nothing_run() {
        let rows: [(&str, Option<&[&str]>, &str); 9] = [
            (
                "",
                Some(&[]),
                "misconfigured credential plugin allowlist: plugin policy is \"\" but allowlist is non-nil",
            ),
            (
                "AllowAll",
                Some(&["p"]),
                "misconfigured credential plugin allowlist: plugin policy is \"AllowAll\" but allowlist is non-nil",
            ),
            (
                "DenyAll",
                Some(&["p"]),
                "misconfigured credential plugin allowlist: plugin policy is \"DenyAll\" but allowlist is non-nil",
            ),
            (
                "Allowlist",
                None,
                "credential plugin policy set to \"Allowlist\", but allowlist is unspecified",
            ),
            (
                "Allowlist",
                Some(&[]),
                "credential plugin policy set to \"Allowlist\", but allowlist is empty; use \"DenyAll\" policy instead",
            ),
            (
                "Allowlist",
                Some(&["p", ""]),
                "misconfigured credential plugin allowlist: empty allowlist entry #2",
            ),
            ("Allowlist", Some(&["p", "./q"]), "non-normalized file path: \"./q\" vs \"q\""),
            ("allowall", None, "unknown plugin policy: \"allowall\""),
            ("Deny\u{7}", Some(&[]), "unknown plugin policy: \"Deny\\a\""),
        ];
        for (word, list, want) in rows {
            let policy = policy(word, list);
            assert_eq!(policy.validate().unwrap_err().to_string(), want);
            let denied = policy.check("p", &MapEnvironment::default()).unwrap_err();
            assert_eq!(denied.to_string(), format!("invalid plugin policy: {want}"));
        }
    }

    #[test]
    fn all_or_nothing_needs_no_look_at_the_command() {
        let nowhere = MapEnvironment::default();
        for word in ["", "AllowAll"] {
            assert_eq!(policy(word, None).check("/no/such", &nowhere), Ok(Allowed::default()));
        }
        let denied = policy("DenyAll", None).check("a \"b\"", &nowhere).unwrap_err();
        assert_eq!(
            denied.to_string(),
            "plugin \"a \\\"b\\\"\" not allowed: policy set to \"DenyAll\""
        );
    }
}
