//! Paths and system errors as Go prints them.
//!
//! Upstream: `filepath.Clean`, `os.PathError` and `syscall.Errno` of Go 1.26.

use std::{fmt, io, path::Path};

use keyfob_api::Quoted;

/// A path in Go's double quotes.
pub(super) fn quoted(path: &Path) -> String {
    Quoted(path.as_os_str().as_encoded_bytes()).to_string()
}

/// What the system said about a path: `open config.yaml: no such file or directory`.
#[derive(Debug)]
pub(super) struct PathError<'a> {
    pub(super) operation: &'static str,
    pub(super) path: &'a Path,
    pub(super) error: &'a io::Error,
}

impl fmt::Display for PathError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.operation, self.path.display(), words(self.error))
    }
}

/// Go has the C library's words, in lower case and without a number.
pub(super) fn words(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::InvalidInput {
        return "invalid argument".to_owned();
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// The entry of a directory, written as `filepath.Join` does: without `.`, empty and needless `..` parts.
pub(super) fn join(directory: &str, entry: &str) -> String {
    let joined = format!("{directory}/{entry}");
    let is_absolute = joined.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            ("..", None) if is_absolute => {}
            _ => parts.push(part),
        }
    }
    let path = parts.join("/");
    if is_absolute { format!("/{path}") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_go_joins_them() {
        let cases = [
            ("conf", "conf/a"),
            ("conf/", "conf/a"),
            ("./conf//d/.", "conf/d/a"),
            ("/etc/../conf", "/conf/a"),
            ("/..", "/a"),
            ("../x/../conf", "../conf/a"),
            (".", "a"),
        ];
        for (directory, want) in cases {
            assert_eq!(join(directory, "a"), want, "{directory}");
        }
    }

    #[test]
    fn the_system_speaks_as_in_go() {
        let error = io::Error::from_raw_os_error(2);
        let shown = PathError { operation: "open", path: Path::new("c.yaml"), error: &error };
        assert_eq!(shown.to_string(), "open c.yaml: no such file or directory");
    }
}
