//! Reloads when a file of the configuration changes.
//!
//! inotify reports changes of the directories, so that files that are replaced by a rename or a symbolic link are noticed too. It only
//! says that it is time to look: whether anything changed is decided by the contents. Every [`POLL`] the agent looks without a
//! report, because a directory that was removed and made again is no longer watched.

use std::{
    collections::BTreeSet,
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyfob_config::Config;
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
    let first = blocking(&shared, |shared| {
        let seen = fingerprint(shared);
        reload_if_changed(shared);
        seen
    });
    let mut seen = first.await;
    loop {
        match &watcher {
            Some(watcher) => {
                let adding = watcher.clone();
                blocking(&shared, move |shared| adding.add(&directories(shared))).await;
                // Either something happened or it is time to look.
                if timeout(POLL, watcher.changed()).await.is_ok() {
                    sleep(QUIET).await;
                }
            }
            None => sleep(POLL).await,
        }
        let before = seen.take();
        let look = blocking(&shared, move |shared| {
            let now = fingerprint(shared);
            if before.as_ref() != Some(&now) {
                reload_if_changed(shared);
            }
            now
        });
        seen = look.await;
    }
}

/// Reloads, unless somebody else has done so since the files changed. At the start, the files may have changed since they were read.
fn reload_if_changed(shared: &Shared) {
    if shared.is_current() {
        return;
    }
    if let Ok(reloaded) = shared.reload() {
        tracing::info!(?reloaded, "the files changed; the new configuration is active");
    }
}

/// What the files contain; an unreadable file has no contents.
type Fingerprint = (Option<Vec<u8>>, Result<Option<String>, String>);

fn fingerprint(shared: &Shared) -> Fingerprint {
    const MAX: u64 = 1 << 20;
    let file = keyfob_exec::read_bounded(shared.path(), MAX).ok();
    let providers = Config::read(&shared.config().provider_config);
    let providers = providers.map(|config| config.hash).map_err(|error| error.to_string());
    (file.map(|file| file.expose().clone()), providers)
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
