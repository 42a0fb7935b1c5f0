//! Puts plugins into a directory: links to keyfob under their names, each in one step.

use std::{
    env,
    ffi::OsStr,
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::relay::{PLUGIN, RELAY};

/// What the links lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program<'a> {
    /// The program that runs now.
    Keyfob,
    /// The relay.
    Relay(&'a Path),
}

impl Program<'_> {
    /// The name of a copy.
    fn name(self) -> &'static str {
        match self {
            Self::Keyfob => "keyfob",
            Self::Relay(_) => RELAY,
        }
    }

    /// Where it is.
    fn path(self) -> Result<PathBuf, InstallError> {
        match self {
            Self::Keyfob => env::current_exe().map_err(InstallError::Unknown),
            Self::Relay(path) => Ok(path.to_owned()),
        }
    }
}

/// Where the links lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The program, where it is.
    Link,
    /// A copy of it beside the links.
    Copy,
}

#[derive(Debug, Error)]
pub(super) enum InstallError {
    #[error("cannot tell where keyfob itself is")]
    Unknown(#[source] io::Error),
    #[error("cannot make {}", .0.display())]
    Unwritable(PathBuf, #[source] io::Error),
    #[error(
        "{} is there and is not keyfob's: move it away, or replace it with --force; nothing was changed",
        .0.display()
    )]
    InTheWay(PathBuf),
    #[error("{} is a directory: move it away; nothing was changed", .0.display())]
    Directory(PathBuf),
}

/// Where plugins are put, and how.
#[derive(Debug)]
pub(super) struct Installing<'a> {
    pub(super) directory: &'a Path,
    pub(super) program: Program<'a>,
    pub(super) way: Way,
    pub(super) force: bool,
}

impl Installing<'_> {
    /// Says what would be done; nothing is.
    pub(super) fn plan(
        &self,
        programs: impl Iterator<Item = &'static str> + Clone,
    ) -> Result<Vec<String>, InstallError> {
        let keyfob = self.check_all(programs.clone())?;
        let copy = match self.way {
            Way::Link => None,
            Way::Copy => {
                let copy = self.directory.join(self.program.name());
                Some(format!("{} would be a copy of {}", copy.display(), keyfob.display()))
            }
        };
        let target = self.target(&keyfob);
        let link = |program| {
            let path = self.directory.join(program);
            format!("{} would be a link to {}", path.display(), target.display())
        };
        Ok(copy.into_iter().chain(programs.map(link)).collect())
    }

    /// Puts these programs there, and says what was done.
    pub(super) fn install(
        &self,
        programs: impl Iterator<Item = &'static str> + Clone,
    ) -> Result<Vec<String>, InstallError> {
        let keyfob = self.check_all(programs.clone())?;
        self.make_directory()?;
        let mut done = Vec::new();
        if self.way == Way::Copy {
            done.extend(self.copy(&keyfob)?);
        }
        let target = self.target(&keyfob);
        for program in programs {
            let path = self.directory.join(program);
            self.put(&path, |draft| symlink(target, draft))?;
            done.push(format!("{} is a link to {}", path.display(), target.display()));
        }
        Ok(done)
    }

    /// Where keyfob is, if nothing is in the way.
    fn check_all(
        &self,
        programs: impl Iterator<Item = &'static str>,
    ) -> Result<PathBuf, InstallError> {
        let keyfob = self.program.path()?;
        for program in programs {
            self.check(&self.directory.join(program), &keyfob)?;
        }
        if self.way == Way::Copy && !self.has_a_copy(&keyfob) {
            self.check(&self.directory.join(self.program.name()), &keyfob)?;
        }
        Ok(keyfob)
    }

    /// Whether the file in the place of the copy is ours: the program that runs now, or what links of ours lead to.
    fn has_a_copy(&self, keyfob: &Path) -> bool {
        let place = self.directory.join(self.program.name());
        let is_this = place.canonicalize().is_ok_and(|place| place == keyfob);
        let leads_there = |program: &str| {
            let target = fs::read_link(self.directory.join(program));
            target.is_ok_and(|target| target == Path::new(self.program.name()) || target == place)
        };
        is_this
            || match self.program {
                Program::Keyfob => {
                    keyfob_providers::ALL.iter().any(|known| leads_there(known.program))
                }
                Program::Relay(_) => leads_there(PLUGIN),
            }
    }

    fn target<'a>(&self, keyfob: &'a Path) -> &'a Path {
        match self.way {
            Way::Link => keyfob,
            Way::Copy => Path::new(self.program.name()),
        }
    }

    /// Whether a place is free, or a link of ours, or may be taken anyway.
    fn check(&self, path: &Path, keyfob: &Path) -> Result<(), InstallError> {
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        let target = fs::read_link(path).unwrap_or_default();
        let names = [keyfob.file_name(), Some(OsStr::new(self.program.name()))];
        let is_ours = names.contains(&target.file_name());
        match is_ours || self.force {
            _ if found.is_dir() => Err(InstallError::Directory(path.into())),
            true => Ok(()),
            false => Err(InstallError::InTheWay(path.into())),
        }
    }

    fn make_directory(&self) -> Result<(), InstallError> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(self.directory);
        made.map_err(|error| InstallError::Unwritable(self.directory.into(), error))
    }

    /// Nothing is to be done when the program that runs is the copy; a link to it is no copy.
    fn copy(&self, keyfob: &Path) -> Result<Option<String>, InstallError> {
        let path = self.directory.join(self.program.name());
        let place =
            self.directory.canonicalize().map(|directory| directory.join(self.program.name()));
        if place.is_ok_and(|place| place == keyfob) {
            return Ok(None);
        }
        self.put(&path, |draft| {
            fs::copy(keyfob, draft)?;
            fs::set_permissions(draft, Permissions::from_mode(0o755))
        })?;
        Ok(Some(format!("{} is a copy of {}", path.display(), keyfob.display())))
    }

    /// Made under another name and then given its own, so that a kubelet never finds half of it, nor nothing.
    fn put(
        &self,
        path: &Path,
        make: impl FnMut(&Path) -> io::Result<()>,
    ) -> Result<(), InstallError> {
        let draft = tempfile::Builder::new().prefix(".keyfob-").make_in(self.directory, make);
        let put = draft.and_then(|draft| Ok(draft.into_temp_path().persist(path)?));
        put.map_err(|error| InstallError::Unwritable(path.into(), error))
    }
}
