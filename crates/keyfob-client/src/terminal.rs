//! Where the messages of plugins are shown.

use std::{
    fmt,
    io::{Write as _, stderr},
    sync::Arc,
};

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
