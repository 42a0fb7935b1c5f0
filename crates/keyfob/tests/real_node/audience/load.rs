//! Many requests for tokens at once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::NodeTokens;
use crate::api::Refusal;

const CLIENTS: usize = 4;

/// What clients got.
#[derive(Default)]
pub(super) struct Outcomes {
    pub(super) tokens: u32,
    pub(super) refusals: Vec<Refusal>,
}

/// Does something while clients request one token after another.
pub(super) fn under_load(tokens: &NodeTokens, audience: &str, work: impl FnOnce()) -> Outcomes {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: [_; CLIENTS] = std::array::from_fn(|_| {
            scope.spawn(|| {
                let mut outcomes = Outcomes::default();
                while !is_done.load(Ordering::Relaxed) {
                    match tokens.request(audience) {
                        Ok(_) => outcomes.tokens += 1,
                        Err(refusal) => outcomes.refusals.push(refusal),
                    }
                }
                outcomes
            })
        });
        let result = catch_unwind(AssertUnwindSafe(work));
        is_done.store(true, Ordering::Relaxed);
        let outcomes = clients.map(|client| client.join().unwrap());
        result.unwrap_or_else(|panic| resume_unwind(panic));
        outcomes.into_iter().fold(Outcomes::default(), |mut all, outcomes| {
            all.tokens += outcomes.tokens;
            all.refusals.extend(outcomes.refusals);
            all
        })
    })
}
