//! Why there is no answer.

use std::{
    error::Error,
    fmt::{self, Display},
};

/// Why a plugin has no answer, for the one line on stderr that the kubelet writes to its log.
///
/// Any error becomes one by `?`, with the errors below it.
///
/// ```
/// use keyfob_plugin::{Doing as _, Failure};
///
/// fn port() -> Result<u16, Failure> {
///     Ok("http".parse::<u16>().doing("reading the port")?)
/// }
/// assert_eq!(port().unwrap_err().to_string(), "reading the port: invalid digit found in string");
/// ```
pub struct Failure(String);

impl Failure {
    /// A failure in the plugin's own words: what happened, where, and what to do.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The error and those below it, each said once.
impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut below = error.source();
        while let Some(error) = below {
            let said = error.to_string();
            if !text.contains(&said) {
                text = format!("{text}: {said}");
            }
            below = error.source();
        }
        Self(text)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({:?})", self.0)
    }
}

/// Says what was being done when it failed.
pub trait Doing<T> {
    /// Puts `what` before the failure.
    fn doing(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{what}: {}", error.into().0)))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot ask the broker")]
    struct Outer(#[source] io::Error);

    #[test]
    fn an_error_brings_those_below_it() {
        let failure = Failure::from(Outer(io::Error::other("no route")));

        assert_eq!(failure.to_string(), "cannot ask the broker: no route");
    }

    #[test]
    fn what_an_error_says_of_its_source_is_not_said_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot ask: {0}")]
        struct Stutters(#[source] io::Error);

        let failure = Failure::from(Stutters(io::Error::other("no route")));

        assert_eq!(failure.to_string(), "cannot ask: no route");
    }
}
