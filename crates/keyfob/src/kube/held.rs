//! What a user shows to its cluster: what its plugin gives, or its own.

use std::sync::Arc;

use keyfob_api::{Secret, Timestamp};
use keyfob_client::{ClientError, Identity};

use super::{
    chosen::{Chosen, Cluster},
    failure::KubeFailure,
};
use crate::{explain::command::without_user, match_images::shown};

/// A credential.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) source: Source,
    pub(super) token: Option<Secret<String>>,
    pub(super) identity: Option<Arc<Identity>>,
    /// Who logs in with a password.
    pub(super) username: Option<String>,
    /// When it ends, as the plugin says.
    pub(super) expiration: Option<Timestamp>,
}

/// Where a credential is from.
#[derive(Debug)]
pub(super) enum Source {
    Plugin { command: String, generation: u64 },
    Kubeconfig,
}

impl Cluster {
    /// The credential. A plugin is run, if there is one and the user has nothing of its own.
    pub(super) async fn held(&self) -> Result<Held, KubeFailure> {
        let Some(authenticator) = self.authenticator()? else { return self.chosen.own() };
        let credential = authenticator.credential().await?;
        credential.authorization().map_err(KubeFailure::Token)?;
        Ok(Held {
            source: Source::Plugin {
                command: authenticator.command().to_owned(),
                generation: credential.generation(),
            },
            token: credential.token().cloned(),
            identity: credential.identity().cloned(),
            username: None,
            expiration: credential.expiration(),
        })
    }
}

impl Chosen {
    /// What the kubeconfig itself holds.
    fn own(&self) -> Result<Held, KubeFailure> {
        let user = &self.config.user;
        let identity = user.identity().map_err(ClientError::from)?;
        // The white space around a token in a file is not sent.
        let token = match &user.token_file {
            Some(_) => user.token.as_ref().map(|token| Secret::from(token.expose().trim())),
            None => user.token.clone(),
        };
        let username = Some(user.username.clone()).filter(|name| !name.is_empty());
        if identity.is_none() && token.is_none() && username.is_none() {
            return Err(KubeFailure::Nobody(self.nobody()));
        }
        let (source, identity) = (Source::Kubeconfig, identity.map(Arc::new));
        Ok(Held { source, token, identity, username, expiration: None })
    }

    /// Why nothing is shown to the server.
    pub(super) fn nobody(&self) -> String {
        let selection = &self.selection;
        let (user, cluster) = (shown(&selection.user_name), shown(&selection.cluster_name));
        if !self.config.server.starts_with("https://") {
            let server = without_user(&self.config.server);
            return format!(
                "no credential is shown to a server that is not https, as {server} of cluster {cluster} is not"
            );
        }
        if selection.user_name.is_empty() {
            return "the context has no user, so that nobody is who asks".into();
        }
        format!(
            "the user {user} has neither a plugin nor a token, certificate or user name of its own"
        )
    }
}
