//! Who makes way: decisions about the records of connections. No I/O, and the time is an argument.

use std::{collections::HashMap, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{
    super::{Limits, Peer},
    Reason,
};

/// How long a client may leave a response unread before its connection can make way. Every network stalls for a moment.
const BLOCKED_GRACE: Duration = Duration::from_secs(1);

pub(super) type Id = u64;

/// What a connection is counted among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Pool {
    /// Those in their TLS handshake.
    Handshakes,
    /// Those that can send requests.
    Requests,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In its TLS handshake.
    Handshaking,
    /// No request, or only a part of its head.
    Idle,
    /// The body of a request is not here yet.
    Receiving,
    /// A request is being answered.
    Active,
    /// It does not speak HTTP any more.
    Upgraded,
}

/// Whether there is room for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// When a connection that was told to close is closed.
    Soon,
    None,
}

pub(super) struct Table {
    limits: Limits,
    records: HashMap<Id, Record>,
    next: Id,
    /// Bytes of bodies in memory, also of connections that are gone.
    buffered: usize,
}

struct Record {
    peer: Peer,
    state: State,
    /// Since when it is in its state.
    since: Instant,
    /// When the first byte of a head came that is not complete.
    head: Option<Instant>,
    /// Since when the client does not read.
    blocked: Option<Instant>,
    /// Bytes of its request's body in memory.
    buffered: usize,
    /// Tells the connection to close; nothing if it was told.
    evict: Option<oneshot::Sender<Reason>>,
}

impl Table {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, records: HashMap::new(), next: 0, buffered: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether there is room for one more connection of a peer. If not, one is told to make way if one can: of this peer, if
    /// its share is used up, else of any.
    pub(super) fn room(&mut self, peer: Peer, pool: Pool, now: Instant) -> Room {
        let (most, share) = match pool {
            Pool::Handshakes => (self.limits.handshakes, self.limits.handshakes_per_peer),
            Pool::Requests => (self.limits.connections, self.limits.connections_per_peer),
        };
        let used = |within: Option<Peer>| {
            let is_counted =
                |it: &&Record| it.pool() == pool && within.is_none_or(|peer| peer == it.peer);
            self.records.values().filter(is_counted).count()
        };
        let within = if used(Some(peer)) >= share {
            Some(peer)
        } else if used(None) >= most {
            None
        } else {
            return Room::Free;
        };
        let is_one = |it: &Record| it.pool() == pool && within.is_none_or(|peer| peer == it.peer);
        if self.records.values().any(|it| is_one(it) && it.is_closing()) {
            return Room::Soon;
        }
        match self.first_to_go(is_one, now) {
            Some(id) => self.evict(id, Reason::MadeWay),
            None => Room::None,
        }
    }

    pub(super) fn add(
        &mut self,
        peer: Peer,
        pool: Pool,
        evict: oneshot::Sender<Reason>,
        now: Instant,
    ) -> Id {
        let state = match pool {
            Pool::Handshakes => State::Handshaking,
            Pool::Requests => State::Idle,
        };
        let id = self.next;
        self.next += 1;
        let (head, blocked, evict) = (None, None, Some(evict));
        let record = Record { peer, state, since: now, head, blocked, buffered: 0, evict };
        self.records.insert(id, record);
        id
    }

    /// A connection leaves its handshake, if it is in one and there is room for it.
    pub(super) fn establish(&mut self, id: Id, now: Instant) -> Room {
        let handshaking = self.records.get(&id).filter(|it| it.state == State::Handshaking);
        let Some(peer) = handshaking.map(|it| it.peer) else { return Room::Free };
        let room = self.room(peer, Pool::Requests, now);
        if room == Room::Free {
            self.set(id, State::Idle, now);
        }
        room
    }

    pub(super) fn remove(&mut self, id: Id) {
        self.records.remove(&id);
    }

    /// An upgraded connection stays one.
    pub(super) fn set(&mut self, id: Id, state: State, now: Instant) {
        if let Some(record) = self.records.get_mut(&id).filter(|it| it.state != State::Upgraded) {
            (record.state, record.since, record.head) = (state, now, None);
        }
    }

    pub(super) fn received(&mut self, id: Id, now: Instant) {
        if self.records.get(&id).is_some_and(|it| it.state == State::Receiving) {
            self.set(id, State::Active, now);
        }
    }

    pub(super) fn is_upgraded(&self, id: Id) -> bool {
        self.records.get(&id).is_some_and(|it| it.state == State::Upgraded)
    }

    pub(super) fn has_read(&mut self, id: Id, now: Instant) {
        if let Some(record) = self.records.get_mut(&id).filter(|it| it.state == State::Idle) {
            record.head.get_or_insert(now);
        }
    }

    /// A connection whose last response is still being read is not idle before that.
    pub(super) fn has_written(&mut self, id: Id, now: Instant) {
        if let Some(record) = self.records.get_mut(&id) {
            record.blocked = None;
            if record.state == State::Idle {
                record.since = now;
            }
        }
    }

    pub(super) fn is_blocked(&mut self, id: Id, now: Instant) {
        if let Some(record) = self.records.get_mut(&id) {
            record.blocked.get_or_insert(now);
        }
    }

    /// Whether the body of a connection may take up more memory. If not, the body that has been arriving for the longest is
    /// told to make way, of the peer whose bodies take up the most.
    pub(super) fn reserve(&mut self, id: Id, bytes: usize) -> Room {
        if self.buffered.saturating_add(bytes) <= self.limits.buffered {
            self.buffered += bytes;
            if let Some(record) = self.records.get_mut(&id) {
                record.buffered += bytes;
            }
            return Room::Free;
        }
        let is_arriving = |it: &Record| it.state == State::Receiving && it.buffered > 0;
        if self.records.values().any(|it| is_arriving(it) && it.is_closing()) {
            return Room::Soon;
        }
        let mut bytes_of = HashMap::<Peer, usize>::new();
        for record in self.records.values().filter(|it| is_arriving(it)) {
            *bytes_of.entry(record.peer).or_default() += record.buffered;
        }
        let arriving = self.records.iter().filter(|(_, it)| is_arriving(it));
        let first = arriving.min_by_key(|(id, it)| {
            (std::cmp::Reverse(bytes_of.get(&it.peer).copied().unwrap_or_default()), it.since, **id)
        });
        match first.map(|(first, _)| *first) {
            Some(first) if first != id => self.evict(first, Reason::MadeWay),
            _ => Room::None,
        }
    }

    pub(super) fn release(&mut self, id: Id, bytes: usize) {
        self.buffered = self.buffered.saturating_sub(bytes);
        if let Some(record) = self.records.get_mut(&id) {
            record.buffered = record.buffered.saturating_sub(bytes);
        }
    }

    /// Tells the connections to close whose time is over.
    pub(super) fn sweep(&mut self, now: Instant) {
        let late: Vec<_> = self
            .records
            .iter()
            .filter_map(|(id, it)| Some((*id, self.overdue(it, now)?)))
            .collect();
        for (id, reason) in late {
            self.evict(id, reason);
        }
    }

    pub(super) fn evict_any(&mut self, now: Instant) {
        if let Some(id) = self.first_to_go(|_| true, now) {
            self.evict(id, Reason::MadeWay);
        }
    }

    pub(super) fn evict_handshakes(&mut self) {
        let handshakes = self.records.iter().filter(|(_, it)| it.state == State::Handshaking);
        for id in handshakes.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.evict(id, Reason::Stopped);
        }
    }

    fn overdue(&self, record: &Record, now: Instant) -> Option<Reason> {
        let is_over = |since: Instant, limit: Duration| now.duration_since(since) >= limit;
        match record.state {
            State::Handshaking => {
                is_over(record.since, self.limits.handshake).then_some(Reason::HandshakeTooSlow)
            }
            State::Idle if record.head.is_some_and(|head| is_over(head, self.limits.head)) => {
                Some(Reason::HeadTooSlow)
            }
            State::Idle => {
                let crowded = is_over(record.since, self.limits.idle_when_crowded)
                    && self.is_crowded(record.peer);
                (crowded || is_over(record.since, self.limits.idle)).then_some(Reason::Idle)
            }
            State::Receiving | State::Active | State::Upgraded => None,
        }
    }

    /// Whether three quarters of all connections, or of those of a peer, are in use.
    fn is_crowded(&self, peer: Peer) -> bool {
        let connections = || self.records.values().filter(|it| it.pool() == Pool::Requests);
        let of_peer = connections().filter(|it| it.peer == peer).count();
        connections().count() * 4 >= self.limits.connections * 3
            || of_peer * 4 >= self.limits.connections_per_peer * 3
    }

    /// Which connection to evict: the least busy first, then of the peer with the most connections that could make way, then the longest
    /// in that state. Connections that are answered do not count: a peer that waits for many answers would lose each new connection.
    fn first_to_go(&self, is_one: impl Fn(&Record) -> bool, now: Instant) -> Option<Id> {
        let mut count_of = HashMap::<Peer, usize>::new();
        for record in self.records.values().filter(|it| it.can_make_way(now).is_some()) {
            *count_of.entry(record.peer).or_default() += 1;
        }
        let candidates = self.records.iter().filter(|(_, it)| is_one(it) && it.evict.is_some());
        let ranked = candidates.filter_map(|(id, it)| {
            let (rank, since) = it.can_make_way(now)?;
            let count = count_of.get(&it.peer).copied().unwrap_or_default();
            Some((rank, std::cmp::Reverse(count), since, *id))
        });
        ranked.min().map(|(.., id)| id)
    }

    fn evict(&mut self, id: Id, reason: Reason) -> Room {
        if let Some(evict) = self.records.get_mut(&id).and_then(|it| it.evict.take()) {
            // A connection that has ended does not hear it, and its record goes without it.
            evict.send(reason).unwrap_or_default();
        }
        Room::Soon
    }
}

impl Record {
    fn pool(&self) -> Pool {
        match self.state {
            State::Handshaking => Pool::Handshakes,
            _ => Pool::Requests,
        }
    }

    /// Whether it was told to close and will: an upgraded connection is out of reach.
    fn is_closing(&self) -> bool {
        self.evict.is_none() && self.state != State::Upgraded
    }

    /// How readily it makes way, lowest first, and since when; nothing if it does not.
    fn can_make_way(&self, now: Instant) -> Option<(u8, Instant)> {
        let is_stalled = |since: &Instant| now.duration_since(*since) >= BLOCKED_GRACE;
        match (self.state, self.blocked.filter(is_stalled)) {
            (State::Handshaking | State::Idle, _) => Some((0, self.since)),
            (State::Receiving, _) => Some((1, self.since)),
            (State::Active, Some(since)) => Some((2, since)),
            (State::Active, None) | (State::Upgraded, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A table for eight connections, four of a peer, and a clock.
    struct Rig {
        table: Table,
        now: Instant,
        evicted: Vec<oneshot::Receiver<Reason>>,
    }

    impl Rig {
        fn new() -> Self {
            let (connections, connections_per_peer, buffered) = (8, 4, 100);
            let limits =
                Limits { connections, connections_per_peer, buffered, ..Limits::default() };
            Self { table: Table::new(limits), now: Instant::now(), evicted: Vec::new() }
        }

        /// One more connection of a peer, a second later, in a state.
        fn add(&mut self, peer: u32, state: State) -> Id {
            self.now += SECOND;
            let (evict, evicted) = oneshot::channel();
            self.evicted.push(evicted);
            let id = self.table.add(Peer::User(peer), Pool::Requests, evict, self.now);
            self.table.set(id, state, self.now);
            id
        }

        fn room(&mut self, peer: u32) -> Room {
            self.table.room(Peer::User(peer), Pool::Requests, self.now)
        }

        /// Who was told to close, and why, since it was last asked.
        fn told(&mut self) -> Vec<(usize, Reason)> {
            let told = self.evicted.iter_mut().enumerate();
            told.filter_map(|(id, evicted)| Some((id, evicted.try_recv().ok()?))).collect()
        }
    }

    #[test]
    fn the_peer_with_the_most_connections_makes_way_and_never_an_active_one() {
        let mut rig = Rig::new();
        for (peer, state) in [
            (1, State::Idle),
            (2, State::Active),
            (2, State::Idle),
            (2, State::Idle),
            (3, State::Active),
            (3, State::Upgraded),
            (3, State::Active),
        ] {
            rig.add(peer, state);
        }
        assert_eq!(rig.room(9), Room::Free);
        rig.add(4, State::Idle);

        assert_eq!(rig.room(9), Room::Soon);
        assert_eq!(rig.told(), [(2, Reason::MadeWay)]);
        // Nobody else has to go while that one is closing.
        assert_eq!((rig.room(9), rig.told()), (Room::Soon, vec![]));
        rig.table.remove(2);
        assert_eq!(rig.room(9), Room::Free);
    }

    #[test]
    fn a_peer_that_waits_for_many_answers_does_not_lose_its_next_connection() {
        let mut rig = Rig::new();
        for (peer, state) in [(1, State::Idle), (1, State::Idle), (3, State::Idle)] {
            rig.add(peer, state);
        }
        for _ in 0..4 {
            rig.add(2, State::Active);
        }
        rig.add(2, State::Idle);
        assert_eq!((rig.room(4), rig.told()), (Room::Soon, vec![(0, Reason::MadeWay)]));
    }

    #[test]
    fn a_peer_beyond_its_share_has_only_its_own_connections_to_give() {
        let mut rig = Rig::new();
        let other = rig.add(2, State::Idle);
        let own: Vec<_> = (0..4).map(|_| rig.add(1, State::Active)).collect();
        assert_eq!((rig.room(1), rig.room(2)), (Room::None, Room::Free));

        rig.table.set(own[2], State::Receiving, rig.now);
        assert_eq!((rig.room(1), rig.told()), (Room::Soon, vec![(3, Reason::MadeWay)]));
        assert_eq!(other, 0);
    }

    #[test]
    fn those_who_do_not_read_make_way_after_those_who_do_not_send() {
        let mut rig = Rig::new();
        for _ in 0..2 {
            let deaf = rig.add(1, State::Active);
            rig.table.is_blocked(deaf, rig.now);
        }
        rig.add(1, State::Receiving);
        rig.add(1, State::Idle);
        rig.now += BLOCKED_GRACE;
        for expected in [3, 2, 0, 1] {
            assert_eq!(rig.room(1), Room::Soon);
            assert_eq!(rig.told(), [(expected, Reason::MadeWay)]);
            rig.table.set(expected as Id, State::Upgraded, rig.now);
        }
        assert_eq!(rig.room(1), Room::None);
    }

    #[test]
    fn memory_is_taken_from_the_peer_that_holds_the_most_unfinished_bodies() {
        let mut rig = Rig::new();
        let small = rig.add(1, State::Receiving);
        let large = [rig.add(2, State::Receiving), rig.add(2, State::Receiving)];
        let newcomer = rig.add(3, State::Receiving);
        assert_eq!(rig.table.reserve(small, 30), Room::Free);
        assert_eq!(rig.table.reserve(large[0], 20), Room::Free);
        assert_eq!(rig.table.reserve(large[1], 50), Room::Free);

        assert_eq!(rig.table.reserve(newcomer, 10), Room::Soon);
        assert_eq!(rig.told(), [(1, Reason::MadeWay)]);
        rig.table.remove(large[0]);
        rig.table.release(large[0], 20);
        assert_eq!(rig.table.reserve(newcomer, 10), Room::Free);

        // Bodies that are complete are in use.
        for id in [small, large[1], newcomer] {
            rig.table.received(id, rig.now);
        }
        assert_eq!(rig.table.reserve(newcomer, 50), Room::None);
    }

    #[test]
    fn an_idle_connection_has_less_time_when_there_are_many() {
        let mut rig = Rig::new();
        let watch = rig.add(1, State::Active);
        rig.add(1, State::Idle);
        rig.now += 10 * SECOND;
        rig.table.sweep(rig.now);
        assert_eq!(rig.told(), []);
        rig.add(1, State::Idle);
        rig.table.sweep(rig.now);
        assert_eq!(rig.told(), [(1, Reason::Idle)]);

        let slow = rig.add(2, State::Idle);
        rig.table.has_read(slow, rig.now);
        rig.now += 11 * SECOND;
        rig.table.has_read(slow, rig.now);
        rig.table.sweep(rig.now);
        assert_eq!(rig.told(), [(2, Reason::Idle), (3, Reason::HeadTooSlow)]);
        assert_eq!(watch, 0);
    }
}
