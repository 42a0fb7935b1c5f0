//! What processes left behind that ended in the middle of a pull.
//!
//! Upstream: `initialize` in `image_pull_manager.go`, which only a kubelet that starts calls.
//! Differs: pulls that another process has in flight are left alone; images are listed after it was seen that an intent is
//! nobody's; an image is known again under all its names; who has other images than the kubelet leaves its pulls to it.

use std::path::Path;

use keyfob_api::Chain;

use super::{
    PullRecords, RecordsError, files::AbandonedPull, kubelet::last_start, lock::WriteLock,
    names::Name, store::RecordStore as _,
};
use crate::LocalImage;

/// Pulls that ended halfway: their intents are there, and nobody works on them.
#[derive(Debug, Default)]
#[must_use]
pub struct Abandoned(Vec<AbandonedPull>);

impl Abandoned {
    /// Whether there are none, so that no image need be listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The images that were to be pulled.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|pull| pull.intent.value.as_str())
    }
}

impl PullRecords {
    /// The pulls that ended halfway and that were not looked into yet. If there are any, list the images, then
    /// [`PullRecords::recover`]. To be asked at the start and before each pull: until somebody looked,
    /// [`PullRecords::record_intent`] refuses the same image.
    pub fn abandoned(&self) -> Abandoned {
        let found = self.files.lock().map(|lock| self.not_looked_into(&lock));
        Abandoned(found.unwrap_or_else(|error| {
            tracing::error!(error = %Chain(&error), "cannot look for pulls that ended halfway");
            Vec::new()
        }))
    }

    /// Records the images that came by pulls which ended halfway: every pod must prove its access to them. `images` is every
    /// image that is here, listed *after* the abandoned pulls were asked for: an older list may not have what they brought.
    pub fn recover(&self, abandoned: Abandoned, images: &[LocalImage]) {
        if abandoned.is_empty() {
            return;
        }
        let lock = match self.files.lock() {
            Ok(lock) => lock,
            Err(error) => {
                tracing::error!(error = %Chain(&error), "pulls that ended halfway are not looked into");
                return;
            }
        };
        let images: Vec<_> = images.iter().map(Names::of).collect();
        for pull in abandoned.0 {
            if self.kubelet_to_look(&pull).is_some() {
                continue;
            }
            let came = images.iter().filter(|image| image.came_from(&pull));
            let ids: Vec<&str> = came.map(|image| image.id).collect();
            if ids.is_empty() {
                self.in_vain().push(pull);
            } else if let Err(error) = self.take_over(&pull, &ids, &lock) {
                let image = pull.intent.value;
                tracing::error!(image, error = %Chain(&error), "a pull that ended halfway stays so");
            }
        }
    }

    /// Records images without saying who has access; then the intent goes.
    fn take_over(
        &self,
        pull: &AbandonedPull,
        ids: &[&str],
        lock: &WriteLock,
    ) -> Result<(), RecordsError> {
        let image = pull.intent.value.as_str();
        for id in ids {
            self.remember(image, id, None, lock)?;
            tracing::info!(image, image_ref = id, "recorded an image whose pull ended halfway");
        }
        if self.files.intent_mark(image) == pull.intent.mark {
            self.store.delete_intent(image)
        } else {
            // Somebody pulls it again, and so it is theirs.
            Ok(())
        }
    }

    /// A pull may move a tag, and then nobody finds the image any more that an abandoned pull left under it.
    pub(super) fn refuse_abandoned(
        &self,
        image: &str,
        lock: &WriteLock,
    ) -> Result<(), RecordsError> {
        let wanted = Name::new(image);
        let mut abandoned = self.not_looked_into(lock).into_iter();
        match abandoned.find(|pull| Name::new(&pull.intent.value).is_same(&wanted)) {
            Some(pull) => Err(match self.kubelet_to_look(&pull) {
                Some(root) => {
                    RecordsError::LeftToKubelet { image: pull.intent.value, root: root.to_owned() }
                }
                None => RecordsError::Abandoned { image: pull.intent.value },
            }),
            None => Ok(()),
        }
    }

    /// The root directory of the kubelet that must look what came of a pull. It does so when it starts; if it was started since
    /// and the intent is still there, no image came.
    fn kubelet_to_look(&self, pull: &AbandonedPull) -> Option<&Path> {
        let root = self.kubelet_elsewhere.as_deref()?;
        let written = pull.written_by_kubelet?;
        let has_looked = last_start(root).is_some_and(|start| start > written);
        (!has_looked).then_some(root)
    }

    /// A pull of `redis` may take the tag from the image of a pull of `docker.io/library/redis`, as if they shared an intent. One
    /// whose image was looked for in vain has none to lose.
    pub(super) fn join_other_spellings(
        &self,
        image: &str,
        _: &WriteLock,
    ) -> Result<(), RecordsError> {
        let wanted = Name::new(image);
        let mut others = self.files.intents().entries;
        others.retain(|intent| intent.value != image && Name::new(&intent.value).is_same(&wanted));
        if !others.is_empty() {
            let in_vain = self.in_vain();
            others.retain(|intent| !in_vain.iter().any(|pull| pull.intent == *intent));
        }
        for other in others {
            self.files.note_another(&other.value)?;
            self.files.note_another(image)?;
        }
        Ok(())
    }

    fn not_looked_into(&self, _: &WriteLock) -> Vec<AbandonedPull> {
        let mut abandoned = self.files.abandoned();
        let mut in_vain = self.in_vain();
        in_vain.retain(|pull| abandoned.contains(pull));
        // Two may have looked for the same.
        in_vain.dedup();
        abandoned.retain(|pull| !in_vain.contains(pull));
        abandoned
    }
}

/// The names of an image.
struct Names<'a> {
    id: &'a str,
    tags: Vec<Name<'a>>,
    digests: Vec<Name<'a>>,
}

impl<'a> Names<'a> {
    fn of(image: &'a LocalImage) -> Self {
        let names = |names: &'a [String]| names.iter().map(|name| Name::new(name)).collect();
        Self { id: &image.id, tags: names(&image.repo_tags), digests: names(&image.repo_digests) }
    }

    /// Whether a pull that ended halfway may have brought the image. If there were several of one tag, each but the last may
    /// have brought one that has no tag any more.
    fn came_from(&self, pull: &AbandonedPull) -> bool {
        let pulled = Name::new(&pull.intent.value);
        let has_no_tag = || !self.tags.iter().any(|tag| tag.is_beside(&pulled));
        self.tags.iter().chain(&self.digests).any(|name| name.came_from(&pulled))
            || pull.were_several
                && self.digests.iter().any(|digest| digest.is_beside(&pulled))
                && has_no_tag()
    }
}
