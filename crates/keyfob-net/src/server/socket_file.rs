//! An address in the file system.
//!
//! A socket is made in a directory that nobody else can enter, gets its permissions there, and then its name: nobody can connect to it
//! with others. A socket that a dead process left behind is replaced in one step. One that somebody listens on is replaced only by
//! [`SocketFile::take_over`], and anything that is no socket never.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use keyfob_exec::probe_socket;
use thiserror::Error;

/// The file of a unix socket that this process made. It is removed with this value, unless somebody else has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and number.
    inode: (u64, u64),
}

impl SocketFile {
    /// Makes a socket with these permissions (`0o600`) and listens on it. Its directory must exist.
    pub fn bind(path: &Path, mode: u32) -> Result<(Self, UnixListener), SocketFileError> {
        Self::make(path, mode, false)
    }

    /// The same, also in the place of a socket that somebody listens on: whoever connects from now on reaches this one. In between there
    /// is no moment without a socket. Whoever listened before goes on to serve the connections that were made before.
    pub fn take_over(path: &Path, mode: u32) -> Result<(Self, UnixListener), SocketFileError> {
        Self::make(path, mode, true)
    }

    fn make(
        path: &Path,
        mode: u32,
        takes_over: bool,
    ) -> Result<(Self, UnixListener), SocketFileError> {
        let failed = |source| SocketFileError::Unusable { path: path.into(), source };
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        // Only its owner can enter it.
        let private = tempfile::Builder::new().prefix(".").tempdir_in(directory).map_err(failed)?;
        let nameless = private.path().join("s");
        let listener = UnixListener::bind(&nameless).map_err(failed)?;
        fs::set_permissions(&nameless, Permissions::from_mode(mode)).map_err(failed)?;
        let inode = fs::symlink_metadata(&nameless).map_err(failed)?;
        let inode = (inode.dev(), inode.ino());

        if may_be_replaced(path, takes_over)? {
            fs::rename(&nameless, path).map_err(failed)?;
        } else {
            // This fails if something has got the name meanwhile.
            fs::hard_link(&nameless, path).map_err(failed)?;
        }
        Ok((Self { path: path.to_owned(), inode }, listener))
    }

    fn is_at(&self, path: &Path) -> bool {
        let metadata = fs::symlink_metadata(path);
        metadata.is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.inode)
    }

    fn remove(&self) -> io::Result<()> {
        if self.is_at(&self.path) { self.take_away() } else { Ok(()) }
    }

    /// Another process may take the place of the socket at any time. So what is there is renamed first, then looked at, and put back if it
    /// is the other's, unless there is a third one already.
    fn take_away(&self) -> io::Result<()> {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(format!(".{:x}-{:x}", self.inode.0, self.inode.1));
        let aside = PathBuf::from(aside);
        fs::rename(&self.path, &aside)?;
        if !self.is_at(&aside) {
            match fs::hard_link(&aside, &self.path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        fs::remove_file(aside)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::debug!(path = %self.path.display(), %error, "the socket stays behind");
        }
    }
}

/// Whether there is a socket that may be replaced, because nobody listens on it or because it is taken over; an error if there is anything
/// else.
fn may_be_replaced(path: &Path, takes_over: bool) -> Result<bool, SocketFileError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SocketFileError::Unusable { path: path.into(), source }),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(SocketFileError::NotASocket(path.into()))
        }
        Ok(_) if takes_over => Ok(true),
        Ok(_) => match probe_socket(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
            // Somebody listens, or it cannot be known that nobody does, for example because the permission to connect is missing.
            _ => Err(SocketFileError::InUse(path.into())),
        },
    }
}

/// Why there is no socket.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SocketFileError {
    /// Somebody listens there.
    #[error("another process listens on {}", .0.display())]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The system refuses.
    #[error("cannot listen on {}", path.display())]
    Unusable {
        /// The path of the socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use rustix::{
        io::Errno,
        net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
    };
    use std::{
        os::{fd::OwnedFd, unix::net::UnixStream},
        sync::mpsc,
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn a_socket_has_its_permissions_and_is_removed_with_its_value() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");

        let (file, _listener) = SocketFile::bind(&path, 0o640).unwrap();

        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let first = UnixListener::bind(&path).unwrap();
        assert!(matches!(SocketFile::bind(&path, 0o600), Err(SocketFileError::InUse(_))));
        drop(first);
        let (_file, _listener) = SocketFile::bind(&path, 0o600).unwrap();
        UnixStream::connect(&path).unwrap();

        let path = directory.path().join("file");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(SocketFile::bind(&path, 0o600), Err(SocketFileError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_socket_whose_queue_is_full_is_in_use_and_nobody_waits_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let (_listener, _queued) = full_listener(&path);
        let (report, reported) = mpsc::channel();
        let bind = {
            let path = path.clone();
            move || report.send((probe_socket(&path), SocketFile::bind(&path, 0o600)))
        };
        thread::spawn(bind);
        let (probed, bound) = reported.recv_timeout(Duration::from_secs(30)).unwrap();
        probed.unwrap();
        assert!(matches!(bound, Err(SocketFileError::InUse(_))), "{bound:?}");
        assert!(path.exists());
    }

    /// A listener that accepts nothing, with the connections that fill its queue.
    fn full_listener(path: &Path) -> (OwnedFd, Vec<OwnedFd>) {
        let address = SocketAddrUnix::new(path).unwrap();
        let socket = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
        };
        let listener = socket();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut queued = Vec::new();
        loop {
            let client = socket();
            match connect(&client, &address) {
                Ok(()) => queued.push(client),
                Err(errno) => {
                    assert_eq!(errno, Errno::AGAIN);
                    return (listener, queued);
                }
            }
        }
    }

    #[test]
    fn a_socket_that_is_taken_over_belongs_to_the_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let (old, old_listener) = SocketFile::bind(&path, 0o600).unwrap();
        let queued = UnixStream::connect(&path).unwrap();
        let (new, new_listener) = SocketFile::take_over(&path, 0o600).unwrap();
        drop(old_listener.accept().unwrap());
        drop(queued);
        let _connected = UnixStream::connect(&path).unwrap();
        drop(new_listener.accept().unwrap());
        drop(old);
        assert!(new.is_at(&path));
        drop(new);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

        fs::write(&path, "precious").unwrap();
        let refused = SocketFile::take_over(&path, 0o600);
        assert!(matches!(refused, Err(SocketFileError::NotASocket(_))));
    }

    /// Another process takes the path over between the look at it and its removal.
    #[test]
    fn a_socket_that_replaces_ours_just_now_is_put_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let (old, _old_listener) = SocketFile::bind(&path, 0o600).unwrap();
        let (new, _new_listener) = SocketFile::take_over(&path, 0o600).unwrap();
        old.take_away().unwrap();
        assert!(new.is_at(&path));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_socket_of_somebody_else_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let (file, _listener) = SocketFile::bind(&path, 0o600).unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();

        drop(file);

        assert!(path.exists());
    }
}
