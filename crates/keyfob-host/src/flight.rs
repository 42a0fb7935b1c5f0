//! One run for everybody who asks the same at the same time.
//!
//! Whoever comes first is the pilot and lands the flight; everybody holds a ticket. The run does not belong to any of
//! them: a passenger who leaves does not stop it.
//!
//! Upstream: `singleflight.Group` as `pkg/credentialprovider/plugin` uses it.
//! Differs: what a flight brings is stored before it ends, and a new pilot looks there first, so nobody asks again for
//! what has just been answered.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;

type Arrival<T> = watch::Receiver<Option<T>>;
type UnderWay<T> = Mutex<HashMap<Box<[u8]>, Arrival<T>>>;

/// The flights of one provider.
pub(crate) struct Flights<T> {
    under_way: Arc<UnderWay<T>>,
    /// How many callers wait.
    waiting: Gauge,
}

impl<T: Clone> Flights<T> {
    pub(crate) fn new(waiting: Gauge) -> Self {
        Self { under_way: Arc::default(), waiting }
    }

    /// A ticket for the flight of this key. Without one under way the caller is also its pilot.
    pub(crate) fn board(&self, key: &[u8]) -> (Ticket<T>, Option<Pilot<T>>) {
        let mut under_way = lock(&self.under_way);
        if let Some(arrival) = under_way.get(key) {
            return (self.ticket(arrival.clone()), None);
        }
        let (announce, arrival) = watch::channel(None);
        under_way.insert(key.into(), arrival.clone());
        let pilot = Pilot { key: key.into(), under_way: self.under_way.clone(), announce };
        (self.ticket(arrival), Some(pilot))
    }

    fn ticket(&self, arrival: Arrival<T>) -> Ticket<T> {
        self.waiting.inc();
        Ticket { arrival, waiting: self.waiting.clone() }
    }
}

impl<T> fmt::Debug for Flights<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flights({} under way)", lock(&self.under_way).len())
    }
}

/// A right to what a flight brings.
pub(crate) struct Ticket<T> {
    arrival: Arrival<T>,
    waiting: Gauge,
}

impl<T: Clone> Ticket<T> {
    /// Waits for it; nothing if the flight was lost.
    pub(crate) async fn redeem(mut self) -> Option<T> {
        let arrived = self.arrival.wait_for(Option::is_some).await;
        arrived.ok().and_then(|arrived| arrived.clone())
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        self.waiting.dec();
    }
}

/// Who must land the flight. Lost without landing, it leaves its passengers with nothing and the way free.
pub(crate) struct Pilot<T> {
    key: Box<[u8]>,
    under_way: Arc<UnderWay<T>>,
    announce: watch::Sender<Option<T>>,
}

impl<T> Pilot<T> {
    /// Ends the flight with what it brings.
    pub(crate) fn land(self, brought: T) {
        lock(&self.under_way).remove(&self.key);
        self.announce.send_replace(Some(brought));
    }
}

impl<T> Drop for Pilot<T> {
    /// Only its own flight: after landing, the key may already be somebody else's.
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        if self.announce.borrow().is_none() {
            under_way.remove(&self.key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_gets_what_the_one_flight_brings() {
        let flights = Flights::new(Gauge::default());
        let (first, pilot) = flights.board(b"image");
        let (second, no_pilot) = flights.board(b"image");
        let (_other, other_pilot) = flights.board(b"other");
        assert!(no_pilot.is_none() && other_pilot.is_some());
        assert_eq!(flights.waiting.get(), 3);

        pilot.unwrap().land(7);

        assert_eq!((first.redeem().await, second.redeem().await), (Some(7), Some(7)));
        assert_eq!(flights.waiting.get(), 1);
        assert!(flights.board(b"image").1.is_some(), "the next one flies again");
    }

    #[tokio::test]
    async fn a_passenger_who_leaves_stops_nothing() {
        let flights = Flights::new(Gauge::default());
        let (leaving, pilot) = flights.board(b"image");
        drop(leaving);
        let (staying, nobody) = flights.board(b"image");
        assert!(nobody.is_none());

        pilot.unwrap().land("here");

        assert_eq!(staying.redeem().await, Some("here"));
    }

    #[tokio::test]
    async fn a_lost_flight_leaves_nobody_waiting() {
        let flights = Flights::<()>::new(Gauge::default());
        let (ticket, pilot) = flights.board(b"image");

        drop(pilot);

        assert_eq!(ticket.redeem().await, None);
        assert!(flights.board(b"image").1.is_some());
    }
}
