//! A value that must not be seen.

use std::fmt;

use zeroize::Zeroize;

/// A password, a token, a key, or what a plugin printed.
///
/// It is hidden in `Debug`, has no `Display`, is wiped from memory when dropped, and has one way out:
/// [`Secret::expose`]. A struct that holds one may therefore derive `Debug`.
///
/// ```
/// use keyfob_document::Secret;
///
/// let password = Secret::new(String::from("hunter2"));
/// assert_eq!(format!("{password:?}"), "Secret(..)");
/// assert_eq!(password.expose(), "hunter2");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The one way out. Whoever calls it answers for where the value goes.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret<String> {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code, reason = "only its `Debug` is read")]
    struct Login {
        user: &'static str,
        password: Secret<String>,
    }

    #[test]
    fn a_struct_around_a_secret_may_derive_debug() {
        let login = Login { user: "ada", password: "hunter2".into() };

        assert_eq!(format!("{login:?}"), r#"Login { user: "ada", password: Secret(..) }"#);
    }

    #[test]
    fn a_dropped_secret_is_wiped() {
        struct Probe<'a>(&'a std::cell::Cell<bool>);
        impl Zeroize for Probe<'_> {
            fn zeroize(&mut self) {
                self.0.set(true);
            }
        }
        let wiped = std::cell::Cell::new(false);

        drop(Secret::new(Probe(&wiped)));

        assert!(wiped.get());
    }
}
