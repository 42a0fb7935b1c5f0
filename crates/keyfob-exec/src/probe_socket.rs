//! Whether somebody listens on a unix socket.

use std::{io, path::Path};

use rustix::{
    io::{Errno, retry_on_intr},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};

/// Checks whether somebody listens on a unix socket, without waiting; an error tells why nobody can be reached.
///
/// A process whose queue of connections is full listens too: it is stopped or busy. A blocking `connect` would wait for it without
/// limit.
pub fn probe_socket(path: &Path) -> io::Result<()> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match retry_on_intr(|| connect(&socket, &address)) {
        Ok(()) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
