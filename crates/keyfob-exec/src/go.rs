//! Paths and system errors as Go prints them, for messages that are compared with upstream's.
//!
//! Upstream: `filepath.Clean` and `syscall.Errno` of Go, on Unix.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

/// The shortest path that means the same if nothing on the way is a link: no `.`, no empty part, no `..` but in front.
/// No path at all is `.`.
///
/// ```
/// assert_eq!(keyfob_exec::go::clean("./bin/../plugin"), "plugin");
/// assert_eq!(keyfob_exec::go::clean("/opt//bin/"), "/opt/bin");
/// ```
pub fn clean(path: &str) -> String {
    // Whole parts of a text, so nothing is lost.
    String::from_utf8_lossy(&cleaned(path.as_bytes())).into_owned()
}

/// The same for a path that need not be a text.
pub fn clean_path(path: &OsStr) -> PathBuf {
    OsString::from_vec(cleaned(path.as_bytes())).into()
}

fn cleaned(path: &[u8]) -> Vec<u8> {
    let is_absolute = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match (part, parts.last().copied()) {
            (b"" | b".", _) => {}
            (b"..", None) if is_absolute => {}
            (b"..", Some(last)) if last != b".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let path = parts.join(&b'/');
    match (is_absolute, path.is_empty()) {
        (true, _) => [b"/", path.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => path,
    }
}

/// Go has the C library's words, in lower case and without a number: `no such file or directory`.
pub fn error_text(error: &io::Error) -> String {
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
    fn paths_are_cleaned_as_go_cleans_them() {
        let cases = [
            ("", "."),
            (".", "."),
            ("./", "."),
            ("/", "/"),
            ("//", "/"),
            ("plugin", "plugin"),
            ("./plugin/", "plugin"),
            ("a/..", "."),
            ("a/../..", ".."),
            ("../a/../../b", "../../b"),
            ("/..", "/"),
            ("/../a/./b//c/..", "/a/b"),
            ("a/...", "a/..."),
            ("ü/../é", "é"),
        ];
        for (path, want) in cases {
            assert_eq!(clean(path), want, "{path}");
            assert_eq!(clean(want), want);
        }
    }

    #[test]
    fn a_path_that_is_no_text_keeps_its_bytes() {
        assert_eq!(clean_path(OsStr::from_bytes(b"/\xff/./a")).as_os_str().as_bytes(), b"/\xff/a");
    }

    #[test]
    fn errors_of_the_system_read_as_in_go() {
        assert_eq!(error_text(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(error_text(&io::Error::from_raw_os_error(13)), "permission denied");
        let nul = std::fs::metadata("a\0b").unwrap_err();
        assert_eq!(error_text(&nul), "invalid argument");
    }
}
