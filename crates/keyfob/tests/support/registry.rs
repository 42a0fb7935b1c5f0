//! A registry on loopback that lives as long as the value, on a thread of its own, and images in it.

use std::{
    path::{Path, PathBuf},
    sync::mpsc,
    thread::JoinHandle,
};

use keyfob_playground::registry::{
    Access, ImageToMake, Options, PushedImage, Registry, Running, User,
};
use tokio::{runtime::Handle, sync::oneshot};

/// What lets in whoever may pull everything.
pub(crate) const PASSWORD: &str = "hunter2-registry";

pub(crate) struct Served {
    pub(crate) registry: Running,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// One that lets everybody in.
    pub(crate) fn open() -> Self {
        Self::start(Options { access: Access::Anonymous, ..Options::default() })
    }

    /// One that lets in `ada`.
    pub(crate) fn private() -> Self {
        let users = vec![User::new("ada", PASSWORD).may_pull("")];
        Self::start(Options { users, ..Options::default() })
    }

    pub(crate) fn start(options: Options) -> Self {
        let (started, registry) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let registry = runtime.block_on(Registry::start(options)).unwrap();
            started.send((registry, runtime.handle().clone())).unwrap();
            // Serves until whoever started it is done.
            runtime.block_on(stopped).unwrap_or_default();
        });
        let (registry, runtime) = registry.recv().unwrap();
        Self { registry, runtime, stop: Some(stop), thread: Some(thread) }
    }

    /// `HOST:PORT/NAME`.
    pub(crate) fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.registry.address())
    }

    pub(crate) fn push(&self, repository: &str, tag: &str, layers: &[Vec<u8>]) -> PushedImage {
        self.push_for(repository, tag, layers, &[])
    }

    /// An image for each of several platforms.
    pub(crate) fn push_for(
        &self,
        repository: &str,
        tag: &str,
        layers: &[Vec<u8>],
        platforms: &[&str],
    ) -> PushedImage {
        let platforms = platforms.iter().map(|&platform| platform.to_owned()).collect();
        let image = ImageToMake { layers: layers.to_vec(), platforms, ..ImageToMake::default() };
        self.runtime.block_on(self.registry.push_image(repository, tag, &image)).unwrap()
    }

    /// The blobs that were asked for and given, by their digests.
    pub(crate) fn fetched(&self) -> Vec<String> {
        let requests = self.registry.requests();
        let given = requests
            .iter()
            .filter(|seen| seen.method == "GET" && matches!(seen.status, Some(200 | 206)));
        given.filter_map(|seen| Some(seen.path.split_once("/blobs/")?.1.to_owned())).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A layer that does not get smaller by compression: bytes of a small generator, another for each seed.
pub(crate) fn layer(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

/// Where the content of a digest is in a layout.
pub(crate) fn blob(layout: &Path, digest: &str) -> PathBuf {
    layout.join("blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
}
