//! Reading a held `/proc/PID` directory.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::{fd::BorrowedFd, unix::ffi::OsStringExt as _},
    path::PathBuf,
};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, makedev, openat, readlinkat, statx};

use super::{AttestError, cgroup::Cgroups};

/// A dozen hierarchies with the longest paths that Linux allows.
const CGROUP_LIMIT: u64 = 64 << 10;

/// What identifies a file, in whichever mount namespace it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A directory of `/proc`. Names are resolved relative to the open directory, never by the id of a process.
#[derive(Clone, Copy)]
pub(super) struct ProcDirectory<'fd>(BorrowedFd<'fd>);

impl<'fd> ProcDirectory<'fd> {
    pub(super) fn new(directory: BorrowedFd<'fd>) -> Self {
        Self(directory)
    }

    /// Identifies the file that a link leads to. The links of `/proc` lead to the file itself, so the text of the link and the
    /// mount namespace of the process do not matter.
    ///
    /// Without synchronisation: the file may be in a FUSE file system of the caller, which would be asked and need not answer.
    pub(super) fn file_id(self, link: &'static str) -> Result<FileId, AttestError> {
        let file = statx(self.0, link, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)
            .map_err(|error| unreadable(link, error))?;
        let device = makedev(file.stx_dev_major, file.stx_dev_minor);
        Ok(FileId { device, inode: file.stx_ino })
    }

    /// The text of a link: a path as the process itself sees it, only for people to read.
    pub(super) fn link(self, link: &'static str) -> Result<PathBuf, AttestError> {
        let target =
            readlinkat(self.0, link, Vec::new()).map_err(|error| unreadable(link, error))?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    pub(super) fn cgroups(self) -> Result<Cgroups, AttestError> {
        let text =
            self.read("cgroup", CGROUP_LIMIT).map_err(|error| unreadable("cgroup", error))?;
        Cgroups::parse(&text).ok_or_else(|| {
            let reason = "it is not a list of cgroups";
            unreadable("cgroup", io::Error::new(io::ErrorKind::InvalidData, reason))
        })
    }

    fn read(self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(self.0, name, flags, Mode::empty())?);
        let mut bytes = Vec::with_capacity(1 << 10);
        if file.take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }
}

fn unreadable(file: &'static str, error: impl Into<io::Error>) -> AttestError {
    AttestError::Unreadable { file, source: error.into() }
}
