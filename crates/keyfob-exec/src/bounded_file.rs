//! Reading a file that somebody else wrote: a regular one, and no larger than it should be.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use keyfob_api::Secret;
use rustix::fs::OFlags;

/// Reads a whole file of at most `limit` bytes. Neither a FIFO nor a device can make it wait.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Secret<Vec<u8>>> {
    // Opening a device may do something, so it is looked at before; and again after, since it may have been replaced.
    check(&fs::metadata(path)?, limit)?;
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    read_at_most(OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?, limit)
}

/// Reads the whole of an open regular file of at most `limit` bytes.
pub(crate) fn read_at_most(file: File, limit: u64) -> io::Result<Secret<Vec<u8>>> {
    let length = check(&file.metadata()?, limit)?;
    // Big enough from the start: growing would leave a copy of a secret behind.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 1);
    let outcome = file.take(limit + 1).read_to_end(&mut bytes);
    let bytes = Secret::new(bytes);
    if outcome? as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

fn check(metadata: &Metadata, limit: u64) -> io::Result<u64> {
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    if metadata.len() > limit { Err(too_large(limit)) } else { Ok(metadata.len()) }
}

fn too_large(limit: u64) -> io::Error {
    let reason = format!("it is larger than {} MiB", limit >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, reason)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_of_a_fair_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("fair"), [b'x'; 100]).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let reason = |name: &str, limit| read_bounded(&at(name), limit).unwrap_err().to_string();

        assert_eq!(read_bounded(&at("fair"), 100).unwrap().expose().len(), 100);
        assert_eq!(reason("fair", 99), "it is larger than 0 MiB");
        assert_eq!(reason("fifo", 99), "it is no regular file");
        assert_eq!(reason("", 99), "it is no regular file");
        assert_eq!(read_bounded(&at("none"), 99).unwrap_err().kind(), io::ErrorKind::NotFound);
        // Files of the kernel say that they are empty and are not.
        let endless = read_bounded(Path::new("/proc/self/smaps"), 1).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }
}
