//! Whoever wants to know what plugins do, whether or not a caller still waits for them.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::CallError;

/// Is told of each attempt to get an answer from a plugin, such as a status page.
///
/// It is called on the task that ran the plugin, so it must not block.
pub trait PluginObserver: fmt::Debug + Send + Sync {
    /// An attempt has ended, whoever made it: a pull, or the renewal of a cached answer. Pulls that share a run are one attempt.
    fn ended(&self, attempt: &PluginAttempt<'_>);
}

/// An attempt to get an answer from a plugin.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PluginAttempt<'a> {
    /// The provider.
    pub provider: &'a str,
    /// The repository that it was asked about.
    pub image: &'a str,
    /// How long the plugin ran; nothing if it was not started, because there is no token of the pod's service account.
    pub took: Option<Duration>,
    /// Until when the answer is kept (nothing if it may not be), or why there is none.
    pub result: Result<Option<SystemTime>, &'a Arc<CallError>>,
}
