//! The programs of a node and of what it talks to.

use std::path::PathBuf;

/// A directory with links to all programs, as `.ci/run node` makes it.
#[derive(Clone)]
pub(crate) struct Parts(PathBuf);

impl Parts {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        assert!(path.exists(), "{} is missing: run `.ci/run node`", path.display());
        path
    }

    /// A value for `PATH`: kubectl and others of these programs, then what Debian's systemd gives a service.
    pub(crate) fn search_path(&self) -> String {
        format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.0.display())
    }
}
