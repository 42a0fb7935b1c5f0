//! Which images are requested again before anybody asks: ahead of their expiry, and after a restart.
//!
//! Only names are remembered, and only those that were requested with the node's own identity: the agent does not ask for tokens
//! of pods that may be gone. An image that nobody requested for [`FORGET_AFTER`] is no longer renewed. A caller other than root on the
//! host can neither fill the list nor push out what root requested: it has a share of the places, and root's names come first.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use keyfob_exec::{aging::was_set_back, read_bounded};
use serde::{Deserialize, Serialize};

use crate::rate_limit::CallerKey;

/// How long an image is renewed that nobody requests.
pub(crate) const FORGET_AFTER: Duration = Duration::from_hours(12);

/// A caller other than root on the host may have one of so many parts of the places.
const SHARES: usize = 4;

/// How long a failed request waits for the next one.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// A symbolic link in the place of a file is not followed.
pub(crate) const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

const FILE: &str = "images.json";
const MAX_FILE: u64 = 8 << 20;

/// The images that were requested.
#[derive(Debug)]
pub(crate) struct RememberedImages {
    images: Mutex<Images>,
    /// One writer of the file at a time.
    writing: Mutex<()>,
    file: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Images {
    by_name: HashMap<String, Remembered>,
    /// Whether they changed since they were written.
    changed: bool,
}

#[derive(Clone, Debug)]
struct Remembered {
    requested: SystemTime,
    /// When its answer expires; nothing if that is not cached.
    expires: Option<SystemTime>,
    /// When it is requested again; nothing if its answer is not cached.
    due: Option<SystemTime>,
    /// When it was due for the first time after its last answer: attempts that fail do not change it.
    renewal: Option<SystemTime>,
    /// When these times were set.
    set: SystemTime,
    /// Who requested it, if that was not root on the host.
    caller: Option<CallerKey>,
}

/// An image that is to be requested again.
#[derive(Debug)]
pub(crate) struct DueImage {
    pub(crate) name: String,
    /// Who requested it, if that was not root on the host.
    pub(crate) caller: Option<CallerKey>,
}

/// The file in the state directory.
#[derive(Debug, Deserialize, Serialize)]
struct Stored {
    version: u32,
    images: Vec<StoredImage>,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredImage {
    image: String,
    /// Seconds since 1970.
    requested: u64,
    /// Whether root on the host requested it.
    #[serde(default)]
    by_root: bool,
}

impl RememberedImages {
    pub(crate) fn new(directory: Option<&Path>) -> Self {
        let file = directory.map(|directory| directory.join(FILE));
        Self { images: Mutex::default(), writing: Mutex::default(), file }
    }

    /// The names from before the restart, those requested last first, at most `most`. A file that cannot be read is no error: the
    /// agent starts cold.
    pub(crate) fn load(&self, most: u32, now: SystemTime) -> Vec<DueImage> {
        let Some(file) = &self.file else { return Vec::new() };
        let stored = match read_stored(file) {
            Ok(stored) => stored,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "remembered images cannot be read");
                return Vec::new();
            }
        };
        let mut images: Vec<_> =
            stored.images.into_iter().filter_map(|stored| stored.read(now)).collect();
        images.sort_by_key(|(_, image)| std::cmp::Reverse(image.requested));
        images.truncate(most as usize);
        let due = images.iter().map(|(name, image)| image.as_due(name)).collect();
        let mut known = self.lock();
        for (name, image) in images {
            // They are requested at once; if that fails, after a while. What was requested meanwhile is known better.
            let image = Remembered { due: retry_at(now), ..image };
            known.by_name.entry(name).or_insert(image);
        }
        due
    }

    /// Somebody requested the image: this caller, or root on the host.
    pub(crate) fn requested(
        &self,
        image: &str,
        caller: Option<CallerKey>,
        now: SystemTime,
        most: u32,
    ) {
        let mut images = self.lock();
        if let Some(known) = images.by_name.get_mut(image) {
            known.requested = now;
            if caller.is_none() {
                known.caller = None;
            }
        } else {
            images.adjust_to(now);
            if !images.make_room(caller.as_ref(), most as usize) {
                return;
            }
            images.by_name.insert(image.to_owned(), Remembered::requested(now, now, caller));
        }
        images.changed = true;
    }

    /// An answer arrived: the image is due again before it expires. Returns whether it is another answer than before; the same one is
    /// due when it was.
    pub(crate) fn answered(
        &self,
        image: &str,
        expires: Option<SystemTime>,
        ahead: Duration,
        now: SystemTime,
    ) -> bool {
        let mut images = self.lock();
        let Some(known) = images.by_name.get_mut(image) else { return false };
        let is_new = expires.is_none() || known.expires != expires;
        if is_new {
            known.expires = expires;
            known.due = expires.map(|expires| due(now, expires, ahead));
            known.renewal = known.due;
            known.set = now;
        }
        is_new
    }

    /// The images to request again now. Each is due again after a while even if its request fails.
    pub(crate) fn take_due(&self, now: SystemTime) -> Vec<DueImage> {
        let mut images = self.lock();
        images.adjust_to(now);
        images.by_name.retain(|_, image| age(now, image.requested) < FORGET_AFTER);
        let mut all_due = Vec::new();
        for (name, image) in &mut images.by_name {
            if image.due.is_some_and(|due| due <= now) {
                image.due = retry_at(now);
                image.set = now;
                all_due.push(image.as_due(name));
            }
        }
        all_due
    }

    /// When each image is requested again, as far as that is known.
    pub(crate) fn due(&self) -> Vec<(String, SystemTime)> {
        let images = self.lock();
        let due = |(name, image): (&String, &Remembered)| Some((name.clone(), image.due?));
        images.by_name.iter().filter_map(due).collect()
    }

    /// When the next renewal is due, or since when it has been due without success.
    pub(crate) fn next_renewal(&self) -> Option<SystemTime> {
        self.lock().by_name.values().filter_map(|image| image.renewal).min()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().by_name.len()
    }

    /// Writes the names if they changed. The old file stays until the new one is complete.
    pub(crate) fn store(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = {
            let mut images = self.lock();
            if !images.changed {
                return Ok(());
            }
            images.changed = false;
            Stored {
                version: 1,
                images: images
                    .by_name
                    .iter()
                    .map(|(name, image)| StoredImage::of(name, image))
                    .collect(),
            }
        };
        let written = write_stored(file, &stored);
        if written.is_err() {
            self.lock().changed = true;
        }
        written
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Images> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Images {
    /// Nothing lies ahead of a clock that was set back: neither would a name be forgotten, nor an answer renewed, until it has caught up.
    /// The host forgets its answers then, so they are due.
    fn adjust_to(&mut self, now: SystemTime) {
        for image in self.by_name.values_mut() {
            image.requested = image.requested.min(now);
            if was_set_back(now, image.set) {
                image.set = now;
                image.expires = None;
                image.due = image.due.map(|due| due.min(now));
                image.renewal = image.renewal.map(|renewal| renewal.min(now));
            }
        }
    }

    /// Makes room for one more image; whether there is some. A caller that has its share loses its own oldest image. If all places are
    /// taken, the oldest image that was not requested by root makes way, and one of root's only for root.
    fn make_room(&mut self, caller: Option<&CallerKey>, most: usize) -> bool {
        if most == 0 {
            return false;
        }
        if let Some(caller) = caller {
            let is_its_own = |image: &Remembered| image.caller.as_ref() == Some(caller);
            let count = self.by_name.values().filter(|image| is_its_own(image)).count();
            if count >= (most / SHARES).max(1) {
                return self.forget_oldest(is_its_own);
            }
        }
        self.by_name.len() < most
            || self.forget_oldest(|image| image.caller.is_some())
            || (caller.is_none() && self.forget_oldest(|_| true))
    }

    /// Forgets the oldest of these images; whether there was one.
    fn forget_oldest(&mut self, is_meant: impl Fn(&Remembered) -> bool) -> bool {
        let meant = self.by_name.iter().filter(|(_, image)| is_meant(image));
        let oldest = meant.min_by_key(|(_, image)| image.requested).map(|(name, _)| name.clone());
        oldest.is_some_and(|name| self.by_name.remove(&name).is_some())
    }
}

impl Remembered {
    fn requested(requested: SystemTime, now: SystemTime, caller: Option<CallerKey>) -> Self {
        Self { requested, expires: None, due: None, renewal: None, set: now, caller }
    }

    fn as_due(&self, name: &str) -> DueImage {
        DueImage { name: name.to_owned(), caller: self.caller.clone() }
    }
}

impl StoredImage {
    fn of(name: &str, image: &Remembered) -> Self {
        let since_1970 = image.requested.duration_since(SystemTime::UNIX_EPOCH);
        Self {
            image: name.to_owned(),
            requested: since_1970.unwrap_or_default().as_secs(),
            by_root: image.caller.is_none(),
        }
    }

    fn read(self, now: SystemTime) -> Option<(String, Remembered)> {
        let requested = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.requested))?;
        // A clock that was set back must not keep a name for ever.
        let requested = requested.min(now);
        // Who it was is not stored: all others count as one caller.
        let caller = (!self.by_root).then_some(CallerKey::Unattested);
        let image = Remembered::requested(requested, now, caller);
        (age(now, requested) < FORGET_AFTER).then_some((self.image, image))
    }
}

/// Somewhat before `ahead`, at random, so that answers that were fetched together are not renewed together; but never in the first half
/// of an answer's life.
fn due(now: SystemTime, expires: SystemTime, ahead: Duration) -> SystemTime {
    let life = expires.duration_since(now).unwrap_or_default();
    let ahead = (ahead + jitter(most_jitter(ahead))).min(life / 2);
    expires.checked_sub(ahead).unwrap_or(now)
}

/// How long before its expiry an answer is renewed at the earliest, if it is to be renewed so long before.
pub(crate) fn earliest_renewal(ahead: Duration) -> Duration {
    ahead + most_jitter(ahead)
}

fn most_jitter(ahead: Duration) -> Duration {
    ahead / 4
}

/// When a failed request is made again.
fn retry_at(now: SystemTime) -> Option<SystemTime> {
    now.checked_add(RETRY_AFTER + jitter(RETRY_AFTER))
}

fn jitter(most: Duration) -> Duration {
    most.mul_f64(fastrand::f64())
}

fn age(now: SystemTime, then: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

fn read_stored(file: &Path) -> io::Result<Stored> {
    let text = read_bounded(file, MAX_FILE)?;
    let stored: Stored = serde_json::from_slice(text.expose())?;
    if stored.version == 1 { Ok(stored) } else { Err(io::Error::other("an unknown version")) }
}

fn write_stored(file: &Path, stored: &Stored) -> io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let partial = file.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut written = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(NO_FOLLOW)
        .open(&partial)?;
    written.write_all(&serde_json::to_vec(stored)?)?;
    written.sync_all()?;
    fs::rename(&partial, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    const AHEAD: Duration = Duration::from_mins(1);

    fn due(images: &RememberedImages, now: SystemTime) -> Vec<String> {
        names_of(images.take_due(now))
    }

    fn names_of(images: Vec<DueImage>) -> Vec<String> {
        images.into_iter().map(|image| image.name).collect()
    }

    #[test]
    fn an_image_is_due_before_its_answer_expires_and_again_if_that_fails() {
        let images = RememberedImages::new(None);
        images.requested("a", None, at(0), 10);
        assert_eq!(due(&images, at(0)), [""; 0], "nothing is cached yet");
        images.answered("a", Some(at(1000)), AHEAD, at(0));
        assert_eq!(due(&images, at(900)), [""; 0]);
        assert_eq!(due(&images, at(940)), ["a"]);
        assert_eq!(due(&images, at(941)), [""; 0], "it was just requested");
        assert_eq!(due(&images, at(1001)), ["a"], "it failed, and is tried again");
        images.answered("a", None, AHEAD, at(1001));
        assert_eq!(due(&images, at(9000)), [""; 0], "an answer that is not cached is not renewed");
    }

    #[test]
    fn after_the_clock_was_set_back_answers_are_renewed_at_once_and_new_names_stay() {
        const HOUR: u64 = 3600;
        let images = RememberedImages::new(None);
        for name in ["a", "b"] {
            images.requested(name, None, at(HOUR), 2);
            images.answered(name, Some(at(2 * HOUR)), AHEAD, at(HOUR));
        }
        assert_eq!(due(&images, at(HOUR)), [""; 0]);

        let mut renewed = due(&images, at(0));

        renewed.sort();
        assert_eq!(renewed, ["a", "b"]);
        assert!(images.answered("a", Some(at(HOUR)), AHEAD, at(1)), "whenever it expires");
        assert_eq!(due(&images, at(2)), [""; 0], "once");
        for number in 0..2 {
            images.requested(&format!("new-{number}"), None, at(3 + number), 2);
        }
        assert_eq!(names(&images), ["new-0", "new-1"]);
        assert_eq!(due(&images, at(10) + FORGET_AFTER), [""; 0]);
        assert_eq!(images.count(), 0, "by the clock as it is now");
    }

    #[test]
    fn a_short_answer_is_not_renewed_all_the_time() {
        let images = RememberedImages::new(None);
        images.requested("a", None, at(0), 10);
        images.answered("a", Some(at(40)), AHEAD, at(0));
        assert_eq!(due(&images, at(19)), [""; 0]);
        assert_eq!(due(&images, at(20)), ["a"]);
    }

    #[test]
    fn an_image_that_nobody_wants_is_forgotten() {
        let images = RememberedImages::new(None);
        images.requested("a", None, at(0), 10);
        images.answered("a", Some(at(1000)), AHEAD, at(0));
        assert_eq!(due(&images, at(0) + FORGET_AFTER), [""; 0]);
        assert_eq!(images.count(), 0);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let images = RememberedImages::new(None);
        for number in 0..20 {
            images.requested(&format!("image-{number}"), None, at(number), 5);
        }
        assert_eq!(images.count(), 5);
        let images = images.images.lock().unwrap();
        assert!(
            images.by_name.contains_key("image-19") && !images.by_name.contains_key("image-14")
        );
    }

    fn names(images: &RememberedImages) -> Vec<String> {
        let mut names: Vec<_> = images.lock().by_name.keys().cloned().collect();
        names.sort();
        names
    }

    #[test]
    fn a_caller_cannot_push_out_the_images_of_others() {
        let images = RememberedImages::new(None);
        let (greedy, other) = (Some(CallerKey::User(1000)), Some(CallerKey::User(1001)));
        images.requested("roots", None, at(0), 8);
        images.requested("others", other, at(0), 8);
        for number in 1..100 {
            images.requested(&format!("made-up-{number:02}"), greedy.clone(), at(number), 8);
        }
        assert_eq!(names(&images), ["made-up-98", "made-up-99", "others", "roots"]);

        for number in 0..6 {
            images.requested(&format!("root-{number}"), None, at(200), 8);
        }
        assert_eq!(images.count(), 8, "root's names come first");
        for uid in 2000..2100 {
            let caller = Some(CallerKey::User(uid));
            images.requested(&format!("image-of-{uid}"), caller, at(300), 8);
        }
        let roots = names(&images).into_iter().filter(|name| name.starts_with("root")).count();
        assert_eq!((roots, images.count()), (7, 8), "however many callers there are");
    }

    #[test]
    fn the_places_of_root_are_kept_over_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let images = RememberedImages::new(Some(directory.path()));
        images.requested("roots", None, at(0), 2);
        images.requested("others", Some(CallerKey::User(1000)), at(1), 2);
        images.store().unwrap();
        let restarted = RememberedImages::new(Some(directory.path()));
        assert_eq!(names_of(restarted.load(2, at(2))), ["others", "roots"]);
        restarted.requested("new", Some(CallerKey::User(1000)), at(3), 2);
        assert_eq!(names(&restarted), ["new", "roots"]);
    }

    #[test]
    fn the_same_answer_is_due_when_it_was() {
        let images = RememberedImages::new(None);
        images.requested("a", None, at(0), 10);
        assert!(images.answered("a", Some(at(1000)), AHEAD, at(0)));
        assert!(!images.answered("a", Some(at(1000)), AHEAD, at(920)), "it was asked for again");
        assert_eq!(due(&images, at(940)), ["a"], "not when half of the last 80 s are over");
        assert!(images.answered("a", Some(at(2000)), AHEAD, at(941)));
    }

    #[test]
    fn names_survive_a_restart_the_latest_first() {
        let directory = tempfile::tempdir().unwrap();
        let images = RememberedImages::new(Some(directory.path()));
        images.requested("old", None, at(0), 10);
        images.requested("new", None, at(5), 10);
        images.store().unwrap();
        images.store().unwrap();
        let restarted = RememberedImages::new(Some(directory.path()));
        assert_eq!(names_of(restarted.load(10, at(10))), ["new", "old"]);
        assert_eq!(
            names_of(RememberedImages::new(Some(directory.path())).load(1, at(10))),
            ["new"]
        );
        let later = RememberedImages::new(Some(directory.path()));
        assert_eq!(names_of(later.load(10, at(10) + FORGET_AFTER)), [""; 0]);
    }

    #[test]
    fn a_broken_file_means_a_cold_start() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), "{").unwrap();
        let images = RememberedImages::new(Some(directory.path()));
        assert!(images.load(10, at(0)).is_empty());
    }
}
