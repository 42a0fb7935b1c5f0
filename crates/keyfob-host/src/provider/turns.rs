//! Whose run is next, if only some processes of a provider may run at once.
//!
//! Runs for nobody in particular, such as for a kubelet, come first, and one place is left to them. Callers that are told apart
//! ([`Pull::for_caller`](crate::Pull::for_caller)) take turns for the other places, and one of them leaves a place to the others. So a
//! caller that asks for many images keeps neither a kubelet nor other callers waiting for more than a run.
//!
//! What is asked for by several callers is next when it would be for one of them, so nobody waits longer because somebody else asked first.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The places for processes of one provider.
#[derive(Debug)]
pub(super) struct Turns {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the key of the flight.
    questions: HashMap<Box<[u8]>, Wanted>,
    callers: HashMap<Arc<str>, Share>,
    /// All runs, and those that count for a caller.
    running: usize,
    running_for_callers: usize,
    /// Counts runs that were queued, and turns that were given.
    ticks: u64,
}

/// A question that somebody waits for.
#[derive(Debug, Default)]
struct Wanted {
    /// The callers that take turns; nothing for whoever comes first.
    by: Vec<Option<Arc<str>>>,
    /// The run, as long as it waits for its turn, and when it began to wait.
    queued: Option<(u64, oneshot::Sender<Turn>)>,
}

/// What a caller has. It is forgotten when that is nothing.
#[derive(Debug, Default)]
struct Share {
    claims: usize,
    running: usize,
    /// When its last turn was.
    served: u64,
}

/// What is next: nobody's run comes before that of a caller; then that of the caller that has the fewest, had its last turn first, or asked
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    First { queued: u64 },
    Caller { running: usize, served: u64, queued: u64 },
}

/// Somebody waits for the answer to a question, as long as this lives. If nobody does any more, a run that waits for its turn is not
/// started.
#[derive(Debug)]
pub(crate) struct Claim {
    turns: Arc<Turns>,
    question: Box<[u8]>,
    caller: Option<Arc<str>>,
}

/// A place for a process, as long as this lives.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    /// For whom it counts.
    caller: Option<Arc<str>>,
}

/// When a run may start.
pub(super) enum Place {
    Now(Turn),
    /// It is lost if nobody wants the answer any more.
    Later(oneshot::Receiver<Turn>),
}

impl Turns {
    pub(super) fn new(most: NonZeroUsize) -> Arc<Self> {
        Arc::new(Self { most: most.get(), state: Mutex::default() })
    }

    /// Says that a caller waits for an answer. This comes before the caller joins the flight.
    pub(super) fn claim(self: &Arc<Self>, question: &[u8], caller: Option<&Arc<str>>) -> Claim {
        let mut state = self.lock();
        if let Some(caller) = caller {
            state.callers.entry(caller.clone()).or_default().claims += 1;
        }
        state.questions.entry(question.into()).or_default().by.push(caller.cloned());
        drop(state);
        let claim =
            Claim { turns: self.clone(), question: question.into(), caller: caller.cloned() };
        // The question may have been another caller's, who has no place free.
        self.give();
        claim
    }

    /// Queues the run that answers a question that is claimed.
    pub(super) fn place(self: &Arc<Self>, question: &[u8]) -> Place {
        let (start, mut started) = oneshot::channel();
        {
            let mut state = self.lock();
            state.ticks += 1;
            let queued = state.ticks;
            if let Some(wanted) = state.questions.get_mut(question) {
                wanted.queued = Some((queued, start));
            }
        }
        self.give();
        match started.try_recv() {
            Ok(turn) => Place::Now(turn),
            Err(_) => Place::Later(started),
        }
    }

    /// Gives free places to those who are next.
    fn give(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self.most);
            let Some((start, caller)) = next else { return };
            // If the run is gone, with its runtime, the turn ends here.
            drop(start.send(Turn { turns: self.clone(), caller }));
        }
    }

    /// Nobody leaves it half changed, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the next run off the queue and counts it as running, if there is a place for it.
    fn next(&mut self, most: usize) -> Option<(oneshot::Sender<Turn>, Option<Arc<str>>)> {
        if self.running >= most {
            return None;
        }
        let ranked = self.questions.values().filter_map(|wanted| self.rank(wanted, most));
        let (rank, caller) = ranked.min_by_key(|(rank, _)| *rank)?;
        let caller = caller.cloned();
        let (Rank::First { queued } | Rank::Caller { queued, .. }) = rank;
        let is_it = |wanted: &&mut Wanted| matches!(&wanted.queued, Some((at, _)) if *at == queued);
        let (_, start) = self.questions.values_mut().find(is_it)?.queued.take()?;
        self.ticks += 1;
        self.running += 1;
        if let Some(caller) = &caller {
            let share = self.callers.entry(caller.clone()).or_default();
            share.running += 1;
            share.served = self.ticks;
            self.running_for_callers += 1;
        }
        Some((start, caller))
    }

    /// How near a question's run is to its turn, and for whom it would count; nothing if it is not queued, or has no place.
    fn rank<'a>(&self, wanted: &'a Wanted, most: usize) -> Option<(Rank, Option<&'a Arc<str>>)> {
        let (queued, start) = wanted.queued.as_ref()?;
        let queued = *queued;
        if start.is_closed() {
            return None;
        }
        if wanted.by.contains(&None) {
            return Some((Rank::First { queued }, None));
        }
        if self.running_for_callers >= (most - 1).max(1) {
            return None;
        }
        let of_caller = |caller: &'a Arc<str>| {
            let Share { running, served, .. } = *self.callers.get(caller)?;
            let is_free = running < most.saturating_sub(2).max(1);
            is_free.then_some((Rank::Caller { running, served, queued }, Some(caller)))
        };
        wanted.by.iter().flatten().filter_map(of_caller).min_by_key(|(rank, _)| *rank)
    }

    fn forget_if_idle(&mut self, caller: &Arc<str>) {
        if self.callers.get(caller).is_some_and(|share| share.claims == 0 && share.running == 0) {
            self.callers.remove(caller);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        if let Some(wanted) = state.questions.get_mut(&self.question) {
            if let Some(at) = wanted.by.iter().position(|caller| *caller == self.caller) {
                wanted.by.swap_remove(at);
            }
            if wanted.by.is_empty() {
                state.questions.remove(&self.question);
            }
        }
        if let Some(caller) = &self.caller {
            if let Some(share) = state.callers.get_mut(caller) {
                share.claims -= 1;
            }
            state.forget_if_idle(caller);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.running -= 1;
        if let Some(caller) = &self.caller {
            state.running_for_callers -= 1;
            if let Some(share) = state.callers.get_mut(caller) {
                share.running -= 1;
            }
            state.forget_if_idle(caller);
        }
        drop(state);
        self.turns.give();
    }
}
