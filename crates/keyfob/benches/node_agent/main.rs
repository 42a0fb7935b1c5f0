//! `.ci/run bench-agent` and `.ci/run agent-faults`: the real `keyfob serve`, with the relay and other programs as its clients.
//!
//! Without an argument: what a whole run of the relay costs, beside a program that does nothing, another helper and our own plugin;
//! what memory 10,000 cached answers take; and 500 pods that pull at the same time. Figures do not make it fail, wrong answers do.
//! With the argument `faults`: what clients notice when the agent is killed or reloaded under load. See `faults`.
//!
//! `KEYFOB_RELAY` names the relay, which must be static, and `KEYFOB_MOTO` the program `moto_server`. What needs a part that is missing
//! is not measured, and that is said.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark: it measures the system, and stops at the first surprise"
)]

mod agent;
mod faults;

mod memory;
#[path = "../../tests/support/moto.rs"]
mod moto;
mod pods;
mod relay;

use std::path::PathBuf;

use keyfob_testkit::raise_file_limit;

/// Selects the faults.
const FAULTS: &str = "faults";

fn main() {
    raise_file_limit();
    let Some(relay) = std::env::var_os("KEYFOB_RELAY").map(PathBuf::from) else {
        println!("KEYFOB_RELAY is not set: nothing of the node agent was measured");
        return;
    };
    if std::env::args().any(|argument| argument == FAULTS) {
        return faults::run(&relay);
    }
    relay::inspect(&relay);
    match (std::env::var_os("KEYFOB_MOTO"), installed("docker-credential-ecr-login")) {
        (Some(moto), Some(helper)) => {
            relay::compare(&relay::Parts { relay: &relay, moto: moto.as_ref(), helper: &helper });
        }
        _ => println!(
            "KEYFOB_MOTO or docker-credential-ecr-login is missing: runs were not compared\n"
        ),
    }
    memory::measure();
    pods::measure(&relay);
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.exists())
}
