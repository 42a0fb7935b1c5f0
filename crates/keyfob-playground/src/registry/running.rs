//! A registry that runs, for whoever started it.

use std::{net::SocketAddr, sync::Arc};

use keyfob_api::Secret;
use tokio::{sync::watch, task::JoinHandle};

use super::{
    Server,
    access::User,
    fault::Fault,
    image::{self, ImageToMake, PushError, PushedImage},
    journal::SeenRequest,
};

/// A running registry. It stops when it is dropped.
#[derive(Debug)]
pub struct Running {
    server: Arc<Server>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    pub(super) fn new(
        server: Arc<Server>,
        stop: watch::Sender<bool>,
        task: JoinHandle<()>,
    ) -> Self {
        Self { server, stop, task }
    }

    /// Where it listens; as `HOST:PORT` also what images on it are named by.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// `http://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// The last requests, in the order in which they were answered.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.server.journal.all()
    }

    /// Forgets the requests so far.
    pub fn forget_requests(&self) {
        self.server.journal.clear();
    }

    /// Something is to go wrong.
    pub fn inject(&self, fault: Fault) {
        self.server.faults.add(fault);
    }

    /// Nothing is to go wrong any more.
    pub fn clear_faults(&self) {
        self.server.faults.clear();
    }

    /// Adds a user, or replaces the one of that name with all their logins. Tokens live on until they end.
    pub fn set_user(&self, user: User) {
        self.server.users.set(user);
    }

    /// Gives a user another password, and ends those before it; whether there is such a user. Tokens live on until they end.
    pub fn set_password(&self, user: &str, password: impl Into<Secret<String>>) -> bool {
        self.server.users.set_password(user, &password.into())
    }

    /// Ends all logins and tokens of a user, who is a stranger from now on; whether there was such a user.
    pub fn revoke(&self, user: &str) -> bool {
        self.server.tokens.revoke(user);
        self.server.users.revoke(user)
    }

    /// Ends all bearer tokens.
    pub fn end_tokens(&self) {
        self.server.tokens.clear();
    }

    /// Puts an image into a repository, without a network and without asking who may.
    pub async fn push_image(
        &self,
        repository: &str,
        tag: &str,
        image: &ImageToMake,
    ) -> Result<PushedImage, PushError> {
        image::push(&self.server.storage, &self.server.limits, (repository, tag), image).await
    }

    /// Ends it, and waits until it has ended.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        // A task that panicked has ended, too.
        self.task.await.unwrap_or_default();
    }
}
