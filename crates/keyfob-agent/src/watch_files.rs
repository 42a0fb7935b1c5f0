//! Reloads when a file of the configuration changes.
//!
//! inotify reports changes of the directories, so that files that are replaced by a rename or a symbolic link are noticed too. It only
//! says that it is time to look: whether anything changed is decided by the contents. Every [`POLL`] the agent looks without a
//! report, because a directory that was removed and made again is no longer watched.

use std::{
    collections::BTreeSet,
    fmt, io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyfob_agent_config::AgentConfig;
use keyfob_config::Config;
use keyfob_exec::read_bounded;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::{
    io::unix::AsyncFd,
    time::{sleep, timeout},
};

use crate::agent::{Shared, blocking};

/// How long the files must be quiet before they are read.
const QUIET: Duration = Duration::from_millis(100);
/// How often the files are looked at without a report.
const POLL: Duration = Duration::from_secs(10);

/// Reloads when the files change, for ever. Files are read where that may take long.
pub(crate) async fn reload_on_change(shared: Arc<Shared>) {
    let watcher = match Watcher::new() {
        Ok(watcher) => Some(Arc::new(watcher)),
        Err(error) => {
            tracing::warn!(%error, "files are not watched; they are read every ten seconds");
            None
        }
    };
    loop {
        let adding = watcher.clone();
        let look = move |shared: &Shared| {
            // First, so that what changes after this look is reported.
            if let Some(watcher) = adding {
                watcher.add(&directories(shared));
            }
            reload_if_changed(shared)
        };
        let is_reloaded = blocking(&shared, look).await.unwrap_or_default();
        match &watcher {
            // The new configuration may have its files in other directories.
            _ if is_reloaded => {}
            // Either something happened or it is time to look.
            Some(watcher) => {
                if timeout(POLL, watcher.changed()).await.is_ok() {
                    sleep(QUIET).await;
                }
            }
            None => sleep(POLL).await,
        }
    }
}

/// Reloads, unless the files are what they were when somebody last tried to. Whether there is a new configuration.
fn reload_if_changed(shared: &Shared) -> bool {
    let now = FileContents::read(shared.path(), &shared.config());
    if shared.files_tried() == Some(now) {
        return false;
    }
    match shared.reload() {
        Ok(reloaded) => {
            tracing::info!(?reloaded, "the files changed; the new configuration is active");
            true
        }
        // It is logged.
        Err(_) => false,
    }
}

/// What the files of the configuration contain, to see whether they have changed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FileContents {
    /// Nothing if it cannot be read.
    agent: Option<Vec<u8>>,
    /// The hash of the providers, or why they cannot be read.
    providers: Result<Option<String>, String>,
}

impl FileContents {
    /// Reads the agent's file and the providers that it names. If it is broken, they are those of the configuration in use.
    pub(crate) fn read(path: &Path, in_use: &AgentConfig) -> Self {
        let text = read_bounded(path, AgentConfig::MAX_BYTES).ok();
        let text = text.map(|text| text.expose().clone());
        let config = text.as_ref().and_then(|text| AgentConfig::parse("", text).ok());
        let providers = &config.as_ref().unwrap_or(in_use).provider_config;
        let providers = Config::read(providers).map(|providers| providers.hash);
        Self { agent: text, providers: providers.map_err(|error| error.to_string()) }
    }
}

impl fmt::Debug for FileContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileContents").field("providers", &self.providers).finish_non_exhaustive()
    }
}

/// The directories in which a change may matter.
fn directories(shared: &Shared) -> BTreeSet<PathBuf> {
    let providers = shared.config().provider_config.clone();
    let mut directories = BTreeSet::new();
    for path in [shared.path(), &providers] {
        directories.extend(path.parent().map(Path::to_owned));
        if let Ok(real) = path.canonicalize() {
            directories.extend(real.parent().map(Path::to_owned));
        }
    }
    if providers.is_dir() {
        directories.insert(providers);
    }
    directories
}

struct Watcher {
    inotify: AsyncFd<OwnedFd>,
}

impl Watcher {
    fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, and an OwnedFd is what that asks for"
        )]
        let inotify = AsyncFd::new(inotify)?;
        Ok(Self { inotify })
    }

    /// Adding a directory again changes nothing.
    fn add(&self, directories: &BTreeSet<PathBuf>) {
        let flags = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ONLYDIR;
        for directory in directories {
            if let Err(error) = inotify::add_watch(self.inotify.get_ref(), directory, flags) {
                tracing::debug!(directory = %directory.display(), %error, "not watched");
            }
        }
    }

    /// Waits for a change and drops what was reported.
    async fn changed(&self) {
        let Ok(mut guard) = self.inotify.readable().await else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
        while reader.next().is_ok() {}
        guard.clear_ready();
    }
}
