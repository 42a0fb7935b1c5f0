//! The one place that starts processes, and the edge to the operating system: [`Runner`], [`Clock`], [`Environment`].
//!
//! An [`Invocation`] says what to run; [`ProcessRunner`] runs it in a process group of its own, feeds its stdin while
//! it reads its output, bounds both output streams, kills the whole group at the deadline or when the future is
//! dropped, and always reaps. What comes back is a [`Finished`] or a typed [`RunError`]; neither shows what the
//! plugin printed on stdout.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use keyfob_exec::{Invocation, ProcessRunner, Program, Runner, Stdin, SystemEnvironment};
//!
//! let runner = ProcessRunner::new(SystemEnvironment);
//! let cat = Program::on_path("cat", &SystemEnvironment)?;
//! let invocation = Invocation::new(cat)
//!     .stdin(Stdin::bytes("hello"))
//!     .deadline(Duration::from_secs(60));
//!
//! let answer = runner.run(&invocation).await?.success()?;
//! assert_eq!(answer.expose(), b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! Linux only: it stands on `posix_spawn` and process file descriptors.

pub mod aging;
mod backoff;
mod bounded_file;
mod clock;
mod core_dumps;
mod directory;
mod environment;
mod invocation;
mod outcome;
mod panics;
mod pipes;
mod process;
mod program;
mod runner;
mod running;
mod shortened;
mod terminal;
mod trust;
mod tty;

pub use backoff::Backoff;
pub use bounded_file::read_bounded;
pub use clock::{Clock, SystemClock, TICK};
pub use core_dumps::forbid_core_dumps;
pub use directory::Directory;
pub use environment::{Environment, SystemEnvironment, overlay, proxy_variable};
pub use invocation::{Invocation, Limits, Stderr, Stdin, Stdout, Watch};
pub use keyfob_stdout::{require_stdout, write_stdout};
pub use outcome::{Finished, RunError, Status, StderrTail};
pub use panics::{NO_THREAD, without_panics};
pub use program::{LookupError, NotRunnable, Program, may_execute};
pub use runner::{ProcessRunner, Runner, Running};
pub use running::kill_running_programs;
pub use shortened::shortened;
pub use terminal::{on_one_line, printable, printable_json, spelled_out, steers};
pub use trust::{Concern, Flaw, TrustPolicy, Untrusted, check_trust};
pub use tty::{ProcessTerminal, Terminal};
