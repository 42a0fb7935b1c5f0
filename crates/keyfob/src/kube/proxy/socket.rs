//! An address in the file system that only its owner can open.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use tokio::net::UnixListener;

/// The file of a socket, which is gone with the value.
pub(super) struct SocketFile {
    path: PathBuf,
}

impl SocketFile {
    /// Makes the file and listens there. One that was left by a proxy that died is replaced; anything else that is there is left alone.
    pub(super) fn listen(path: &Path) -> io::Result<(Self, UnixListener)> {
        let listener = listen(path).map_err(|error| {
            let why = format!(
                "cannot listen at {}: {error}; choose another path with --unix-socket",
                path.display()
            );
            io::Error::new(error.kind(), why)
        })?;
        Ok((Self { path: path.to_owned() }, listener))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

/// It gets its name when nobody else can open it any more, and only if nothing has that name.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let is_left_over = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
        && UnixStream::connect(path).is_err();
    if is_left_over {
        fs::remove_file(path)?;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Only its owner can enter it.
    let private =
        tempfile::Builder::new().prefix(".").tempdir_in(folder.unwrap_or(Path::new(".")))?;
    let nameless = private.path().join("s");
    let listener = UnixListener::bind(&nameless)?;
    fs::set_permissions(&nameless, Permissions::from_mode(0o600))?;
    fs::hard_link(&nameless, path)?;
    Ok(listener)
}
