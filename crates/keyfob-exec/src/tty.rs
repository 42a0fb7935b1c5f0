//! Whether somebody sits in front of this process.

use std::{
    fmt,
    io::{IsTerminal as _, stdin},
};

/// The terminal of the host, as an argument.
pub trait Terminal: Send + Sync + fmt::Debug {
    /// Whether standard input is a terminal. As upstream nothing else is looked at.
    fn stdin_is_terminal(&self) -> bool;
}

/// The terminal of this process.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "has no fields, and callers name it as a value")]
pub struct ProcessTerminal;

impl Terminal for ProcessTerminal {
    fn stdin_is_terminal(&self) -> bool {
        stdin().is_terminal()
    }
}
