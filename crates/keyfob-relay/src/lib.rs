#![doc = include_str!("../README.md")]
//!
//! # How it is built
//!
//! [`run`] is the whole program. It happens once for every image pull, so start-up time and size matter: one thread, no runtime, no
//! argument parser and no TLS. `benches/relay.rs` measures a whole run. A JSON library (`keyfob-api`) runs only if the agent is down.
//!
//! stdout is for the protocol and stderr for people.

mod agent;
mod args;
mod connection;
mod docker;
mod fallback;
mod http;
mod json;
mod outcome;
mod policy;
mod provider;
mod stdin;
mod text;

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    panic,
    process::ExitCode,
};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::{args::Command, outcome::Outcome};

/// Whether a program that is started by this name, with or without a directory, is the relay whatever its arguments are:
/// `keyfob-credential-provider` and `docker-credential-keyfob`.
///
/// ```
/// assert!(keyfob_relay::is_own_name("/usr/local/bin/docker-credential-keyfob".as_ref()));
/// assert!(!keyfob_relay::is_own_name("keyfob".as_ref()));
/// ```
pub fn is_own_name(program: &OsStr) -> bool {
    args::Role::of_program(program).is_some()
}

/// Runs the program with these arguments, of which the first is its name, and this environment. It reads stdin and writes to
/// stdout and stderr; with `--if-down run` this process may become another program.
///
/// Replaces the hook for panics, because a message could contain a part of an answer and so a secret.
pub fn run(
    args: impl Iterator<Item = OsString>,
    env: impl Fn(&str) -> Option<OsString>,
) -> ExitCode {
    panic::set_hook(Box::new(|_| {
        io::stderr()
            .write_all(b"keyfob-relay: internal error, please report it\n")
            .unwrap_or_default();
    }));
    forbid_core_dumps();
    outcome(args, env).print()
}

/// Keeps the kernel from writing a core dump of this process, which reads a pod's token from its stdin and gets passwords. What
/// `--if-down run` starts inherits this.
///
/// The limit is one byte and not zero: both are too little for a core file, and with one byte the kernel also does not start a program
/// that takes core dumps (`|` in `core_pattern`). `connection` excludes other processes from the memory, later.
fn forbid_core_dumps() {
    let one_byte = Rlimit { current: Some(1), maximum: Some(1) };
    // It fails only for users other than root, if the limit is zero already and may not be raised.
    setrlimit(Resource::Core, one_byte).unwrap_or_default();
}

fn outcome(
    args: impl Iterator<Item = OsString>,
    env: impl Fn(&str) -> Option<OsString>,
) -> Outcome {
    match args::parse(args, env) {
        Ok(Command::Provider { agent, if_down }) => provider::run(&agent, &if_down),
        Ok(Command::Docker { agent, action }) => docker::run(&agent, action),
        Ok(Command::Help) => Outcome::success(args::USAGE),
        Ok(Command::Version) => {
            Outcome::success(concat!("keyfob-relay ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Err(error) => error.outcome(),
    }
}
