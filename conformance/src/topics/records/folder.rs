//! The folder that records are in: what somebody put there, and what becomes of it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use keyfob_api::Timestamp;
use keyfob_exec::Clock as _;
use keyfob_testkit::ManualClock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::super::texts::Text;

/// What somebody put into the folder before.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct File {
    /// Where, below `image_manager`.
    pub(super) folder: String,
    /// What its name is made from, if there is one.
    pub(super) key: Option<String>,
    /// What follows that, or the whole name.
    pub(super) name: String,
    /// What stands in it; without it it is a folder.
    pub(super) content: Option<Text>,
}

/// Which process may write; a kubelet shares its folder with nobody.
const LOCK: &str = "image_manager/keyfob.lock";

/// So much time passes with every step.
const STEP: Duration = Duration::from_mins(1);

pub(super) struct Folder {
    root: TempDir,
    pub(super) clock: ManualClock,
    begun: SystemTime,
    files: BTreeMap<String, String>,
}

impl Folder {
    pub(super) fn new() -> Self {
        let clock = ManualClock::default();
        // In memory, if there is a place for that: every file is made durable.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let (root, begun) = (root.expect("a folder"), clock.now());
        Self { root, clock, begun, files: BTreeMap::new() }
    }

    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Puts files there, as if they had always been.
    pub(super) fn put(&mut self, files: &[File]) {
        for file in files {
            file.write(self.root.path());
        }
        self.files = self.look();
    }

    /// What is not as it was when it was last asked; and time passes.
    pub(super) fn changes(&mut self) -> Map<String, Value> {
        let now = self.look();
        let new = now.iter().filter(|(name, text)| self.files.get(*name) != Some(text));
        let new = new.map(|(name, text)| (name.clone(), Value::from(text.as_str())));
        let gone = self.files.keys().filter(|name| !now.contains_key(*name));
        let changed = new.chain(gone.map(|name| (name.clone(), Value::Null))).collect();
        self.files = now;
        self.clock.advance(STEP);
        changed
    }

    fn look(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        self.look_into(&self.path().join("image_manager"), &mut found);
        found
    }

    fn look_into(&self, path: &Path, found: &mut BTreeMap<String, String>) {
        let metadata = match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            metadata => metadata.expect("what can be looked at"),
        };
        let mode = metadata.permissions().mode() & 0o777;
        let name = path.strip_prefix(self.path()).expect("it is below").display().to_string();
        let text = if metadata.is_dir() {
            for entry in fs::read_dir(path).expect("a folder") {
                let entry = entry.expect("an entry").path();
                if !entry.ends_with(LOCK) {
                    self.look_into(&entry, found);
                }
            }
            "folder".to_owned()
        } else {
            self.without_time(&spelled_out(&fs::read(path).expect("a file")))
        };
        found.insert(name, format!("{mode:04o} {text}"));
    }

    /// The number of the step in the place of its time: upstream has no other clock than the system's.
    fn without_time(&self, text: &str) -> String {
        const FIELD: &str = r#""lastUpdatedTime":""#;
        let step = |text: &str| {
            let time = Timestamp::parse(text).ok()?.to_system_time()?;
            let since = time.duration_since(self.begun).ok()?;
            (time <= self.clock.now() && since.as_nanos() % STEP.as_nanos() == 0)
                .then(|| since.as_secs() / STEP.as_secs())
        };
        let mut parts = text.split(FIELD);
        let mut all = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (time, rest) = part.split_once('"').unwrap_or((part, ""));
            match step(time) {
                Some(step) => write!(all, "{FIELD}step {step}\"{rest}").expect("a string"),
                None => all.extend([FIELD, part]),
            }
        }
        all
    }
}

impl File {
    /// Whether what it holds, if it is an intent or a record, belongs under another name.
    pub(super) fn is_misnamed(&self) -> bool {
        let is_looked_at = (self.key.is_some() || self.name.starts_with("sha256-"))
            && self.name.strip_suffix(".tmp").is_none();
        let Some(content) = self.content.as_ref().filter(|_| is_looked_at) else { return false };
        let text = String::from_utf8_lossy(&content.to_bytes()).into_owned();
        let field = if self.folder == "pulled" { "imageRef" } else { "image" };
        let belongs = |key: &String| text.contains(&format!("\"{field}\":{}", json!(key)));
        !(self.name.is_empty() && self.key.as_ref().is_some_and(belongs))
    }

    pub(super) fn is_folder_for_a_file(&self) -> bool {
        self.content.is_none() && self.key.is_some() && self.name.is_empty()
    }

    fn write(&self, root: &Path) {
        let path = self.path(root);
        make_folder(path.parent().expect("it is in a folder"));
        // The last of the same name stays.
        if path.is_dir() {
            fs::remove_dir_all(&path).expect("a folder");
        } else {
            drop(fs::remove_file(&path));
        }
        let Some(content) = &self.content else { return make_folder(&path) };
        let file = fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
        file.expect("a new file").write_all(&content.to_bytes()).expect("a file");
    }

    fn path(&self, root: &Path) -> PathBuf {
        let hash = |key| format!("sha256-{}", hex::encode(Sha256::digest(key)));
        let hash = self.key.as_ref().map(hash);
        let name = hash.unwrap_or_default() + &self.name;
        root.join("image_manager").join(&self.folder).join(name)
    }
}

fn make_folder(path: &Path) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).expect("a folder");
}

/// Bytes as text: what is no plain letter is spelled out.
fn spelled_out(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b' '..=b'~' if *byte != b'\\' => text.push(char::from(*byte)),
            _ => write!(text, "\\x{byte:02x}").expect("a string"),
        }
    }
    text
}
