#![doc = include_str!("../README.md")]

use std::{
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    io::{Errno, fcntl_getfd},
    stdio,
};

/// Whether stdout was closed when this process was started.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Before `main`, Rust opens `/dev/null` in the place of a standard stream that is closed; then nothing tells it from a
/// `/dev/null` that somebody chose. So this looks before Rust does.
#[ctor::ctor(unsafe)]
fn look_at_stdout() {
    let is_closed = fcntl_getfd(stdio::stdout()) == Err(Errno::BADF);
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Fails if stdout was closed when this process was started: what is written there is lost.
pub fn require_stdout() -> io::Result<()> {
    if WAS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("stdout is closed"));
    }
    Ok(())
}

/// Writes a result to stdout. An empty result always succeeds.
pub fn write_stdout(result: &[u8]) -> io::Result<()> {
    if result.is_empty() {
        return Ok(());
    }
    require_stdout()?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(result)?;
    stdout.flush()
}
