//! More open files for this process than for the programs that it runs.

use std::{io, sync::OnceLock};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// The limit before it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files to the hard one. Programs that [`ProcessRunner`](crate::ProcessRunner) runs keep the limit that
/// this process had: it is usually 1024, for programs that use `select` or close every possible descriptor at their start.
pub fn raise_file_limit() -> io::Result<()> {
    let original = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: original.maximum, ..original })?;
    // A second call finds the raised limit, which is not the original one.
    ORIGINAL.get_or_init(|| original);
    Ok(())
}

/// Gives a program that has just started the limit that this process had, if it was raised.
///
/// `posix_spawn` cannot set a limit, so the program has the raised one for the first moment, in which it is loaded.
pub(crate) fn restore_file_limit(pid: Pid) {
    let Some(original) = ORIGINAL.get() else { return };
    // A program that is already gone, or that has become another user's (setuid), is no reason to fail.
    if let Err(error) = prlimit(Some(pid), Resource::Nofile, *original) {
        tracing::debug!(%error, "a plugin keeps the raised limit of open files");
    }
}
