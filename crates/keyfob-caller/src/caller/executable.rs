//! The program that a process runs.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::FileId;

/// The program that a process runs, identified by its file and not by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Executable {
    /// Its path as the process itself sees it, with ` (deleted)` behind it if the file was deleted or replaced. Only for people
    /// to read: in a container any program can be at any path.
    pub path: PathBuf,
    /// The device that its file is on.
    pub device: u64,
    /// The inode of its file.
    pub inode: u64,
}

impl Executable {
    pub(super) fn new(path: PathBuf, FileId { device, inode }: FileId) -> Self {
        Self { path, device, inode }
    }

    /// The program at a path, as the server sees it.
    pub(crate) fn of_file(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        let id = FileId { device: file.dev(), inode: file.ino() };
        Ok(Self::new(path.to_owned(), id))
    }

    /// Whether the file at a path, as the server sees it, is the one that the process runs. Links are followed. After the file was
    /// replaced by an upgrade, processes that were started before no longer match.
    pub fn is(&self, path: &Path) -> bool {
        Self::of_file(path).is_ok_and(|file| (file.device, file.inode) == (self.device, self.inode))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_is_its_file_and_not_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("program"), "old").unwrap();
        fs::hard_link(at("program"), at("same")).unwrap();
        symlink("program", at("link")).unwrap();
        fs::write(at("copy"), "old").unwrap();
        let program = Executable::of_file(&at("program")).unwrap();
        assert!(program.is(&at("program")) && program.is(&at("same")) && program.is(&at("link")));
        assert!(!program.is(&at("copy")) && !program.is(&at("missing")));

        // The file still exists at its other name, so its inode is not given to the new one.
        fs::rename(at("copy"), at("program")).unwrap();
        assert!(!program.is(&at("program")) && !program.is(&at("link")) && program.is(&at("same")));
    }
}
