//! What a client may cost.

use std::time::Duration;

/// What a client may cost. Whoever may push is trusted with names: repositories and tags are not counted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a blob.
    pub blob: u64,
    /// Bytes of a manifest.
    pub manifest: usize,
    /// Bytes of everything together.
    pub stored: u64,
    /// Uploads that have begun and not ended; the oldest gives way to a new one.
    pub uploads: usize,
    /// Connections at the same time; more wait to be accepted.
    pub connections: usize,
    /// How long a connection may be silent before, and need for, the head of a request.
    pub head: Duration,
    /// How long the next piece of a body may take to come, and the next piece of an answer to be taken.
    pub silence: Duration,
    /// How long requests may go on after the stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            blob: 8 << 30,
            manifest: 4 << 20,
            stored: 32 << 30,
            uploads: 64,
            connections: 256,
            head: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}
