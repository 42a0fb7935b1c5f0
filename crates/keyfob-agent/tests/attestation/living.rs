//! Real processes that any user may start.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
};

use keyfob_caller::Attestation;
use rustix::process::{Gid, getegid, geteuid, getgroups};

use super::{
    Door, attest, both_ways, exited_before_accept, is_gone, is_on_the_host, puppet::Puppet,
};

#[test]
fn the_own_process_is_attested() {
    let door = Door::new();
    let _connection = UnixStream::connect(door.path()).unwrap();
    let (_stream, peer) = door.accept();
    let has_pidfd = peer.pidfd().is_some();
    let [old, new] = both_ways(peer).map(|peer| attest(&peer).unwrap());
    assert_eq!(old.attested_by, Attestation::ProcDirectory);
    assert_eq!(new.attested_by == Attestation::PidFd, has_pidfd);
    let groups: Vec<u32> = getgroups().unwrap().into_iter().map(Gid::as_raw).collect();
    for caller in [old, new] {
        assert_eq!((caller.uid, caller.gid), (geteuid().as_raw(), getegid().as_raw()));
        assert_eq!(caller.groups, groups);
        assert_eq!(u32::try_from(caller.pid), Ok(std::process::id()));
        let program = std::env::current_exe().unwrap();
        assert!(caller.executable.is(&program) && !caller.executable.is(Path::new("/bin/sh")));
        assert_eq!(caller.executable.path, program.canonicalize().unwrap());
        is_on_the_host(&caller);
    }
}

#[test]
fn a_process_is_attested_while_it_lives_and_not_as_a_zombie() {
    let door = Door::new();
    let mut puppet = Puppet::start();
    puppet.connect(&door.path());
    let (stream, peer) = door.accept();
    assert_eq!(peer.pid(), puppet.id());
    let peers = both_ways(peer);
    for peer in &peers {
        is_on_the_host(&attest(peer).unwrap());
    }
    // A program that exits at once; nobody has reaped it yet.
    puppet.order("exec true");
    puppet.wait_until_it_exits();
    peers.iter().for_each(is_gone);
    puppet.end();
    peers.iter().for_each(is_gone);
    drop(stream);
}

#[test]
fn a_child_that_keeps_the_connection_of_its_parent_is_not_its_parent() {
    let door = Door::new();
    let mut parent = Puppet::start();
    parent.connect(&door.path());
    let (mut stream, peer) = door.accept();
    let peers = both_ways(peer);
    for peer in &peers {
        attest(peer).unwrap();
    }
    parent.tell("bequeath");
    parent.wait_until_it_exits();
    // The child is at the other end.
    stream.write_all(b"child").unwrap();
    let mut echo = [0; 5];
    stream.read_exact(&mut echo).unwrap();
    assert_eq!(echo, *b"child");
    peers.iter().for_each(is_gone);
    parent.end();
    peers.iter().for_each(is_gone);
}

#[test]
fn a_process_that_exits_before_its_connection_is_accepted_is_not_identified() {
    let door = Door::new();
    let mut gone = Puppet::start();
    gone.connect(&door.path());
    gone.end();
    exited_before_accept(&door.accept().1);

    let mut zombie = Puppet::start();
    zombie.connect(&door.path());
    zombie.tell("bequeath");
    zombie.wait_until_it_exits();
    let (_stream, peer) = door.accept();
    exited_before_accept(&peer);
}

#[test]
fn the_executable_is_the_one_that_runs_now() {
    let door = Door::new();
    let mut puppet = Puppet::start();
    puppet.connect(&door.path());
    let (_stream, peer) = door.accept();
    let before = attest(&peer).unwrap().executable;
    puppet.order("exec cat");
    puppet.tell("meow");
    puppet.expect("meow");
    let after = attest(&peer).unwrap().executable;
    assert!(before.is(&std::env::current_exe().unwrap()));
    assert_ne!((before.device, before.inode), (after.device, after.inode));
    assert!(after.is(&after.path) && !after.is(&before.path), "{after:?}");
}
