//! The node's own docker configuration: where it is looked for, and for how long an answer holds.
//!
//! Upstream: `ReadDockerConfigFile` and `CachingDockerConfigProvider` in `pkg/credentialprovider` (1.37).
//! Differs: a file must be a regular one of at most 16 MiB. An explicit file is not searched for: if it cannot be used,
//! that is an error, and errors are not remembered.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_exec::{Clock, Environment, read_bounded};
use thiserror::Error;

use crate::{DockerConfig, DockerConfigError, Logins, Source};

/// The logins in the node's docker configuration, read anew every five minutes.
#[derive(Debug)]
pub struct NodeDockerConfig {
    files: Files,
    lifetime: Duration,
    clock: Arc<dyn Clock>,
    read: Mutex<Option<Read>>,
}

/// Where to read.
#[derive(Debug)]
enum Files {
    /// Here and nowhere else.
    Explicit(PathBuf),
    /// The first of these that is valid.
    Search(Vec<PathBuf>),
}

/// What was read, and when.
#[derive(Clone, Debug)]
struct Read {
    logins: Option<Arc<Logins>>,
    at: SystemTime,
}

impl NodeDockerConfig {
    const LIFETIME: Duration = Duration::from_mins(5);

    /// Looks where a kubelet looks: for `config.json` in its root directory, the working directory, `$HOME/.docker` and
    /// `/.docker`, then for `.dockercfg` in the root directory, the working directory, `$HOME` and `/`. Relative
    /// directories, and a `$HOME` that is not set, lie in the working directory.
    pub fn search(
        root_dir: &Path,
        working_dir: &Path,
        environment: &dyn Environment,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let home = PathBuf::from(environment.var("HOME").unwrap_or_default());
        let here = Path::new("");
        let places = |root: &Path, home: &Path, name: &str| {
            [root_dir, here, home, root].map(|directory| working_dir.join(directory).join(name))
        };
        let json = places(Path::new("/.docker"), &home.join(".docker"), "config.json");
        let legacy = places(Path::new("/"), &home, DOCKERCFG);
        Self::new(Files::Search(json.into_iter().chain(legacy).collect()), clock)
    }

    /// Reads this file: a `config.json`, or a `.dockercfg` by its name or its looks.
    pub fn file(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self::new(Files::Explicit(path.into()), clock)
    }

    /// The same, with answers that hold for another time.
    #[must_use]
    pub fn with_lifetime(self, lifetime: Duration) -> Self {
        Self { lifetime, ..self }
    }

    /// The logins; `None` if there is no valid file where one is looked for, which is as well remembered. It reads files,
    /// so it may block for a moment.
    pub fn logins(&self) -> Result<Option<Arc<Logins>>, DockerConfigFileError> {
        let now = self.clock.now();
        if let Some(read) = self.remembered(now) {
            return Ok(read.logins);
        }
        let logins = self.files.read()?.map(Arc::new);
        let read = Read { logins: logins.clone(), at: now };
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        Ok(logins)
    }

    /// Reads anew the next time, if these are still the logins that are remembered.
    pub fn forget(&self, logins: &Arc<Logins>) -> bool {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = read.as_ref().and_then(|read| read.logins.as_ref());
        let is_same = remembered.is_some_and(|remembered| Arc::ptr_eq(remembered, logins));
        if is_same {
            *read = None;
        }
        is_same
    }

    fn new(files: Files, clock: Arc<dyn Clock>) -> Self {
        Self { files, lifetime: Self::LIFETIME, clock, read: Mutex::default() }
    }

    /// What was read a short while ago. A clock that was set back ends that while.
    fn remembered(&self, now: SystemTime) -> Option<Read> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let age = now.duration_since(read.at).ok()?;
        (age < self.lifetime).then_some(read)
    }
}

impl Files {
    fn read(&self) -> Result<Option<Logins>, DockerConfigFileError> {
        match self {
            Self::Explicit(path) => read_file(path, DockerConfig::read).map(Some),
            Self::Search(paths) => Ok(paths.iter().find_map(|path| try_file(path))),
        }
    }
}

/// A docker configuration that cannot be used. It names the file and quotes nothing of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DockerConfigFileError {
    /// Its contents are none.
    #[error("docker configuration {path} is invalid: write a config.json or a .dockercfg as docker does", path = .0.display())]
    Invalid(PathBuf, #[source] DockerConfigError),
    /// The file cannot be read.
    #[error("cannot read docker configuration {path}", path = .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
}

const DOCKERCFG: &str = ".dockercfg";
const MAX_LENGTH: u64 = 16 << 20;

/// While searching, a file that cannot be used is passed over.
fn try_file(path: &Path) -> Option<Logins> {
    match read_file(path, DockerConfig::read_json) {
        Ok(logins) => Some(logins),
        Err(DockerConfigFileError::Unreadable(_, error))
            if error.kind() == io::ErrorKind::NotFound =>
        {
            None
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::debug!(error, "docker configuration passed over");
            None
        }
    }
}

fn read_file(
    path: &Path,
    read: fn(&[u8]) -> Result<DockerConfig, DockerConfigError>,
) -> Result<Logins, DockerConfigFileError> {
    let bytes = read_bounded(path, MAX_LENGTH)
        .map_err(|error| DockerConfigFileError::Unreadable(path.into(), error))?;
    let is_legacy = path.file_name() == Some(OsStr::new(DOCKERCFG));
    let read = if is_legacy { DockerConfig::read_legacy } else { read };
    let config =
        read(bytes.expose()).map_err(|error| DockerConfigFileError::Invalid(path.into(), error))?;
    let logins = config.into_logins(Source::DockerConfig(path.into()));
    if let [first, rest @ ..] = logins.skipped() {
        let more = rest.len();
        tracing::warn!(path = %path.display(), %first, more, "docker configuration has keys that are no URLs");
    }
    Ok(logins)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use keyfob_testkit::{LeakCheck, ManualClock, MapEnvironment};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tempfile::TempDir;

    use super::*;

    /// Empty directories, and an environment whose `$HOME` is one of them.
    struct World {
        folder: TempDir,
        clock: ManualClock,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["root", "here/.docker", "home/.docker"] {
                fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            Self { folder, clock: ManualClock::default() }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// Writes a configuration of either form with one key.
        fn write(&self, name: &str, key: &str) -> &Self {
            let entries = format!(r#"{{"{key}":{{"username":"u"}}}}"#);
            let is_json = name.contains(".json");
            let text = if is_json { format!(r#"{{"auths":{entries}}}"#) } else { entries };
            fs::write(self.at(name), text).unwrap();
            self
        }

        fn search_with(&self, home: Option<&str>) -> NodeDockerConfig {
            let home = home.map(|home| ("HOME", self.at(home)));
            let environment: MapEnvironment = home.into_iter().collect();
            let (root, here) = (self.at("root"), self.at("here"));
            NodeDockerConfig::search(&root, &here, &environment, Arc::new(self.clock.clone()))
        }

        fn search(&self) -> NodeDockerConfig {
            self.search_with(Some("home"))
        }
    }

    fn keys(config: &NodeDockerConfig) -> Vec<String> {
        let logins = config.logins().unwrap();
        logins.iter().flat_map(|logins| logins.keys()).map(ToString::to_string).collect()
    }

    #[test]
    fn files_are_looked_for_as_a_kubelet_does() {
        let world = World::new();
        assert!(world.search().logins().unwrap().is_none());
        // From the last place to the first: each new one is preferred.
        for name in [
            "home/.dockercfg",
            "here/.dockercfg",
            "root/.dockercfg",
            "home/.docker/config.json",
            "here/config.json",
            "root/config.json",
        ] {
            world.write(name, &name.replace('/', "."));
            let config = world.search();
            assert_eq!(keys(&config), [name.replace('/', ".")]);
            let source = config.logins().unwrap().unwrap().source().clone();
            assert_eq!(source, Source::DockerConfig(world.at(name).into()));
        }
    }

    #[test]
    fn without_a_home_the_working_directory_is_it() {
        let world = World::new();
        world.write("here/.docker/config.json", "here.test");
        assert_eq!(keys(&world.search_with(None)), ["here.test"]);
        assert_eq!(keys(&world.search()), [""; 0]);
    }

    #[test]
    fn what_cannot_be_used_is_passed_over() {
        let world = World::new();
        fs::write(world.at("root/config.json"), "{").unwrap();
        mknodat(CWD, world.at("here/config.json"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::create_dir(world.at("home/.docker/config.json")).unwrap();
        assert_eq!(keys(&world.search()), [""; 0]);
        world.write("home/.dockercfg", "home.test");
        assert_eq!(keys(&world.search()), ["home.test"]);
    }

    #[test]
    fn an_answer_holds_for_five_minutes() {
        let world = World::new();
        let config = world.search();
        assert_eq!(keys(&config), [""; 0]);
        world.write("root/config.json", "a.test");
        world.clock.advance(Duration::from_mins(5) - Duration::from_nanos(1));
        assert_eq!(keys(&config), [""; 0], "that there is none is remembered too");
        world.clock.advance(Duration::from_nanos(1));
        assert_eq!(keys(&config), ["a.test"]);
        world.write("root/config.json", "b.test");
        assert_eq!(keys(&config), ["a.test"]);
        world.clock.advance(Duration::from_mins(5));
        assert_eq!(keys(&config), ["b.test"]);
    }

    #[test]
    fn an_explicit_file_must_be_there_and_valid() {
        let world = World::new();
        let explicit =
            |name: &str| NodeDockerConfig::file(world.at(name), Arc::new(world.clock.clone()));
        let leaks = LeakCheck::new(["hunter2"]);
        let config = explicit("my.json");

        let missing = config.logins().unwrap_err();
        assert!(missing.to_string().ends_with("/my.json"), "{missing}");
        fs::write(world.at("my.json"), r#"{"auths":{"r.test":{"auth":"hunter2"}}}"#).unwrap();
        let invalid = config.logins().unwrap_err();
        assert!(
            matches!(&invalid, DockerConfigFileError::Invalid(path, _) if *path == world.at("my.json"))
        );
        leaks.error(&invalid);
        world.write("my.json", "r.test");
        assert_eq!(keys(&config), ["r.test"], "an error is not remembered");
        leaks.debug("the whole", &config);

        world.write(".dockercfg", "auths");
        world.write("legacy", "old.test");
        assert_eq!(keys(&explicit(".dockercfg")), ["auths"]);
        assert_eq!(keys(&explicit("legacy")), ["old.test"]);
    }
}
