//! What clients notice when the agent is killed, and when its configuration changes all the time. It fails if an answer is wrong, a
//! request is lost that should not be, or memory grows.

mod callers;
mod killed;
mod reloaded;

use std::path::Path;

pub(crate) fn run(relay: &Path) {
    killed::measure(relay);
    reloaded::measure(relay);
}
