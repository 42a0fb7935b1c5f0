//! An error with its causes.

use std::{error::Error, fmt};

/// Shows an error and everything that caused it, in one line.
///
/// ```
/// let error = std::io::Error::other("disk on fire");
/// assert_eq!(keyfob_api::Chain(&error).to_string(), "disk on fire");
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of one value that callers build")]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
