//! Why a kubeconfig comes to nothing, and what to do about it. No secret of it is told.

use std::{error::Error as StdError, fmt};

use keyfob_client::{
    AuthError, ClientConfigError, ClientError, ExecError, KubercError, LoadError, UnusableToken,
};
use keyfob_net::api_server::plain;

use super::auth_provider::UnsupportedAuthProvider;
use crate::{Outcome, Verdict};

/// Why a kubeconfig comes to nothing. It tells all there is to say, so it has no source.
#[derive(Debug)]
pub(crate) enum KubeFailure {
    /// A file cannot be read, or is no kubeconfig.
    Load(LoadError),
    /// There is no file, or nothing in it.
    Nothing { looked: String },
    /// Something is named, and not there.
    Missing { files: String, what: &'static str, name: String, known: String },
    /// Nobody says which context counts.
    NoContext { files: String, known: String },
    /// What was chosen cannot be used.
    Config(ClientConfigError),
    /// Nobody knows which plugins may be run.
    Kuberc(KubercError),
    /// The user logs in in a way that is not supported.
    AuthProvider(Box<UnsupportedAuthProvider>),
    /// No client can be made of it.
    Client(ClientError),
    /// The plugin gives no credential.
    Plugin(Box<AuthError>),
    /// The plugin gives a token that cannot be sent.
    Token(UnusableToken),
    /// Nothing is shown to the server.
    Nobody(String),
    /// There is a credential, and nothing in it of the sort that was asked for.
    NoToken(&'static str),
    /// The plugin was not run, and could not be.
    WouldFail(String),
}

impl StdError for KubeFailure {}

/// The problem and what to do. What a plugin said itself was shown while it ran.
impl fmt::Display for KubeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem())?;
        match (self.remedy(), self) {
            (Some(remedy), Self::Plugin(_)) => {
                write!(f, "\n{remedy}; `keyfob kube explain` says more")
            }
            (Some(remedy), Self::AuthProvider(_)) => write!(f, "\n{remedy}"),
            (Some(remedy), _) => write!(f, "; {remedy}"),
            (None, _) => Ok(()),
        }
    }
}

impl KubeFailure {
    /// Whether what was typed and written is right, and it is the credential that is missing.
    pub(crate) fn is_of_the_credential(&self) -> bool {
        !matches!(
            self,
            Self::Load(_)
                | Self::Nothing { .. }
                | Self::Missing { .. }
                | Self::NoContext { .. }
                | Self::Config(_)
                | Self::Kuberc(_)
                | Self::AuthProvider(_)
                | Self::Client(_)
        )
    }
}

impl From<LoadError> for KubeFailure {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<ClientConfigError> for KubeFailure {
    fn from(error: ClientConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<KubercError> for KubeFailure {
    fn from(error: KubercError) -> Self {
        Self::Kuberc(error)
    }
}

impl From<ClientError> for KubeFailure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<AuthError> for KubeFailure {
    fn from(error: AuthError) -> Self {
        Self::Plugin(Box::new(error))
    }
}

impl From<KubeFailure> for Outcome {
    fn from(failure: KubeFailure) -> Self {
        let verdict =
            if failure.is_of_the_credential() { Verdict::No } else { Verdict::WrongInput };
        Self { verdict, ..Self::wrong_input(&failure) }
    }
}

/// Why a request was not answered, on one line.
pub(crate) fn said(error: &kube::Error) -> String {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(each) = cause {
        if let Some(error) = each.downcast_ref::<ExecError>() {
            return not_sent(error);
        }
        cause = each.source();
    }
    plain(error)
}

fn not_sent(error: &ExecError) -> String {
    let text = match error {
        ExecError::Credentials(error) => format!("getting credentials: {}", error.in_full()),
        other => other.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_fails_is_the_reason_however_deep_it_lies() {
        let error = ExecError::Credentials(AuthError::NoRuntime);
        let error = kube::Error::Service(Box::new(error));

        let want = "getting credentials: the plugin cannot be run outside of a tokio runtime";
        assert_eq!(said(&error), want);
    }
}
