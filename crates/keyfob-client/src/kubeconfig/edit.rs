//! Changes to a plugin's configuration.
//!
//! Upstream: the `--exec-…` flags of `kubectl config set-credentials`.
//! Differs: variables that are new come in the order in which they are given (upstream: in a random one).

use std::fmt;

use keyfob_api::Secret;

use crate::{ExecConfig, InteractiveMode};

/// What is to be changed of a user's plugin. What is `None` or empty stays.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ExecEdit {
    /// `--exec-command`: another command, which has none of the old one's arguments. Without one nothing is added to a user
    /// that has no plugin.
    pub command: Option<String>,
    /// `--exec-api-version`
    pub api_version: Option<String>,
    /// `--exec-arg`: all arguments.
    pub args: Option<Vec<String>>,
    /// `--exec-interactive-mode`
    pub interactive_mode: Option<InteractiveMode>,
    /// `--exec-provide-cluster-info`
    pub provide_cluster_info: Option<bool>,
    /// `--exec-env NAME=VALUE`
    pub set_env: Vec<(String, Secret<String>)>,
    /// `--exec-env NAME-`
    pub unset_env: Vec<String>,
}

impl ExecEdit {
    /// The plugin with its changes.
    pub fn apply(&self, exec: Option<ExecConfig>) -> Option<ExecConfig> {
        let mut exec = match (&self.command, exec) {
            (Some(command), exec) => ExecConfig {
                command: command.clone(),
                args: Vec::new(),
                ..exec.unwrap_or_default()
            },
            (None, exec) => exec?,
        };
        exec.api_version = self.api_version.clone().unwrap_or(exec.api_version);
        exec.args = self.args.clone().unwrap_or(exec.args);
        exec.interactive_mode = self.interactive_mode.clone().unwrap_or(exec.interactive_mode);
        exec.provide_cluster_info = self.provide_cluster_info.unwrap_or(exec.provide_cluster_info);
        exec.env.retain(|(name, _)| !self.unset_env.contains(name));
        for (name, value) in &self.set_env {
            match exec.env.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => known.clone_from(value),
                None => exec.env.push((name.clone(), value.clone())),
            }
        }
        Some(exec)
    }
}

/// Arguments and variables may hold secrets.
impl fmt::Debug for ExecEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecEdit")
            .field("command", &self.command)
            .field("api_version", &self.api_version)
            .field("interactive_mode", &self.interactive_mode)
            .field("provide_cluster_info", &self.provide_cluster_info)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, Secret<String>)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_new_command_drops_the_old_ones_arguments_and_keeps_the_rest() {
        let before = ExecConfig {
            command: "old".into(),
            args: vec!["a".into()],
            api_version: "v".into(),
            ..ExecConfig::default()
        };
        let edit = ExecEdit { command: Some("new".into()), ..ExecEdit::default() };

        let after = edit.apply(Some(before)).unwrap();

        let wanted =
            ExecConfig { command: "new".into(), api_version: "v".into(), ..ExecConfig::default() };
        assert_eq!(after, wanted);
    }

    #[test]
    fn a_user_without_a_plugin_gets_one_by_a_command_only() {
        let args = Some(vec!["a".to_owned()]);
        let edit = ExecEdit { args: args.clone(), ..ExecEdit::default() };
        assert_eq!(edit.apply(None), None);

        let edit = ExecEdit { command: Some("c".into()), args, ..ExecEdit::default() };
        assert_eq!(edit.apply(None).unwrap().args, ["a"]);
    }

    #[test]
    fn variables_are_removed_replaced_and_added() {
        let env = variables(&[("A", "1"), ("B", "2"), ("C", "3")]);
        let before = ExecConfig { env, ..ExecConfig::default() };
        let edit = ExecEdit {
            set_env: variables(&[("C", "4"), ("D", "5")]),
            unset_env: vec!["A".into(), "X".into()],
            ..ExecEdit::default()
        };

        let after = edit.apply(Some(before)).unwrap();

        assert_eq!(after.env, variables(&[("B", "2"), ("C", "4"), ("D", "5")]));
    }
}
