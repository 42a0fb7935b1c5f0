//! Whoever has the images.

use std::{collections::BTreeMap, fmt, future::pending, sync::Mutex};

use keyfob_exec::BoxFuture;
use keyfob_images::{
    Attempt, ImageService, ImageServiceError, ImageSpec, LocalImage, PullFailure, PullFailureKind,
};
use keyfob_keyring::Credential;
use tokio::sync::Semaphore;

use super::Diary;

/// What a pull does.
type Pulls = dyn Fn(&Attempt) -> Result<String, PullFailure> + Send + Sync;

/// Has images, and does with pulls what it is told.
pub(crate) struct Shelf {
    pub(crate) diary: Diary,
    images: Mutex<BTreeMap<String, String>>,
    pulls: Box<Pulls>,
    /// Pulls wait for it, if there is one.
    pub(crate) hold: Option<Semaphore>,
    /// Whether it never says how large an image is.
    pub(crate) never_measures: bool,
    pub(crate) never_lists: bool,
    /// Goes up when a pull begins.
    pub(crate) began: Semaphore,
}

impl Shelf {
    pub(crate) fn new(
        pulls: impl Fn(&Attempt) -> Result<String, PullFailure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            diary: Diary::default(),
            images: Mutex::default(),
            pulls: Box::new(pulls),
            hold: None,
            never_measures: false,
            never_lists: false,
            began: Semaphore::new(0),
        }
    }

    /// One whose pulls all succeed.
    pub(crate) fn full() -> Self {
        Self::new(|_| Ok("id-pulled".into()))
    }

    pub(crate) fn has(self, image: &str, id: &str) -> Self {
        self.images.lock().unwrap().insert(image.into(), id.into());
        self
    }

    pub(crate) fn holding(mut self) -> Self {
        self.hold = Some(Semaphore::new(0));
        self
    }

    /// Waits until so many pulls have begun since the last time.
    pub(crate) async fn began(&self, pulls: u32) {
        self.began.acquire_many(pulls).await.unwrap().forget();
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shelf")
    }
}

impl ImageService for Shelf {
    fn image_id<'a>(
        &'a self,
        spec: &'a ImageSpec,
    ) -> BoxFuture<'a, Result<Option<String>, ImageServiceError>> {
        Box::pin(async {
            self.diary.write(format!("look {}", spec.image));
            if spec.image.contains("broken") {
                return Err(ImageServiceError::new("the shelf fell over"));
            }
            Ok(self.images.lock().unwrap().get(&spec.image).cloned())
        })
    }

    fn pull<'a>(
        &'a self,
        _spec: &'a ImageSpec,
        attempt: &'a Attempt,
    ) -> BoxFuture<'a, Result<String, PullFailure>> {
        Box::pin(async {
            let user = attempt.credential.as_ref().map_or("nobody", Credential::username);
            self.diary.write(format!("pull {} as {user}", attempt.from));
            self.began.add_permits(1);
            if let Some(hold) = &self.hold {
                hold.acquire().await.unwrap().forget();
            }
            (self.pulls)(attempt)
        })
    }

    fn size<'a>(&'a self, _spec: &'a ImageSpec) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async {
            self.diary.write("size");
            if self.never_measures {
                pending::<()>().await;
            }
            Some(42)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<LocalImage>, ImageServiceError>> {
        Box::pin(async {
            self.diary.write("list");
            if self.never_lists {
                return Err(ImageServiceError::new("the shelf fell over"));
            }
            Ok(vec![LocalImage { id: "id-listed".into(), ..LocalImage::default() }])
        })
    }
}

pub(crate) fn failure(kind: PullFailureKind, message: &str) -> PullFailure {
    PullFailure::new(kind, message)
}

pub(crate) fn refusal() -> PullFailure {
    failure(PullFailureKind::Refused, "401 Unauthorized")
}
