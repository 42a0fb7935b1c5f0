//! The node agent's small client, as a program of its own.

use std::{env, process::ExitCode};

#[expect(clippy::disallowed_methods, reason = "a program's entry point reads its environment")]
fn main() -> ExitCode {
    keyfob_relay::run(env::args_os(), |name| env::var_os(name))
}
