//! The connections of a server, and which of them makes way for another.
//!
//! The table is the only place that counts. Its decisions (`table`) are functions of the records and the time; here they are carried
//! out: whoever needs a place waits until the connection that makes way is really closed, so that file descriptors and memory never
//! exceed their limits.

mod table;

use std::{
    error::Error,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

pub(super) use self::table::Pool;
use self::table::{Id, Room, State, Table};
use super::{Limits, Peer};

/// All connections of a server.
pub(super) struct Connections {
    pub(super) limits: Limits,
    table: Mutex<Table>,
    /// A place or some memory is free again.
    freed: Notify,
    open: OpenConnections,
}

/// How many connections a server has at the moment. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<AtomicUsize>);

impl OpenConnections {
    /// The number, those that wait for a place or are in their TLS handshake too.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Connections {
    pub(super) fn new(limits: Limits, open: OpenConnections) -> Arc<Self> {
        let table = Mutex::new(Table::new(limits));
        Arc::new(Self { limits, table, freed: Notify::new(), open })
    }

    /// A place for a new connection, as soon as the connection that makes way for it is closed. Nothing if none can make way.
    pub(super) async fn admit(
        self: &Arc<Self>,
        peer: Peer,
        pool: Pool,
    ) -> Option<(Slot, oneshot::Receiver<Reason>)> {
        let (evict, evicted) = oneshot::channel();
        let (mut evict, mut added) = (Some(evict), None);
        self.until_decided(|table, now| {
            let room = table.room(peer, pool, now);
            if room == Room::Free {
                added = evict.take().map(|evict| table.add(peer, pool, evict, now));
            }
            room
        })
        .await;
        let id = added?;
        self.open.0.fetch_add(1, Ordering::Relaxed);
        let shared = Shared {
            connections: Arc::clone(self),
            id,
            spoke: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        };
        Some((Slot { connection: Connection(Arc::new(shared)) }, evicted))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table().is_empty()
    }

    /// Closes the connections whose time is over.
    pub(super) fn sweep(&self) {
        self.table().sweep(Instant::now());
        // With time, too, a connection becomes one that can make way.
        self.freed.notify_waiters();
    }

    /// Closes an idle connection, if there is one.
    pub(super) fn evict_any(&self) {
        self.table().evict_any(Instant::now());
    }

    /// Closes the connections that never came to a request.
    pub(super) fn evict_handshakes(&self) {
        self.table().evict_handshakes();
    }

    /// Asks the table for something until it is granted or refused; in between, something that makes way is closed.
    async fn until_decided(&self, mut ask: impl FnMut(&mut Table, Instant) -> Room) -> bool {
        loop {
            let freed = self.freed.notified();
            let mut freed = std::pin::pin!(freed);
            freed.as_mut().enable();
            // What is granted is taken under the same lock.
            let room = ask(&mut self.table(), Instant::now());
            match room {
                Room::Free => return true,
                Room::None => return false,
                Room::Soon => freed.await,
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection. It is free when this is dropped.
pub(super) struct Slot {
    pub(super) connection: Connection,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Shared { connections, id, .. } = &*self.connection.0;
        connections.table().remove(*id);
        connections.open.0.fetch_sub(1, Ordering::Relaxed);
        connections.freed.notify_waiters();
    }
}

/// A connection of a server, for whoever answers its requests.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

struct Shared {
    connections: Arc<Connections>,
    id: Id,
    /// Something came from the client.
    spoke: AtomicBool,
    cut: AtomicBool,
}

impl Connection {
    /// Closes the connection, without a proper end, as soon as everything that was written so far has been sent.
    pub fn cut(&self) {
        self.0.cut.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.0.cut.load(Ordering::Relaxed)
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.connections.limits
    }

    /// Waits for a place among the connections that can send requests. While it waits it counts as in its handshake: its time is
    /// bounded, and it makes way for others that wait.
    pub(super) async fn gets_a_place(&self) {
        let place = |table: &mut Table, now| match table.establish(self.0.id, now) {
            Room::None => Room::Soon,
            room => room,
        };
        self.0.connections.until_decided(place).await;
    }

    /// The head of a request is here, and perhaps all of it.
    pub(super) fn has_a_request(&self, is_complete: bool) {
        let state = if is_complete { State::Active } else { State::Receiving };
        self.update(|table, id, now| table.set(id, state, now));
    }

    /// The request is here as a whole, or nobody reads the rest.
    pub(super) fn has_the_body(&self) {
        self.update(Table::received);
    }

    pub(super) fn is_answered(&self) {
        self.update(|table, id, now| table.set(id, State::Idle, now));
        // From now on it can make way.
        self.0.connections.freed.notify_waiters();
    }

    pub(super) fn upgrades(&self) {
        self.update(|table, id, now| table.set(id, State::Upgraded, now));
        // If it was told to make way in this very moment, it will not: nobody may wait for that.
        self.0.connections.freed.notify_waiters();
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.0.connections.table().is_upgraded(self.0.id)
    }

    /// Whether anything has come from the client.
    pub(super) fn has_spoken(&self) -> bool {
        self.0.spoke.load(Ordering::Relaxed)
    }

    pub(super) fn has_read(&self) {
        self.0.spoke.store(true, Ordering::Relaxed);
        self.update(Table::has_read);
    }

    pub(super) fn has_written(&self) {
        self.update(Table::has_written);
    }

    /// The client does not read what is to be written.
    pub(super) fn is_blocked(&self) {
        self.update(Table::is_blocked);
    }

    /// Room in memory for the body of a request: none at first.
    pub(super) fn reservation(&self) -> Reservation {
        Reservation { connection: self.clone(), bytes: 0 }
    }

    fn update(&self, change: impl FnOnce(&mut Table, Id, Instant)) {
        change(&mut self.0.connections.table(), self.0.id, Instant::now());
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.0.id).finish()
    }
}

/// Room in memory that a body takes up for as long as this lives.
pub(super) struct Reservation {
    connection: Connection,
    bytes: usize,
}

impl Reservation {
    /// More room, as soon as the bodies that make way for it are gone; whether there is any.
    pub(super) async fn grow(&mut self, bytes: usize) -> bool {
        let Shared { connections, id, .. } = &*self.connection.0;
        let granted = connections.until_decided(|table, _| table.reserve(*id, bytes)).await;
        if granted {
            self.bytes += bytes;
        }
        granted
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Shared { connections, id, .. } = &*self.connection.0;
        connections.table().release(*id, self.bytes);
        connections.freed.notify_waiters();
    }
}

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    HandshakeTooSlow,
    HeadTooSlow,
    Idle,
    MadeWay,
    Stopped,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HandshakeTooSlow => "the TLS handshake took too long",
            Self::HeadTooSlow => "the head of a request took too long",
            Self::Idle => "it was idle for too long",
            Self::MadeWay => "it made way for another connection or request",
            Self::Stopped => "the server stops",
        })
    }
}

impl Error for Reason {}
