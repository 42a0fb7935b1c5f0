//! How patient, how eager, how careful: what a program may choose.

use std::time::Duration;

/// How an authenticator and its transports behave where upstream leaves it open, or does worse.
///
/// ```
/// let mut behaviour = keyfob_client::Behaviour::default();
/// behaviour.deadline = Some(std::time::Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Behaviour {
    /// After how long a run without a terminal is killed. Upstream: never.
    pub deadline: Option<Duration>,
    /// Whether a credential in the last fifth of its life (at most five minutes) is replaced in the background while it is
    /// still used, unless the plugin would get the terminal. Only a use starts that. Upstream: no.
    pub refresh_ahead: bool,
    /// For how long a new credential is used whatever its expiry says, unless a server refuses it, so that clocks that differ
    /// cannot make a plugin run for each request. Upstream: not at all.
    pub minimum_validity: Duration,
    /// Whether failed runs, and more than three credentials in a row that no server accepted, make the next run wait: a second,
    /// and each time longer, up to a minute. Never in the way of a credential that is good. Upstream: no.
    pub back_off: bool,
    /// After how many failed runs with a terminal in a row nobody is asked again for an hour. Upstream: never.
    pub interactive_attempts: Option<u32>,
    /// Whether a request that got a 401 is sent again with a new credential, if its body can be sent twice: once; more often
    /// (eight times at most) only if that one was accepted before it was refused. After the last attempt the plugin is not run
    /// again: the next request that needs a credential does that. Upstream: no; the plugin is run after each 401, at once.
    pub replay: bool,
    /// Whether plugins of v1alpha1 are run, which are told of the 401 that they are run for. Upstream: until 1.23.
    pub v1alpha1: bool,
    /// What happens to connections made with a certificate that was replaced. Upstream: closed.
    pub old_connections: OldConnections,
}

/// What happens to connections made with a certificate that was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldConnections {
    /// They are closed at once, with whatever is under way on them.
    #[default]
    Close,
    /// No new request uses them; what is under way comes to its end.
    Drain,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            deadline: Some(Duration::from_mins(2)),
            refresh_ahead: true,
            minimum_validity: Duration::from_secs(10),
            back_off: true,
            interactive_attempts: Some(3),
            replay: true,
            v1alpha1: false,
            old_connections: OldConnections::Close,
        }
    }
}

impl Behaviour {
    /// What client-go does.
    pub fn of_client_go() -> Self {
        Self {
            deadline: None,
            refresh_ahead: false,
            minimum_validity: Duration::ZERO,
            back_off: false,
            interactive_attempts: None,
            replay: false,
            v1alpha1: false,
            old_connections: OldConnections::Close,
        }
    }
}
