//! What a client may cost.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::Pace;

/// What clients may cost a server. The defaults suit a server that strangers can reach.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers fill it in, with `..Default::default()` for the rest"
)]
pub struct Limits {
    /// Connections at the same time, without those in their TLS handshake.
    pub connections: usize,
    /// Connections of one peer.
    pub connections_per_peer: usize,
    /// Connections at the same time that are in their TLS handshake, or wait for a place because no other can make way.
    pub handshakes: usize,
    /// The same of one peer.
    pub handshakes_per_peer: usize,
    /// How long a connection may be in its handshake, or wait.
    pub handshake: Duration,
    /// How long a connection may stay open without a request.
    pub idle: Duration,
    /// The same while three quarters of the connections, or of the peer's share, are in use.
    pub idle_when_crowded: Duration,
    /// How long the head of a request may take, from its first byte.
    pub head: Duration,
    /// How fast the body of a request must arrive.
    pub body: Pace,
    /// Bytes of the body of a request, where the server reads it whole.
    pub body_size: usize,
    /// Bytes of all bodies that are held in memory, received in part or in full.
    pub buffered: usize,
    /// Bytes of a request's head, and of what is buffered of a body or a response for one connection.
    pub buffer: usize,
    /// How fast a client must read its response while there is something to read.
    pub response: Pace,
    /// How long requests may go on after the stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            connections_per_peer: 128,
            handshakes: 512,
            handshakes_per_peer: 128,
            handshake: Duration::from_secs(5),
            idle: Duration::from_mins(1),
            idle_when_crowded: Duration::from_secs(5),
            head: Duration::from_secs(10),
            body: Pace { patience: Duration::from_secs(10), bytes_per_second: 16 << 10 },
            body_size: 1 << 20,
            buffered: 32 << 20,
            buffer: 64 << 10,
            response: Pace { patience: Duration::from_secs(30), bytes_per_second: 1 << 10 },
            drain: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Fewer connections, if the process may not open enough files: half of its files are left for everything else, such as
    /// a proxy's own connections.
    pub(super) fn within_the_file_limit(self, files_per_connection: usize) -> Self {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| files.try_into().ok());
        self.within(files.unwrap_or(usize::MAX), files_per_connection)
    }

    fn within(self, files: usize, files_per_connection: usize) -> Self {
        let most = (files / 2 / files_per_connection.max(1)).max(2);
        if self.connections.saturating_add(self.handshakes) <= most {
            return self;
        }
        let handshakes = self.handshakes.min(most / 4).max(1);
        let connections = self.connections.min(most - handshakes);
        let share = connections.saturating_sub(connections / 4).max(1);
        Self {
            connections,
            connections_per_peer: self.connections_per_peer.min(share),
            handshakes,
            handshakes_per_peer: self.handshakes_per_peer.min(handshakes.div_ceil(2)),
            ..self
        }
    }

    /// How often the server looks for connections whose time is over.
    pub(super) fn sweep_interval(&self) -> Duration {
        let shortest = self.handshake.min(self.head).min(self.idle_when_crowded).min(self.idle);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_half_of_the_files_to_others() {
        let few = Limits::default().within(256, 1);
        assert_eq!((few.connections, few.handshakes), (96, 32));
        assert_eq!((few.connections_per_peer, few.handshakes_per_peer), (72, 16));
        let many = Limits::default().within(20_000, 1);
        assert_eq!((many.connections, many.connections_per_peer), (512, 128));
        // At a unix socket a connection needs three.
        let few = Limits::default().within(768, 3);
        assert_eq!((few.connections, few.handshakes), (96, 32));
    }
}
