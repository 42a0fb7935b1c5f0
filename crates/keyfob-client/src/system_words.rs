//! What the system says, in Go's words.

use std::io;

/// Go has the C library's words, in lower case and without a number: `no such file or directory`.
pub(crate) fn system_words(error: &io::Error) -> String {
    // What std itself refuses, a NUL byte, the system calls an invalid argument.
    if error.raw_os_error().is_none() && error.kind() == io::ErrorKind::InvalidInput {
        return "invalid argument".to_owned();
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_speaks_as_in_go() {
        assert_eq!(system_words(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(system_words(&io::Error::from_raw_os_error(13)), "permission denied");
        let nul = std::fs::metadata("a\0b").unwrap_err();
        assert_eq!(system_words(&nul), "invalid argument");
    }
}
