//! Whether a person could be asked, and where what plugins say is shown.

use std::{
    fmt,
    io::{IsTerminal as _, Write as _, stderr, stdin},
    sync::Arc,
};

/// The terminal of the host, as an argument.
pub trait Terminal: Send + Sync + fmt::Debug {
    /// Whether standard input is a terminal. As upstream nothing else is looked at.
    fn stdin_is_terminal(&self) -> bool;
}

/// The terminal of this process.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a unit, which will never have state")]
pub struct ProcessTerminal;

impl Terminal for ProcessTerminal {
    fn stdin_is_terminal(&self) -> bool {
        stdin().is_terminal()
    }
}

/// Where the lines go that a plugin without a terminal says on stderr. They come without the secrets it was given, and cannot
/// steer a terminal.
///
/// The default is the stderr of this process, where upstream lets a plugin write itself.
#[derive(Clone)]
pub struct Messages(Arc<dyn Fn(&str) + Send + Sync>);

impl Messages {
    /// Hands each line to a function, which must not wait for anything.
    pub fn to(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Shows nothing. The end of what was said is in the error all the same.
    pub fn nowhere() -> Self {
        Self::to(|_| ())
    }

    pub(crate) fn sink(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        Arc::clone(&self.0)
    }
}

impl Default for Messages {
    fn default() -> Self {
        // Nobody can be told that stderr is gone.
        Self::to(|line| drop(writeln!(stderr(), "{line}")))
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Messages")
    }
}
