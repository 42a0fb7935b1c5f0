//! Callers that are who they are, and callers that try to be somebody else.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod fake_proc;
mod living;
#[path = "../agent/plugins.rs"]
#[expect(dead_code, reason = "the tests of a whole agent use more of it")]
mod plugins;
mod privileged;
mod puppet;
#[path = "../agent/rig.rs"]
#[expect(dead_code, reason = "the tests of a whole agent use more of it")]
mod rig;
mod whole_agent;

use std::{
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
};

use keyfob_caller::{AttestError, Caller, CallerPlace, HostReference};
use keyfob_exec::{PeerProcess, UnidentifiedPeer};
use tempfile::TempDir;

/// A socket at which processes connect.
struct Door {
    folder: TempDir,
    listener: UnixListener,
}

impl Door {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("agent.sock")).unwrap();
        Self { folder, listener }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    fn accept(&self) -> (UnixStream, PeerProcess) {
        let (stream, _) = self.listener.accept().unwrap();
        let peer = PeerProcess::of_connection(&stream).unwrap();
        (stream, peer)
    }
}

/// The process with the handles that every kernel has, and as this kernel identified it (since Linux 6.5 by a pidfd).
fn both_ways(peer: PeerProcess) -> [PeerProcess; 2] {
    let directory: OwnedFd = peer.proc_directory().unwrap().try_clone_to_owned().unwrap();
    [PeerProcess::from_parts(peer.uid(), peer.gid(), peer.pid(), None, directory), peer]
}

fn attest(peer: &PeerProcess) -> Result<Caller, AttestError> {
    Caller::attest(peer, &HostReference::of_agent().unwrap())
}

#[track_caller]
fn is_gone(peer: &PeerProcess) {
    let outcome = attest(peer);
    assert!(matches!(outcome, Err(AttestError::Gone)), "{peer:?}: {outcome:?}");
}

#[track_caller]
fn exited_before_accept(peer: &PeerProcess) {
    let outcome = attest(peer);
    let expected = matches!(outcome, Err(AttestError::Unidentified(UnidentifiedPeer::Exited)));
    assert!(expected, "{peer:?}: {outcome:?}");
}

#[track_caller]
fn is_on_the_host(caller: &Caller) {
    assert!(matches!(caller.place, CallerPlace::Host { .. }), "{caller:?}");
}
