//! One run for all callers that need the same outcome at the same time.
//!
//! A flight has one [`Leader`], which must finish it, and any number of [`Waiter`]s, which get its outcome. The run belongs to no
//! caller: a waiter that is dropped does not stop it. [`start`] makes a flight whose slot the caller keeps; a [`Group`] has a slot
//! for each key.
//!
//! Whoever keeps outcomes stores an outcome before the flight is finished, and a new leader looks there first. Then nobody asks
//! again for what has just been answered.
//!
//! Upstream uses `singleflight.Group` of `golang.org/x/sync`, in which a flight is the call of the first caller.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

type Announced<T> = watch::Receiver<Option<T>>;
type InFlight<T> = Mutex<HashMap<Box<[u8]>, Announced<T>>>;

/// Starts a flight. The caller puts the waiter into a slot, where others find and clone it, and `release` empties that slot.
///
/// `release` is called at most once, when the flight ends and before any waiter learns of it. It may take a lock, which must
/// not be held while the leader is dropped.
pub fn start<T>(release: impl FnOnce() + Send + 'static) -> (Leader<T>, Waiter<T>) {
    let (announce, announced) = watch::channel(None);
    let leader = Leader { release: Some(Box::new(release)), announce };
    (leader, Waiter { announced, _counted: Arc::default() })
}

/// The side of a flight that must finish it.
///
/// A leader that is dropped without having finished releases its slot, so that the next caller starts a new flight, and its
/// waiters get no outcome.
pub struct Leader<T> {
    release: Option<Box<dyn FnOnce() + Send>>,
    announce: watch::Sender<Option<T>>,
}

impl<T> Leader<T> {
    /// Releases the slot and gives all waiters the outcome.
    pub fn finish(mut self, outcome: T) {
        self.release();
        self.announce.send_replace(Some(outcome));
    }

    /// Gives all waiters the outcome, for a caller that has emptied the slot itself, such as under the lock under which it
    /// stored the outcome. There may already be another flight in the slot, so it is left alone.
    pub fn finish_released(mut self, outcome: T) {
        self.release = None;
        self.announce.send_replace(Some(outcome));
    }

    /// Whether anybody waits, beside the waiter that keeps the slot. Somebody may join right after the answer: a leader that is dropped
    /// then gives them no outcome, and they start again.
    pub fn is_awaited(&self) -> bool {
        self.announce.receiver_count() > 1
    }

    fn release(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T> fmt::Debug for Leader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").finish_non_exhaustive()
    }
}

/// The side of a flight that gets its outcome. A clone waits for the same flight.
#[derive(Clone)]
pub struct Waiter<T> {
    announced: Announced<T>,
    /// Shared by all waiters of a group, which counts the references.
    _counted: Arc<()>,
}

impl<T: Clone> Waiter<T> {
    /// Waits for the outcome. `None` means that the leader was dropped without having finished.
    pub async fn outcome(mut self) -> Option<T> {
        let announced = self.announced.wait_for(Option::is_some).await;
        announced.ok().and_then(|outcome| outcome.clone())
    }
}

impl<T> fmt::Debug for Waiter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

/// Flights by key, at most one for each key at a time.
pub struct Group<T> {
    in_flight: Arc<InFlight<T>>,
    /// Each waiter has a reference to this.
    counted: Arc<()>,
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Joins the flight of a key. If there is none in flight, this starts one, and the caller is its leader too.
    pub fn join(&self, key: &[u8]) -> (Waiter<T>, Option<Leader<T>>) {
        let mut in_flight = lock(&self.in_flight);
        if let Some(announced) = in_flight.get(key) {
            return (self.waiter(announced.clone()), None);
        }
        let key: Box<[u8]> = key.into();
        let (slots, released) = (self.in_flight.clone(), key.clone());
        let (leader, Waiter { announced, .. }) = start(move || {
            lock(&slots).remove(&released);
        });
        in_flight.insert(key, announced.clone());
        (self.waiter(announced), Some(leader))
    }

    /// How many waiters there are, those of flights that have just ended too.
    pub fn waiters(&self) -> usize {
        Arc::strong_count(&self.counted) - 1
    }

    fn waiter(&self, announced: Announced<T>) -> Waiter<T> {
        Waiter { announced, _counted: self.counted.clone() }
    }
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Self { in_flight: Arc::default(), counted: Arc::default() }
    }
}

impl<T> fmt::Debug for Group<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({} in flight)", lock(&self.in_flight).len())
    }
}

/// The map is never left half changed, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_waiters_get_the_outcome_of_the_one_flight() {
        let group = Group::default();
        let (first, leader) = group.join(b"image");
        let (second, no_leader) = group.join(b"image");
        let (_other, other_leader) = group.join(b"other");
        assert!(no_leader.is_none() && other_leader.is_some());
        assert_eq!(group.waiters(), 3);

        leader.unwrap().finish(7);

        assert_eq!((first.outcome().await, second.outcome().await), (Some(7), Some(7)));
        assert_eq!(group.waiters(), 1);
        assert!(group.join(b"image").1.is_some(), "the next caller starts a new flight");
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_stops_nothing() {
        let group = Group::default();
        let (leaving, leader) = group.join(b"image");
        drop(leaving);
        let (staying, no_leader) = group.join(b"image");
        assert!(no_leader.is_none());

        leader.unwrap().finish("here");

        assert_eq!(staying.outcome().await, Some("here"));
    }

    #[tokio::test]
    async fn a_leader_knows_whether_anybody_waits() {
        let group = Group::<()>::default();
        let (waiter, leader) = group.join(b"image");
        let leader = leader.unwrap();
        assert!(leader.is_awaited());
        drop(waiter);
        assert!(!leader.is_awaited());
        let _joined = group.join(b"image");
        assert!(leader.is_awaited());
    }

    #[tokio::test]
    async fn a_lost_leader_leaves_nobody_waiting() {
        let group = Group::<()>::default();
        let (waiter, leader) = group.join(b"image");

        drop(leader);

        assert_eq!(waiter.outcome().await, None);
        assert!(group.join(b"image").1.is_some());
    }

    /// A slot with the number of the flight that is in it.
    fn slot(flight: u8) -> (Arc<Mutex<Option<u8>>>, impl FnOnce() + Send + 'static) {
        let slot = Arc::new(Mutex::new(Some(flight)));
        let released = slot.clone();
        (slot, move || *lock(&released) = None)
    }

    #[tokio::test]
    async fn the_slot_is_released_before_a_waiter_has_the_outcome() {
        let (slot, release) = slot(1);
        let (leader, waiter) = start(release);
        let other = waiter.clone();

        leader.finish("done");

        assert_eq!(*lock(&slot), None);
        assert_eq!((waiter.outcome().await, other.outcome().await), (Some("done"), Some("done")));
    }

    #[tokio::test]
    async fn a_lost_leader_releases_its_slot() {
        let (slot, release) = slot(1);
        let (leader, waiter) = start::<()>(release);

        drop(leader);

        assert_eq!(*lock(&slot), None);
        assert_eq!(waiter.outcome().await, None);
    }

    #[tokio::test]
    async fn a_flight_whose_slot_was_released_leaves_the_next_one_alone() {
        let (slot, release) = slot(1);
        let (leader, waiter) = start(release);
        *lock(&slot) = Some(2);

        leader.finish_released("done");

        assert_eq!(*lock(&slot), Some(2));
        assert_eq!(waiter.outcome().await, Some("done"));
    }
}
