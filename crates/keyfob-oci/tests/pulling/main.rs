//! Pulls, against registries that do as they should and registries that do not.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails where it stands")]

mod access;
mod authentication;
mod blobs;
mod documents;
mod processes;
mod redirects;
mod registry;
mod slow;
mod stored;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::ImageRef;
use keyfob_keyring::Login;
use keyfob_oci::{
    Blob, Client, ClientBuilder, Digest, Layout, Patience, Platform, Progress, PullError, Puller,
    StoredImage,
};
use keyfob_testkit::MapEnvironment;
use tempfile::TempDir;

/// A directory to pull into, and who pulls.
struct Node {
    directory: TempDir,
    puller: Puller,
    seen: Seen,
}

impl Node {
    fn new() -> Self {
        Self::with(client())
    }

    fn with(client: ClientBuilder) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (puller, seen) = puller(&directory, client, Some("linux/amd64"));
        Self { directory, puller, seen }
    }

    async fn pull(&self, image: &str, login: Option<&Login>) -> Result<StoredImage, PullError> {
        let image = ImageRef::parse(image).unwrap();
        self.puller.pull_image(&image, &image, login).await
    }

    async fn refusal(&self, image: &str) -> String {
        let error = self.pull(image, None).await.unwrap_err();
        keyfob_api::Chain(&error).to_string()
    }

    fn layout(&self) -> &Layout {
        self.puller.layout()
    }

    /// Whether the layout has this content.
    fn has(&self, content: &[u8]) -> bool {
        std::fs::read(self.layout().blob_path(&Digest::sha256(content)))
            .is_ok_and(|it| it == content)
    }
}

/// Who pulls into a directory, and what he says meanwhile.
fn puller(directory: &TempDir, client: ClientBuilder, platform: Option<&str>) -> (Puller, Seen) {
    let layout = Layout::create(directory.path().join("oci")).unwrap();
    let seen = Seen::default();
    let builder = Puller::builder(client.build(), layout).progress(seen.clone());
    let puller = match platform {
        Some(platform) => builder.platform(Platform::parse(platform).unwrap()).build(),
        None => builder.build(),
    };
    (puller, seen)
}

/// One that does not take its time.
fn client() -> ClientBuilder {
    let patience = Patience { first: Duration::from_millis(1), ..Patience::default() };
    Client::builder(&MapEnvironment::default()).patience(patience)
}

fn login(username: &str, password: &str) -> Login {
    Login { username: username.into(), password: password.into(), ..Login::default() }
}

/// Why a pull failed, as far as that decides what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Refused,
    Unavailable,
    Other,
}

impl Kind {
    fn of(error: &PullError) -> Self {
        match error {
            PullError::Refused { .. } => Self::Refused,
            PullError::Unavailable { .. } => Self::Unavailable,
            _ => Self::Other,
        }
    }
}

/// What was seen of a pull, but for single bytes.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    /// What was seen of blobs of this size.
    fn of(&self, size: usize) -> Vec<String> {
        let seen = self.0.lock().unwrap();
        let of_size = |line: &String| line.strip_prefix(&format!("{size} ")).map(str::to_owned);
        seen.iter().filter_map(of_size).collect()
    }
}

impl Progress for Seen {
    fn skipped(&self, blob: &Blob) {
        self.add(format!("{} skipped", blob.size));
    }

    fn started(&self, blob: &Blob, here: u64) {
        self.add(format!("{} started at {here}", blob.size));
    }

    fn retried(&self, blob: &Blob, _error: &PullError, _pause: Duration) {
        self.add(format!("{} retried", blob.size));
    }

    fn restarted(&self, blob: &Blob) {
        self.add(format!("{} restarted", blob.size));
    }

    fn finished(&self, blob: &Blob) {
        self.add(format!("{} finished", blob.size));
    }
}
