//! What is wrong with a kubeconfig or its plugin, and what to do about it.

use keyfob_api::Chain;
use keyfob_client::{AuthError, ClientConfigError, LoadError, NotInteractive};

use super::failure::KubeFailure;
use crate::match_images::shown;

impl KubeFailure {
    /// What is wrong. Where kubectl has words for it they are those.
    pub(crate) fn problem(&self) -> String {
        match self {
            Self::Load(LoadError::Missing(error)) => {
                format!("the kubeconfig cannot be read: {error}")
            }
            Self::Load(error) => error.to_string(),
            Self::Nothing { looked } if looked.is_empty() => "there is no kubeconfig".to_owned(),
            Self::Nothing { looked } => format!("there is no kubeconfig: {looked}"),
            Self::Missing { files, what, name, .. } => {
                format!("the kubeconfig {files} has no {what} {}", shown(name))
            }
            Self::NoContext { files, .. } => {
                format!("the kubeconfig {files} has no current context")
            }
            Self::Config(error) => error.to_string(),
            Self::Kuberc(error) => error.to_string(),
            Self::AuthProvider(unsupported) => unsupported.problem(),
            Self::Client(error) => Chain(error).to_string(),
            Self::Plugin(error) => match looked_for(error) {
                Some(why) => format!("{error}\n{why}"),
                None => error.to_string(),
            },
            Self::Token(error) => {
                format!(
                    "the token has a byte that no header may have, such as a line break: {error}"
                )
            }
            Self::Nobody(why) | Self::WouldFail(why) => why.clone(),
            Self::NoToken(why) => (*why).to_owned(),
        }
    }

    /// What to do, if the problem does not say it already.
    pub(crate) fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Load(LoadError::Missing(_)) | Self::Nothing { .. } => {
                "name one with --kubeconfig or $KUBECONFIG".to_owned()
            }
            Self::Load(_) => "`kubectl config view` reads it too".to_owned(),
            Self::Missing { known, .. } => format!("it has: {known}"),
            Self::NoContext { known, .. } => format!("choose one with --context: {known}"),
            Self::Config(ClientConfigError::TokenFile(_)) => {
                "correct tokenFile of the user".to_owned()
            }
            Self::AuthProvider(unsupported) => unsupported.remedy(),
            Self::Config(_) | Self::Client(_) => {
                "mend the cluster or the user in the kubeconfig".to_owned()
            }
            Self::Plugin(error) => error.advice().unwrap_or_else(|| of_plugin(error)).to_owned(),
            Self::Token(_) => "mend the plugin: a token is one line".to_owned(),
            Self::Nobody(_) => "choose another with --context or --user".to_owned(),
            Self::WouldFail(_) => "without --no-run there is advice".to_owned(),
            Self::Kuberc(_) | Self::NoToken(_) => return None,
        })
    }
}

/// Where a plugin was looked for.
fn looked_for(error: &AuthError) -> Option<String> {
    match error {
        AuthError::NotFound { lookup, .. } => Some(lookup.to_string()),
        AuthError::Waiting { last, .. } | AuthError::Unanswered { last, .. } => looked_for(last),
        _ => None,
    }
}

fn of_plugin(error: &AuthError) -> &'static str {
    match error {
        AuthError::Denied(_) => {
            "if it shall run, let the kuberc allow it: `kubectl kuberc set --section credentialplugin` writes it"
        }
        AuthError::NotFound { .. } => {
            "install it into a directory of PATH, or write its absolute path as command of the user"
        }
        AuthError::NotStarted { .. } => {
            "install it there and make it executable, or correct command of the user"
        }
        AuthError::Answer { .. } | AuthError::Pair(_) => {
            "mend the plugin: `keyfob conformance --client` says what its answer must be"
        }
        AuthError::NulInEnvironment => "take the NUL byte out of env of the user",
        AuthError::Interactive(NotInteractive::Unavailable(_)) => {
            "run it where nobody else reads standard input"
        }
        _ => "see what it says, and run it by hand with the same arguments and environment",
    }
}
