//! Who could put a program of their own in a plugin's place.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use thiserror::Error;

/// What to do about a plugin that somebody else could have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TrustPolicy {
    /// Say so.
    #[default]
    Report,
    /// Refuse to run it.
    Strict,
}

/// Looks at a plugin, the directory it is in, and every directory above: all must belong to root or to us, and be
/// writable by nobody else. Links are looked at where they are and where they lead.
///
/// Returns what is wrong, which under [`TrustPolicy::Strict`] is an error.
pub fn check_trust(plugin: &Path, policy: TrustPolicy) -> Result<Vec<Concern>, Untrusted> {
    let concerns = concerns(plugin, geteuid().as_raw())
        .map_err(|source| Untrusted::Unreadable { path: plugin.into(), source })?;
    match policy {
        TrustPolicy::Strict if !concerns.is_empty() => Err(Untrusted::Concerns(concerns)),
        TrustPolicy::Strict | TrustPolicy::Report => Ok(concerns),
    }
}

fn concerns(plugin: &Path, us: u32) -> io::Result<Vec<Concern>> {
    let real = plugin.canonicalize()?;
    let beside = plugin.parent().unwrap_or(Path::new("/")).canonicalize()?;
    let mut places: Vec<PathBuf> =
        real.ancestors().chain(beside.ancestors()).map(Path::to_path_buf).collect();
    places.sort();
    places.dedup();
    let mut found = Vec::new();
    for place in places {
        let metadata = fs::metadata(&place)?;
        found.extend(flaws(&metadata, us).map(|flaw| Concern { path: place.clone(), flaw }));
    }
    Ok(found)
}

fn flaws(metadata: &fs::Metadata, us: u32) -> impl Iterator<Item = Flaw> {
    let (mode, owner, group) = (metadata.mode(), metadata.uid(), metadata.gid());
    // In a sticky directory (`/tmp`) only the owner of an entry may replace it.
    let sticky = metadata.is_dir() && mode & 0o1000 != 0;
    let stranger = (owner != 0 && owner != us).then_some(Flaw::Owner(owner));
    let group = (mode & 0o020 != 0 && group != 0 && !sticky).then_some(Flaw::GroupWritable(group));
    let others = (mode & 0o002 != 0 && !sticky).then_some(Flaw::WorldWritable);
    [stranger, group, others].into_iter().flatten()
}

/// One thing that is wrong with one place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Concern {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub flaw: Flaw,
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.flaw)
    }
}

/// How somebody else could change a file, or what a directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Flaw {
    /// Its owner is neither root nor the user we run as.
    #[error("belongs to user {0}: chown it to root")]
    Owner(u32),
    /// A group other than root's may write it.
    #[error("is writable by group {0}: chmod g-w it")]
    GroupWritable(u32),
    /// Anybody may write it.
    #[error("is writable by everybody: chmod o-w it")]
    WorldWritable,
}

/// A plugin that is not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// Somebody else could have written it.
    #[error("the plugin is not trusted: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Concerns(Vec<Concern>),
    /// It could not be looked at.
    #[error("cannot tell whether {} can be trusted", path.display())]
    Unreadable {
        /// The plugin.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    struct Plugins(tempfile::TempDir);

    impl Plugins {
        fn new() -> Self {
            let plugins = Self(tempfile::tempdir().unwrap());
            fs::write(plugins.path("plugin"), "").unwrap();
            plugins.chmod("plugin", 0o755);
            plugins
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn chmod(&self, name: &str, mode: u32) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }

        /// What is wrong below our own directory; what the machine's own directories are like is not ours to say.
        fn concerns(&self, name: &str, us: u32) -> Vec<Flaw> {
            let mut all = concerns(&self.path(name), us).unwrap();
            all.retain(|concern| concern.path.starts_with(self.path("")));
            all.into_iter().map(|concern| concern.flaw).collect()
        }
    }

    fn us() -> u32 {
        geteuid().as_raw()
    }

    #[test]
    fn a_plugin_that_only_its_owner_may_write_is_trusted() {
        assert_eq!(Plugins::new().concerns("plugin", us()), []);
    }

    #[test]
    fn a_plugin_that_anybody_may_write_is_a_concern() {
        let plugins = Plugins::new();
        plugins.chmod("plugin", 0o757);

        assert_eq!(plugins.concerns("plugin", us()), [Flaw::WorldWritable]);
    }

    #[test]
    fn a_directory_that_anybody_may_write_is_a_concern_unless_it_is_sticky() {
        let plugins = Plugins::new();

        plugins.chmod("", 0o707);
        assert_eq!(plugins.concerns("plugin", us()), [Flaw::WorldWritable]);
        plugins.chmod("", 0o1707);
        assert_eq!(plugins.concerns("plugin", us()), []);
    }

    #[test]
    fn an_owner_who_is_neither_root_nor_us_is_a_concern() {
        let plugins = Plugins::new();
        let owner = fs::metadata(plugins.path("plugin")).unwrap().uid();

        let concerns = plugins.concerns("plugin", owner + 1);

        assert_eq!(concerns.is_empty(), owner == 0, "root is trusted whoever we are");
    }

    #[test]
    fn a_link_is_looked_at_where_it_leads() {
        let plugins = Plugins::new();
        plugins.chmod("plugin", 0o777);
        symlink(plugins.path("plugin"), plugins.path("link")).unwrap();

        assert!(plugins.concerns("link", us()).contains(&Flaw::WorldWritable));
    }

    #[test]
    fn strict_refuses_what_report_reports() {
        let plugins = Plugins::new();
        plugins.chmod("plugin", 0o757);

        assert!(!check_trust(&plugins.path("plugin"), TrustPolicy::Report).unwrap().is_empty());
        let refused = check_trust(&plugins.path("plugin"), TrustPolicy::Strict).unwrap_err();
        assert!(
            refused.to_string().contains("plugin is writable by everybody: chmod o-w it"),
            "{refused}"
        );
    }
}
