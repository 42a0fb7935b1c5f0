//! A policy in words of a command line.
//!
//! Upstream: `kubectl kuberc set --section credentialplugin` (`pkg/cmd/kuberc/set.go`).
//! Differs: what would not be a valid policy later is refused at once (upstream writes `command=./plugin` down).

use keyfob_api::Quoted;
use thiserror::Error;

use super::{PluginPolicy, PolicyError, PolicyType};

impl PluginPolicy {
    /// A policy by its word, with entries such as `command=aws-iam-authenticator`, or several of them with commas.
    ///
    /// ```
    /// use keyfob_client::PluginPolicy;
    ///
    /// let policy = PluginPolicy::from_flags("Allowlist", ["command=one,command=two"])?;
    /// assert_eq!(policy.allowlist, Some(vec!["one".into(), "two".into()]));
    /// # Ok::<(), keyfob_client::PolicyFlagsError>(())
    /// ```
    pub fn from_flags<'a>(
        policy: &str,
        entries: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, PolicyFlagsError> {
        let policy_type = match PolicyType::from(policy) {
            PolicyType::Unspecified => return Err(PolicyFlagsError::NoPolicy),
            policy_type => policy_type,
        };
        let pairs = entries.into_iter().flat_map(|entry| entry.split(','));
        let list = pairs.map(command).collect::<Result<Vec<_>, _>>()?;
        let policy = Self { policy_type, allowlist: (!list.is_empty()).then_some(list) };
        policy.validate()?;
        Ok(policy)
    }
}

fn command(pair: &str) -> Result<String, PolicyFlagsError> {
    match pair.split_once('=') {
        None => Err(PolicyFlagsError::NotAPair(pair.to_owned())),
        Some(("command", value)) if value.trim().is_empty() => Err(PolicyFlagsError::EmptyCommand),
        Some(("command", value)) => Ok(value.to_owned()),
        Some(("name", _)) => Err(PolicyFlagsError::Deprecated),
        Some((field, _)) => Err(PolicyFlagsError::UnknownField(field.to_owned())),
    }
}

/// What is wrong with a policy on a command line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyFlagsError {
    /// No policy was named.
    #[error("credential plugin policy cannot be empty: write AllowAll, DenyAll or Allowlist")]
    NoPolicy,
    /// An entry has no `=`.
    #[error("improperly formatted allowlist entry: {}: write command=PLUGIN", Quoted(.0))]
    NotAPair(String),
    /// An entry has no command.
    #[error("empty value in allowlist entry for field \"command\"")]
    EmptyCommand,
    /// An entry as it was written for 1.35.
    #[error("allowlist entry field \"name\" is deprecated, use \"command\" instead")]
    Deprecated,
    /// An entry asks for something else than a command.
    #[error("unrecognized allowlist entry field: {}: write command=PLUGIN", Quoted(.0))]
    UnknownField(String),
    /// The whole makes no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_put_together_from_flags() {
        let read = |policy, entries: &[&'static str]| {
            PluginPolicy::from_flags(policy, entries.iter().copied())
        };
        assert_eq!(
            read("DenyAll", &[]),
            Ok(PluginPolicy { policy_type: PolicyType::DenyAll, allowlist: None })
        );
        let list = Some(vec!["a=b".to_owned(), "/c".to_owned()]);
        assert_eq!(
            read("Allowlist", &["command=a=b", "command=/c"]),
            Ok(PluginPolicy { policy_type: PolicyType::Allowlist, allowlist: list })
        );

        let refused = [
            ("", &[][..], "credential plugin policy cannot be empty"),
            ("Some", &[], "unknown plugin policy: \"Some\""),
            ("Allowlist", &[], "allowlist is unspecified"),
            ("DenyAll", &["command=a"], "plugin policy is \"DenyAll\" but allowlist is non-nil"),
            ("Allowlist", &["command= "], "empty value"),
            ("Allowlist", &["command=a,b"], "improperly formatted allowlist entry: \"b\""),
            ("Allowlist", &["name=a"], "deprecated"),
            ("Allowlist", &["sha256=a"], "unrecognized allowlist entry field: \"sha256\""),
            ("Allowlist", &["command=./a"], "non-normalized file path"),
        ];
        for (policy, entries, want) in refused {
            let error = read(policy, entries).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
