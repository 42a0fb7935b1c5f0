//! Who was given which answer.
//!
//! A client runs its plugin again only when what it got has expired, or when the server refused it, and does not say which.
//! So whoever was given an answer that is still good, and asks again, was refused. A table on disk remembers: each process
//! has its place by its number and leaves a hash there, of itself and the answer. It never grows; one that takes another's
//! place costs at most that one refusal goes unnoticed.

use std::{io, os::unix::fs::FileExt as _};

use sha2::{Digest as _, Sha256};

use super::{
    directory::PrivateDirectory,
    key::{CacheKey, FileKind},
    parent::AskerId,
};

const PLACES: u64 = 1024;
const LENGTH: usize = 16;

/// The askers of one key.
#[derive(Debug)]
pub(super) struct Askers<'a> {
    directory: &'a PrivateDirectory,
    name: String,
}

impl<'a> Askers<'a> {
    pub(super) fn new(directory: &'a PrivateDirectory, key: &CacheKey) -> Self {
        Self { directory, name: key.file(FileKind::Askers) }
    }

    /// Remembers that a process is given an answer; tells whether it was given it before.
    pub(super) fn give(&self, asker: AskerId, id: &str) -> io::Result<Given> {
        let file = self.directory.open_to_write(&self.name)?;
        let (place, mark) = (u64::from(asker.pid) % PLACES * LENGTH as u64, mark(asker, id));
        let mut found = [0; LENGTH];
        // A table that ends before the place has nothing there.
        if file.read_at(&mut found, place)? == LENGTH && found == mark {
            return Ok(Given::Again);
        }
        file.write_all_at(&mark, place)?;
        Ok(Given::First)
    }
}

/// Whether somebody got an answer before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    First,
    Again,
}

fn mark(asker: AskerId, id: &str) -> [u8; LENGTH] {
    let mut hash = Sha256::new();
    hash.update(asker.pid.to_le_bytes());
    hash.update(asker.started.to_le_bytes());
    hash.update(asker.file.to_le_bytes());
    hash.update(id);
    let hash: [u8; 32] = hash.finalize().into();
    let mut mark = [0; LENGTH];
    mark.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    mark
}

#[cfg(test)]
mod tests {
    use super::{super::key::KeyPart, *};

    #[test]
    fn who_asks_again_for_the_same_answer_is_noticed_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(&folder.path().join("cache")).unwrap();
        let key = CacheKey::new("plugin", &[], &[KeyPart::new("uid", "0")]);
        let askers = Askers::new(&directory, &key);
        let give = |pid, started, id| askers.give(AskerId { pid, started, file: 3 }, id).unwrap();

        assert_eq!(give(7, 1, "one"), Given::First);
        assert_eq!(give(8, 1, "one"), Given::First);
        assert_eq!(give(7, 1, "one"), Given::Again);
        assert_eq!(give(7, 2, "one"), Given::First, "another process with its number");
        assert_eq!(give(7, 2, "two"), Given::First, "another answer");
        assert_eq!(give(8, 1, "one"), Given::Again);
        assert_eq!(give(7 + 1024, 1, "two"), Given::First, "which takes the place of the other");
        assert_eq!(give(7, 2, "two"), Given::First);
        let replaced = AskerId { pid: 8, started: 1, file: 4 };
        assert_eq!(askers.give(replaced, "one").unwrap(), Given::First, "another program");
        for pid in 0..5_000 {
            give(pid, 9, "three");
        }
        let size = folder.path().join("cache").join(key.file(FileKind::Askers));
        assert_eq!(size.metadata().unwrap().len(), 16 << 10);
    }
}
