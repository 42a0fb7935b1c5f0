//! Which answers are the same: a hash over everything that decides who a plugin logs in.

use std::ffi::OsString;

use keyfob_api::Secret;
use sha2::{Digest as _, Sha256};

/// One thing that makes an answer another one's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyPart {
    /// What it is: `program`, `argument 1`, `variable AWS_PROFILE`.
    pub name: String,
    /// What it is now. It may be a secret.
    pub value: Secret<Vec<u8>>,
}

impl KeyPart {
    pub(super) fn new(name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), value: Secret::new(value.into()) }
    }

    /// Enough of its hash to see whether two are the same, and too little to find out what it is.
    pub fn mark(&self) -> String {
        digest(std::slice::from_ref(self)).chars().take(4).collect()
    }
}

/// The name of an answer among the files: which command it is of, and then the whole key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheKey(String);

impl CacheKey {
    pub(super) fn new(command: &str, args: &[OsString], parts: &[KeyPart]) -> Self {
        Self(format!("{}-{}", group(command, args), digest(parts)))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn file(&self, kind: FileKind) -> String {
        format!("{}.{}", self.0, kind.extension())
    }

    /// The key that a file is of.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let (key, extension) = name.rsplit_once('.')?;
        let known = FileKind::ALL.iter().any(|kind| kind.extension() == extension);
        let is_hash = |c: char| c.is_ascii_hexdigit() || c == '-';
        (known && key.len() == GROUP + 1 + 64 && key.chars().all(is_hash))
            .then(|| Self(key.to_owned()))
    }

    /// Whether it is of this command with these arguments, whatever else is in it.
    pub(super) fn is_of(&self, command: &str, args: &[OsString]) -> bool {
        self.0.starts_with(&group(command, args))
    }
}

/// What is kept about one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Entry,
    Askers,
    Lock,
}

impl FileKind {
    pub(super) const ALL: [Self; 3] = [Self::Entry, Self::Askers, Self::Lock];

    fn extension(self) -> &'static str {
        match self {
            Self::Entry => "json",
            Self::Askers => "askers",
            Self::Lock => "lock",
        }
    }
}

/// How much of its hash tells one command from another.
const GROUP: usize = 16;

/// As they are written, so that `--clear` finds them from any shell.
fn group(command: &str, args: &[OsString]) -> String {
    let words = args.iter().map(|arg| KeyPart::new("", arg.as_encoded_bytes()));
    let words: Vec<_> = std::iter::once(KeyPart::new("", command)).chain(words).collect();
    digest(&words).chars().take(GROUP).collect()
}

/// Each text with its length before it, so that none runs into the next.
fn digest(parts: &[KeyPart]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        for text in [part.name.as_bytes(), part.value.expose().as_slice()] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_runs_into_the_next() {
        let rows = [
            vec![KeyPart::new("a", "bc"), KeyPart::new("d", "")],
            vec![KeyPart::new("ab", "c"), KeyPart::new("d", "")],
            vec![KeyPart::new("a", "b"), KeyPart::new("cd", "")],
            vec![KeyPart::new("a", "bcd")],
        ];
        for (at, row) in rows.iter().enumerate() {
            for other in rows.iter().skip(at + 1) {
                assert_ne!(digest(row), digest(other));
            }
        }
    }

    #[test]
    fn a_key_knows_its_command_and_its_files() {
        let args = ["get-token".into(), "--cluster".into()];
        let key = CacheKey::new("aws", &args, &[KeyPart::new("uid", "0")]);
        for kind in FileKind::ALL {
            assert_eq!(CacheKey::of_file(&key.file(kind)).as_ref(), Some(&key));
        }
        assert!(key.is_of("aws", &args));
        assert!(!key.is_of("aws", &args[..1]) && !key.is_of("/usr/bin/aws", &args));
        for other in ["README.json", "x.tmp", &format!("{}.txt", key.as_str())] {
            assert_eq!(CacheKey::of_file(other), None, "{other}");
        }
    }

    #[test]
    fn a_mark_tells_two_values_apart_and_neither() {
        let [one, two] = ["hunter2", "hunter3"].map(|value| KeyPart::new("n", value).mark());
        assert_ne!(one, two);
        assert_eq!(one.len(), 4);
    }
}
