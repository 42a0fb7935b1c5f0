//! What a client may cost.

use std::time::Duration;

use keyfob_net::server::{self, Pace};

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
    /// Connections at the same time. One address may have three quarters of them; for more, an idle one makes way.
    pub connections: usize,
    /// How long a connection may be silent before, and need for, the head of a request.
    pub head: Duration,
    /// How long a client may send nothing of a body, or read nothing of an answer; and it must not be slower than 1 KiB/s.
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

/// What is read of a body, and kept of an answer that is not taken, at a time.
const BUFFER: usize = 256 << 10;

impl From<&Limits> for server::Limits {
    fn from(limits: &Limits) -> Self {
        let pace = Pace { patience: limits.silence, bytes_per_second: 1 << 10 };
        Self {
            connections: limits.connections,
            connections_per_peer: limits.connections.saturating_sub(limits.connections / 4),
            idle: limits.head,
            idle_when_crowded: limits.head.min(Self::default().idle_when_crowded),
            head: limits.head,
            body: pace,
            response: pace,
            buffer: BUFFER,
            drain: limits.drain,
            ..Self::default()
        }
    }
}
