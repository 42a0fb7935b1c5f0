//! Who could put a program of their own in a plugin's place.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fmt, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{io::Errno, process::geteuid};
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

/// Looks at a plugin and at everything on the way to it, directories and links: all must belong to root or to us, and
/// be writable by nobody else.
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
    let mut found = Vec::new();
    for path in places(plugin)? {
        let place = Place::from(&fs::symlink_metadata(&path)?);
        found.extend(place.flaws(us).map(|flaw| Concern { path: path.clone(), flaw }));
    }
    Ok(found)
}

/// Every place the kernel passes on its way to the plugin: directories, links, and where the links lead.
fn places(plugin: &Path) -> io::Result<BTreeSet<PathBuf>> {
    const MOST_LINKS: usize = 40;
    let backwards = |path: &Path| path.iter().rev().map(OsStr::to_owned).collect::<Vec<_>>();
    let (mut places, mut links) = (BTreeSet::new(), 0);
    let (mut here, mut ahead) = (PathBuf::new(), backwards(&std::path::absolute(plugin)?));
    while let Some(part) = ahead.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        here.push(part);
        places.insert(here.clone());
        if fs::symlink_metadata(&here)?.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            ahead.extend(backwards(&fs::read_link(&here)?));
            here.pop();
        }
    }
    Ok(places)
}

/// What matters of a file, a directory or a link.
#[derive(Debug, Clone, Copy)]
struct Place {
    mode: u32,
    owner: u32,
    group: u32,
    is_directory: bool,
}

impl From<&fs::Metadata> for Place {
    fn from(metadata: &fs::Metadata) -> Self {
        // The mode of a link means nothing; its owner may point it elsewhere.
        let mode = if metadata.is_symlink() { 0 } else { metadata.mode() };
        let (owner, group) = (metadata.uid(), metadata.gid());
        Self { mode, owner, group, is_directory: metadata.is_dir() }
    }
}

impl Place {
    fn flaws(self, us: u32) -> impl Iterator<Item = Flaw> {
        // In a sticky directory (`/tmp`) only the owner of an entry may replace it.
        let sticky = self.is_directory && self.mode & 0o1000 != 0;
        let stranger = self.owner != 0 && self.owner != us;
        let writable = |bit| self.mode & bit != 0 && !sticky;
        // Root's group is no exception: where there is an access control list, these bits are its mask.
        [
            stranger.then_some(Flaw::Owner(self.owner)),
            writable(0o020).then_some(Flaw::GroupWritable(self.group)),
            writable(0o002).then_some(Flaw::WorldWritable),
        ]
        .into_iter()
        .flatten()
    }
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
    /// Its group, or somebody on its access control list, may write it.
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
            // Whatever the umask is.
            plugins.chmod("", 0o755);
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
        fn concerns(&self, name: &str) -> Vec<Flaw> {
            let mut all = concerns(&self.path(name), geteuid().as_raw()).unwrap();
            all.retain(|concern| concern.path.starts_with(self.path("")));
            all.into_iter().map(|concern| concern.flaw).collect()
        }
    }

    #[test]
    fn a_plugin_that_only_its_owner_may_write_is_trusted() {
        assert_eq!(Plugins::new().concerns("plugin"), []);
    }

    #[test]
    fn who_else_may_write_is_a_concern_unless_the_directory_is_sticky() {
        let flaws = |mode, is_directory| {
            let place = Place { mode, owner: 0, group: 7, is_directory };
            place.flaws(1000).collect::<Vec<_>>()
        };

        assert_eq!(flaws(0o755, false), []);
        assert_eq!(flaws(0o775, false), [Flaw::GroupWritable(7)]);
        assert_eq!(flaws(0o757, true), [Flaw::WorldWritable]);
        assert_eq!(flaws(0o1777, true), []);
        assert_eq!(flaws(0o1777, false), [Flaw::GroupWritable(7), Flaw::WorldWritable]);
    }

    #[test]
    fn an_owner_who_is_neither_root_nor_us_is_a_concern() {
        let flaws = |owner| {
            let place = Place { mode: 0o755, owner, group: 0, is_directory: false };
            place.flaws(1000).collect::<Vec<_>>()
        };

        assert_eq!((flaws(0), flaws(1000)), (vec![], vec![]));
        assert_eq!(flaws(1001), [Flaw::Owner(1001)]);
    }

    #[test]
    fn every_place_on_the_way_through_links_is_looked_at() {
        let plugins = Plugins::new();
        for folder in ["bin", "middle", "real"] {
            fs::create_dir(plugins.path(folder)).unwrap();
            plugins.chmod(folder, 0o755);
        }
        fs::rename(plugins.path("plugin"), plugins.path("real/plugin")).unwrap();
        symlink("../middle/hop", plugins.path("bin/plugin")).unwrap();
        symlink(plugins.path("real/plugin"), plugins.path("middle/hop")).unwrap();
        symlink("bin", plugins.path("linked")).unwrap();
        assert_eq!(plugins.concerns("linked/plugin"), []);

        for place in ["", "bin", "middle", "real", "real/plugin"] {
            let mode = fs::metadata(plugins.path(place)).unwrap().mode();
            plugins.chmod(place, 0o757);
            assert_eq!(plugins.concerns("linked/plugin"), [Flaw::WorldWritable], "{place}");
            plugins.chmod(place, mode);
        }
    }

    #[test]
    fn links_in_a_circle_end() {
        let plugins = Plugins::new();
        symlink("circle", plugins.path("circle")).unwrap();

        let refused = check_trust(&plugins.path("circle"), TrustPolicy::Report).unwrap_err();

        assert!(matches!(refused, Untrusted::Unreadable { .. }), "{refused}");
    }

    #[test]
    fn strict_refuses_what_report_reports() {
        let plugins = Plugins::new();
        plugins.chmod("plugin", 0o757);

        let reported = check_trust(&plugins.path("plugin"), TrustPolicy::Report).unwrap();
        let refused = check_trust(&plugins.path("plugin"), TrustPolicy::Strict).unwrap_err();

        assert!(!reported.is_empty());
        let shown = "plugin is writable by everybody: chmod o-w it";
        assert!(refused.to_string().contains(shown), "{refused}");
    }
}
