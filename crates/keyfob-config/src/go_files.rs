//! Paths and system errors as Go prints them.
//!
//! Upstream: `filepath.Join` and `os.PathError` of Go 1.26.

use std::{fmt, io, path::Path};

use keyfob_api::Quoted;
use keyfob_exec::go::{clean, error_text};

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
        write!(f, "{} {}: {}", self.operation, self.path.display(), error_text(self.error))
    }
}

/// The entry of a directory, written as `filepath.Join` does: without `.`, empty and needless `..` parts.
pub(super) fn join(directory: &str, entry: &str) -> String {
    clean(&format!("{directory}/{entry}"))
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
