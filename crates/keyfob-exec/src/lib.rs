#![doc = include_str!("../README.md")]
//!
//! # The main types
//!
//! - [`Program`]: an executable, found by path or name; [`Invocation`]: how to run it, with [`Limits`] and a deadline.
//! - [`Runner`] and [`ProcessRunner`]: run it; [`Finished`] and [`RunError`]: how that ended.
//! - [`Clock`], [`Environment`] and [`Terminal`]: the rest of the world.
//! - [`Directory`]: files in a directory that others may write to.
//! - [`PeerProcess`]: the process at the other end of a unix socket.
//! - [`single_flight`]: one run for all callers that need the same outcome.

pub mod aging;
mod backoff;
mod bounded_file;
mod box_future;
mod clock;
mod core_dumps;
mod directory;
mod environment;
mod file_limit;
pub mod go;
mod invocation;
mod outcome;
mod panics;
mod peer_process;
mod pipes;
mod probe_socket;
mod process;
mod program;
mod runner;
mod running;
mod shortened;
pub mod single_flight;
mod terminal;
mod trust;
mod tty;

pub use backoff::Backoff;
pub use bounded_file::read_bounded;
pub use box_future::BoxFuture;
pub use clock::{Clock, SystemClock};
pub use core_dumps::forbid_core_dumps;
pub use directory::Directory;
pub use environment::{Environment, SystemEnvironment, overlay, proxy_address, proxy_variable};
pub use file_limit::raise_file_limit;
pub use invocation::{Invocation, Limits, MOST_OUTPUT, Stderr, Stdin, Stdout, Watch};
pub use keyfob_stdout::{require_stdout, write_stdout};
pub use outcome::{Finished, RunError, Status, StderrTail};
pub use panics::{NO_THREAD, without_panics};
pub use peer_process::{PeerProcess, ProcessStatus, UnidentifiedPeer};
pub use probe_socket::probe_socket;
pub use program::{LookupError, NotRunnable, Program, may_execute};
pub use runner::{ProcessRunner, Runner};
pub use running::kill_running_programs;
pub use shortened::shortened;
pub use terminal::{on_one_line, printable, printable_json, spelled_out, steers};
pub use trust::{Concern, Flaw, TrustPolicy, Untrusted, check_trust};
pub use tty::{ProcessTerminal, Terminal};
