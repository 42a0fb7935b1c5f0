//! Which variables of the environment decide who a plugin logs in.
//!
//! A plugin may read any. All of them in the key would be a key that never comes again: shells and terminals put their own
//! into it. None would hand one account's token to another. So: those that clouds and login tools read, whatever is named
//! like a secret, whatever the client set for the plugin (`env` of the kubeconfig), and those that are named by hand.

use std::{
    ffi::{OsStr, OsString},
    str::FromStr,
};

use keyfob_api::speaks_of_a_secret;
use thiserror::Error;

/// A variable, or all whose names begin in the same way: `AWS_PROFILE`, `MYCORP_*`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariablePattern {
    /// This one.
    Name(String),
    /// All that begin so.
    Prefix(String),
}

/// What every plugin's answer depends on.
pub const IDENTITY_VARIABLES: [&str; 39] = [
    "AAD_*",
    "ALIBABACLOUD_*",
    "ALIBABA_CLOUD_*",
    "ALICLOUD_*",
    "ARM_*",
    "AWS_*",
    "AZURE_*",
    "CLOUDSDK_*",
    "DIGITALOCEAN_*",
    "GCLOUD_*",
    "GITHUB_*",
    "GITLAB_*",
    "GOOGLE_*",
    "HCLOUD_*",
    "HOME",
    "IBMCLOUD_*",
    "IDENTITY_*",
    "KRB5*",
    "KUBE*",
    "LOGNAME",
    "MSI_*",
    "OCI_*",
    "OIDC*",
    "OKTA_*",
    "OS_*",
    "PINNIPED_*",
    "RANCHER_*",
    "SCW_*",
    "SPIFFE_*",
    "TANZU_*",
    "TELEPORT_*",
    "TSH_*",
    "USER",
    "VAULT_*",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "YC_*",
];

/// What says nothing about anybody: what the client tells is a part of its own, and the rest is another in each shell.
const PASSED_OVER: [&str; 6] = ["KUBERNETES_EXEC_INFO", "OLDPWD", "PWD", "SHLVL", "VSCODE_*", "_"];

/// Those that count, in the order of their names. `inherited` is what the client itself was started with, if that is known.
pub(super) fn relevant(
    variables: Vec<(OsString, OsString)>,
    named: &[VariablePattern],
    inherited: Option<&[(OsString, OsString)]>,
) -> Vec<(OsString, OsString)> {
    let is_set_by_client = |variable: &(OsString, OsString)| {
        inherited.is_some_and(|inherited| !inherited.contains(variable))
    };
    let counts = |variable: &(OsString, OsString)| {
        let name = &variable.0;
        named.iter().any(|pattern| pattern.matches(name))
            || !is_one_of(&PASSED_OVER, name)
                && (is_one_of(&IDENTITY_VARIABLES, name)
                    || speaks_of_a_secret(&name.to_string_lossy())
                    || is_set_by_client(variable))
    };
    let mut relevant: Vec<_> = variables.into_iter().filter(counts).collect();
    // Stable: of two with one name the order decides, and stays.
    relevant.sort_by(|one, other| one.0.cmp(&other.0));
    relevant
}

fn is_one_of(patterns: &[&str], name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => bytes.starts_with(prefix.as_bytes()),
        None => bytes == pattern.as_bytes(),
    })
}

impl VariablePattern {
    fn matches(&self, name: &OsStr) -> bool {
        match self {
            Self::Name(wanted) => name == wanted.as_str(),
            Self::Prefix(prefix) => name.as_encoded_bytes().starts_with(prefix.as_bytes()),
        }
    }
}

impl FromStr for VariablePattern {
    type Err = InvalidVariablePattern;

    fn from_str(text: &str) -> Result<Self, InvalidVariablePattern> {
        let (name, pattern) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, Self::Prefix(prefix.to_owned())),
            None => (text, Self::Name(text.to_owned())),
        };
        let is_name = !name.is_empty() && !name.contains(['=', '*', '\0']);
        is_name.then_some(pattern).ok_or(InvalidVariablePattern)
    }
}

/// A text that names no variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("write the name of a variable, or how names begin and a *: MYCORP_PROFILE, MYCORP_*")]
#[non_exhaustive]
pub struct InvalidVariablePattern;

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(names: &[&str]) -> Vec<(OsString, OsString)> {
        names.iter().map(|name| ((*name).into(), "x".into())).collect()
    }

    fn kept(names: &[&str], wanted: &[&str]) -> Vec<String> {
        let wanted: Vec<_> = wanted.iter().map(|text| text.parse().unwrap()).collect();
        let kept = relevant(vars(names), &wanted, None);
        kept.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn what_selects_an_identity_counts_and_what_a_shell_sets_does_not() {
        let names = [
            "TERM",
            "AWS_PROFILE",
            "HOME",
            "SHLVL",
            "XDG_SESSION_ID",
            "XDG_CONFIG_HOME",
            "PWD",
            "KUBECONFIG",
            "KUBERNETES_EXEC_INFO",
            "MYCORP_TOKEN",
            "MYCORP_PROFILE",
            "SSH_AUTH_SOCK",
            "VSCODE_GIT_IPC_AUTH_TOKEN",
            "HOMEBREW_PREFIX",
        ];
        let always = ["AWS_PROFILE", "HOME", "KUBECONFIG", "MYCORP_TOKEN", "XDG_CONFIG_HOME"];

        assert_eq!(kept(&names, &[]), always);
        assert_eq!(kept(&["MYCORP_PROFILE", "MYCORP2"], &["MYCORP_PROFILE"]), ["MYCORP_PROFILE"]);
        assert_eq!(kept(&["MYCORP_A", "MYCORP_B", "MY"], &["MYCORP_*"]), ["MYCORP_A", "MYCORP_B"]);
        assert_eq!(kept(&["PWD"], &["PWD"]), ["PWD"], "who names it wants it");
    }

    #[test]
    fn what_the_client_set_for_the_plugin_counts() {
        let ours = vars(&["PATH", "PROFILE", "_"]);
        let mut clients = ours.clone();
        clients[1].1 = "another".into();

        assert_eq!(relevant(ours.clone(), &[], Some(&clients)), vars(&["PROFILE"]));
        assert_eq!(relevant(ours.clone(), &[], Some(&ours)), []);
        assert_eq!(relevant(ours.clone(), &[], Some(&[])), vars(&["PATH", "PROFILE"]));
        assert_eq!(relevant(ours, &[], None), []);
    }

    #[test]
    fn only_names_and_beginnings_of_names_are_patterns() {
        for wrong in ["", "*", "A=B", "A**", "*A"] {
            assert_eq!(wrong.parse::<VariablePattern>(), Err(InvalidVariablePattern), "{wrong}");
        }
        assert!(IDENTITY_VARIABLES.is_sorted());
    }
}
