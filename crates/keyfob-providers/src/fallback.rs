//! What becomes of a pod that has a token, and no identity of its own at the cloud.

use clap::ValueEnum;

/// Whose login it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fallback {
    /// The node's.
    Node,
    /// Nobody's: the request fails.
    None,
}
