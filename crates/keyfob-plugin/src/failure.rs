//! Why there is no answer.

use std::{
    error::Error,
    fmt::{self, Display},
};

/// Why a plugin has no answer, for the one line on stderr that the kubelet writes to its log.
///
/// Any error becomes one by `?`, with the errors below it, and can be had again with [`Failure::downcast_ref`].
///
/// ```
/// use keyfob_plugin::{Doing as _, Failure};
///
/// fn port() -> Result<u16, Failure> {
///     Ok("http".parse::<u16>().doing("reading the port")?)
/// }
/// let failure = port().unwrap_err();
/// assert_eq!(failure.to_string(), "reading the port: invalid digit found in string");
/// assert!(failure.downcast_ref::<std::num::ParseIntError>().is_some());
/// ```
pub struct Failure {
    message: String,
    error: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure in the plugin's own words: what happened, where, and what to do.
    pub fn new(text: impl Into<String>) -> Self {
        Self { message: text.into(), error: None }
    }

    /// The error that became this failure, if it is of this type. The message says it already, and only the message is printed.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.as_deref()?.downcast_ref()
    }
}

/// The error and those below it, each said once.
impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut below = error.source();
        while let Some(error) = below {
            let said = error.to_string();
            if !message.contains(&said) {
                message = format!("{message}: {said}");
            }
            below = error.source();
        }
        Self { message, error: Some(Box::new(error)) }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The message only: what an error shows to a developer may be a secret.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({:?})", self.message)
    }
}

/// Says what was being done when it failed.
pub trait Doing<T> {
    /// Puts `what` before the failure.
    fn doing(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| {
            let Failure { message, error } = error.into();
            Failure { message: format!("{what}: {message}"), error }
        })
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
    fn the_error_itself_stays_whatever_was_being_done() {
        let failed: Result<(), Failure> =
            Err(Outer(io::Error::other("no route"))).doing("asking").doing("starting");
        let failure = failed.unwrap_err();

        assert_eq!(failure.to_string(), "starting: asking: cannot ask the broker: no route");
        let below = failure.downcast_ref::<Outer>().and_then(Error::source);
        assert_eq!(below.map(ToString::to_string).as_deref(), Some("no route"));
        assert!(Failure::new("no route").downcast_ref::<Outer>().is_none());
        assert!(!format!("{failure:?}").contains("Outer"), "{failure:?}");
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
