//! Which images there are in a registry, and on a node.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use fastrand::Rng;
use keyfob_exec::{Clock, SystemClock};
use keyfob_images::LocalImage;

/// What pods name. Two are of one repository; one is written in two ways.
pub(crate) const NAMES: [&str; 4] =
    ["r.test/team/app:v1", "r.test/team/app:v2", "redis:7", "docker.io/library/redis:7"];

/// It is everybody's.
pub(crate) const PRELOADED: &str = "r.test/preloaded:v1";

/// Which image a registry has under a name just now: tags move all the time.
pub(crate) fn resolve(name: &str, random: &mut Rng) -> String {
    let name = in_full(name);
    let (repository, _) = name.rsplit_once(':').unwrap();
    format!("{repository}#{}", random.u8(..4))
}

/// A directory with records and images.
#[derive(Debug)]
pub(crate) struct World {
    root: PathBuf,
    began: Duration,
}

impl World {
    pub(crate) fn new(root: &Path) -> Self {
        let began = SystemClock.now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Self::join(root, began)
    }

    /// The same, in another process.
    pub(crate) fn join(root: &Path, began: Duration) -> Self {
        Self { root: root.to_owned(), began }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn began(&self) -> u128 {
        self.began.as_nanos()
    }

    /// A second passes in a millisecond, so that records age.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(QuickClock(self.began))
    }

    pub(crate) fn images(&self) -> Images {
        Images::read(&self.root.join("images"))
    }

    /// Changes what is on the node, all at once.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Images) -> T) -> T {
        let lock = File::create(self.root.join("images.lock")).unwrap();
        lock.lock().unwrap();
        let mut images = self.images();
        let outcome = change(&mut images);
        replace(&self.root.join("images"), &images.text());
        outcome
    }
}

#[derive(Debug)]
struct QuickClock(Duration);

impl Clock for QuickClock {
    fn now(&self) -> SystemTime {
        let since = SystemClock.now().duration_since(SystemTime::UNIX_EPOCH + self.0).unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000) + since * 1_000
    }
}

/// The images of a node.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// Each with its tags.
    pub(crate) tags: BTreeMap<String, Vec<String>>,
    /// How often some were removed.
    pub(crate) removals: u64,
}

impl Images {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut images = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ').map(str::to_owned);
            match words.next().unwrap().as_str() {
                "removals" => images.removals = words.next().unwrap().parse().unwrap(),
                id => drop(images.tags.insert(id.to_owned(), words.collect())),
            }
        }
        images
    }

    fn text(&self) -> String {
        let mut text = format!("removals {}\n", self.removals);
        for (id, tags) in &self.tags {
            writeln!(text, "{}", [vec![id.clone()], tags.clone()].concat().join(" ")).unwrap();
        }
        text
    }

    /// An image comes, and takes its tag from the one that had it.
    pub(crate) fn put(&mut self, name: &str, id: &str) {
        let name = in_full(name);
        for tags in self.tags.values_mut() {
            tags.retain(|tag| *tag != name);
        }
        self.tags.entry(id.to_owned()).or_default().push(name);
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.tags.remove(id);
        self.removals += 1;
    }

    pub(crate) fn id_of(&self, name: &str) -> Option<String> {
        let name = in_full(name);
        let tagged = self.tags.iter().find(|(_, tags)| tags.contains(&name));
        tagged.map(|(id, _)| id.clone())
    }

    /// Everything that a pod could write, and what it would get.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        let mut names = Vec::new();
        for (id, tags) in &self.tags {
            for name in tags.iter().cloned().chain([digest_name(id)]) {
                let short = name.strip_prefix("docker.io/library/").unwrap_or(&name).to_owned();
                names.extend([(short, id.clone()), (name, id.clone())]);
            }
        }
        names
    }

    /// As a runtime lists them.
    pub(crate) fn list(&self) -> Vec<LocalImage> {
        let image = |(id, tags): (&String, &Vec<String>)| LocalImage {
            id: id.clone(),
            repo_tags: tags.clone(),
            repo_digests: vec![digest_name(id)],
        };
        self.tags.iter().map(image).collect()
    }
}

fn in_full(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("docker.io/library/{name}") }
}

fn digest_name(id: &str) -> String {
    let (repository, version) = id.split_once('#').unwrap();
    format!("{repository}@sha256:{}", version.repeat(64))
}

fn replace(path: &Path, text: &str) {
    let unfinished = path.with_extension(format!("{}", std::process::id()));
    fs::write(&unfinished, text).unwrap();
    fs::rename(unfinished, path).unwrap();
}
