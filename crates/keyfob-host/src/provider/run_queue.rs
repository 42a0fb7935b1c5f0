//! Decides which run starts next when the number of processes of one provider is limited.
//!
//! Runs that are not for a named caller, such as those for a kubelet, come first, and one permit is reserved for them. Named callers
//! ([`Pull::for_caller`](crate::Pull::for_caller)) share the other permits in turns, and each of them leaves one permit to the others. So a
//! caller that requests many images delays a kubelet or another caller by one run at most.
//!
//! A run that several callers wait for has the highest priority that any of them gives it, so nobody waits longer because somebody else
//! asked first.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The queue of the runs of one provider, and the permits that let them start.
#[derive(Debug)]
pub(super) struct RunQueue {
    max_runs: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The questions that somebody waits for, by the keys of their flights.
    questions: HashMap<Box<[u8]>, QueuedRun>,
    callers: HashMap<Arc<str>, CallerLoad>,
    /// How many runs hold a permit.
    running: usize,
    /// How many of these runs count for a named caller.
    running_for_callers: usize,
    /// A logical clock: it advances when a run is queued and when one is started.
    ticks: u64,
}

/// A question that somebody waits for, and its run while that is queued.
#[derive(Debug, Default)]
struct QueuedRun {
    /// The callers that wait, one entry for each interest. `None` stands for a pull without a named caller.
    callers: Vec<Option<Arc<str>>>,
    /// When the run was queued, and where to send its permit. It is `None` before the run is queued and after it has started.
    queued: Option<(u64, oneshot::Sender<RunPermit>)>,
}

/// What a named caller waits for and runs. It is removed when it has neither.
#[derive(Debug, Default)]
struct CallerLoad {
    interests: usize,
    running: usize,
    /// When a run was last started for this caller, or when it came if none was.
    last_served: u64,
}

/// The order in which queued runs start: the smallest value is next. Runs without a named caller come before all others. Among callers,
/// the one with the fewest runs is next, then the one that was served longest ago, then the one whose run was queued first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    First { queued: u64 },
    Caller { running: usize, last_served: u64, queued: u64 },
}

/// Registers that somebody waits for the answer to a question, until it is dropped. A queued run in which nobody is interested any more
/// is not started.
#[derive(Debug)]
pub(crate) struct QueueInterest {
    queue: Arc<RunQueue>,
    question: Box<[u8]>,
    caller: Option<Arc<str>>,
}

/// Permits one run, until it is dropped.
#[derive(Debug)]
pub(super) struct RunPermit {
    queue: Arc<RunQueue>,
    /// The caller for whom the run counts.
    caller: Option<Arc<str>>,
}

/// Whether a run may start at once.
pub(super) enum Admission {
    Granted(RunPermit),
    /// The permit arrives later. The sender is dropped without one when nobody is interested in the answer any more.
    Queued(oneshot::Receiver<RunPermit>),
}

impl RunQueue {
    pub(super) fn new(max_runs: NonZeroUsize) -> Arc<Self> {
        Arc::new(Self { max_runs: max_runs.get(), state: Mutex::default() })
    }

    /// Registers that a caller waits for the answer to a question. This must happen before the caller joins the flight.
    pub(super) fn register_interest(
        self: &Arc<Self>,
        question: &[u8],
        caller: Option<&Arc<str>>,
    ) -> QueueInterest {
        let mut state = self.lock();
        if let Some(caller) = caller {
            // A caller that comes back is no better off than those that have been waiting.
            let load = CallerLoad { last_served: state.ticks, ..CallerLoad::default() };
            state.callers.entry(caller.clone()).or_insert(load).interests += 1;
        }
        state.questions.entry(question.into()).or_default().callers.push(caller.cloned());
        drop(state);
        let interest = QueueInterest {
            queue: self.clone(),
            question: question.into(),
            caller: caller.cloned(),
        };
        // The run may be queued for another caller, who has no permit left. It can start now if this one has.
        self.start_next();
        interest
    }

    /// Queues the run that answers a question in which somebody is interested.
    pub(super) fn enqueue(self: &Arc<Self>, question: &[u8]) -> Admission {
        let (start, mut started) = oneshot::channel();
        {
            let mut state = self.lock();
            state.ticks += 1;
            let queued = state.ticks;
            if let Some(run) = state.questions.get_mut(question) {
                run.queued = Some((queued, start));
            }
        }
        self.start_next();
        match started.try_recv() {
            Ok(permit) => Admission::Granted(permit),
            Err(_) => Admission::Queued(started),
        }
    }

    /// Starts the runs that are next, until no permit is free or nothing is queued.
    fn start_next(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self.max_runs);
            let Some((start, caller)) = next else { return };
            // If the run was lost with its runtime, the permit is dropped here, which frees it.
            drop(start.send(RunPermit { queue: self.clone(), caller }));
        }
    }

    /// Ignores poisoning: no change of the state is left half done, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes the next run from the queue and counts it as running, if there is a permit for it.
    fn next(&mut self, max_runs: usize) -> Option<(oneshot::Sender<RunPermit>, Option<Arc<str>>)> {
        if self.running >= max_runs {
            return None;
        }
        let queued = self.questions.values().filter_map(|run| self.priority(run, max_runs));
        let (priority, caller) = queued.min_by_key(|(priority, _)| *priority)?;
        let caller = caller.cloned();
        let (Priority::First { queued } | Priority::Caller { queued, .. }) = priority;
        let is_it = |run: &&mut QueuedRun| matches!(&run.queued, Some((at, _)) if *at == queued);
        let (_, start) = self.questions.values_mut().find(is_it)?.queued.take()?;
        self.ticks += 1;
        self.running += 1;
        if let Some(caller) = &caller {
            let load = self.callers.entry(caller.clone()).or_default();
            load.running += 1;
            load.last_served = self.ticks;
            self.running_for_callers += 1;
        }
        Some((start, caller))
    }

    /// The priority of a run, and the caller for whom it would count. It is `None` if the run is not queued, or if no permit is left for
    /// those who wait for it.
    fn priority<'a>(
        &self,
        run: &'a QueuedRun,
        max_runs: usize,
    ) -> Option<(Priority, Option<&'a Arc<str>>)> {
        let (queued, start) = run.queued.as_ref()?;
        let queued = *queued;
        if start.is_closed() {
            return None;
        }
        if run.callers.contains(&None) {
            return Some((Priority::First { queued }, None));
        }
        if self.running_for_callers >= (max_runs - 1).max(1) {
            return None;
        }
        let of_caller = |caller: &'a Arc<str>| {
            let CallerLoad { running, last_served, .. } = *self.callers.get(caller)?;
            let has_permit = running < max_runs.saturating_sub(2).max(1);
            has_permit.then_some((Priority::Caller { running, last_served, queued }, Some(caller)))
        };
        run.callers.iter().flatten().filter_map(of_caller).min_by_key(|(priority, _)| *priority)
    }

    fn forget_if_idle(&mut self, caller: &Arc<str>) {
        if self.callers.get(caller).is_some_and(|load| load.interests == 0 && load.running == 0) {
            self.callers.remove(caller);
        }
    }
}

impl Drop for QueueInterest {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if let Some(run) = state.questions.get_mut(&self.question) {
            if let Some(at) = run.callers.iter().position(|caller| *caller == self.caller) {
                run.callers.swap_remove(at);
            }
            if run.callers.is_empty() {
                state.questions.remove(&self.question);
            }
        }
        if let Some(caller) = &self.caller {
            if let Some(load) = state.callers.get_mut(caller) {
                load.interests -= 1;
            }
            state.forget_if_idle(caller);
        }
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.running -= 1;
        if let Some(caller) = &self.caller {
            state.running_for_callers -= 1;
            if let Some(load) = state.callers.get_mut(caller) {
                load.running -= 1;
            }
            state.forget_if_idle(caller);
        }
        drop(state);
        self.queue.start_next();
    }
}
