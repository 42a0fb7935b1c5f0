//! Processes that can only be had with rights: with another user id, in namespaces, and with a chosen process id.

mod full_disk;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
    time::Duration,
};

use keyfob_caller::{AttestError, CallerPlace, ContainerEvidence};
use keyfob_testkit::raise_file_limit;
use rustix::process::getpid;
use tokio::time::timeout;

use super::{
    Door, attest, both_ways, exited_before_accept, is_gone, is_on_the_host,
    puppet::{Puppet, command},
    rig::{APP, AgentFile, Rig},
    whole_agent::{Attack, request, run},
};

#[test]
#[ignore = "needs root: .ci/run attestation"]
fn a_process_that_changes_its_user_or_group_is_refused() {
    let door = Door::new();
    let mut puppet = Puppet::start();
    puppet.connect(&door.path());
    let (_stream, peer) = door.accept();
    let peers = both_ways(peer);

    puppet.order("setegid 65534");
    for peer in &peers {
        let AttestError::GidChanged { connected: 0, now } = attest(peer).unwrap_err() else {
            panic!("{peer:?}");
        };
        assert_eq!(now, [0, 65534, 0, 65534]);
    }
    puppet.order("setegid 0");
    for peer in &peers {
        attest(peer).unwrap();
    }
    puppet.order("setuid 65534");
    for peer in &peers {
        let AttestError::UidChanged { connected: 0, now } = attest(peer).unwrap_err() else {
            panic!("{peer:?}");
        };
        assert_eq!(now, [65534; 4]);
    }
}

#[test]
#[ignore = "needs root: .ci/run attestation"]
fn a_process_that_changes_its_user_while_its_plugin_runs_gets_nothing() {
    run(async {
        let mut attack = Attack::new().await;
        let held = attack.ask().await;
        attack.puppet.order("setuid 65534");
        attack.puppet.order("receive");
        drop(held);
        attack.ends_with_a_refusal("the process connected as user 0, and now has").await;
    });
}

#[test]
#[ignore = "needs root: .ci/run attestation"]
fn a_process_that_changes_its_user_before_it_asks_gets_nothing() {
    run(async {
        let mut attack = Attack::new().await;
        attack.puppet.order("setuid 65534");
        attack.puppet.order(&format!("send {}", request()));
        attack.puppet.order("receive");
        attack.ends_with_a_refusal("the process connected as user 0, and now has").await;
    });
}

#[test]
#[ignore = "needs root: .ci/run attestation"]
fn a_thousand_idle_connections_of_another_user_do_not_keep_root_out() {
    // Those of the other user are in a process of its own, with the same limit.
    let files = raise_file_limit();
    assert!(files >= 1500, "this needs 1500 open files, and {files} are allowed: ulimit -Hn");
    run(async {
        let rig = Rig::new();
        let limits = "{connections: 64}".into();
        rig.write(&AgentFile { limits, ..AgentFile::default() });
        fs::set_permissions(rig.path(""), Permissions::from_mode(0o711)).unwrap();
        let agent = rig.start();
        let mut other = Puppet::start();
        other.order("setuid 65534");
        for number in 1..=1000 {
            other.connect(&agent.socket.path);
            if number % 100 == 0 {
                let users = timeout(Duration::from_secs(30), agent.users(APP)).await;
                assert_eq!(users.expect("root is not kept waiting"), ["ada"]);
            }
        }
        let held = fs::read_dir(format!("/proc/{}/fd", other.id())).unwrap();
        let is_socket = |link: &std::path::PathBuf| link.to_string_lossy().starts_with("socket:");
        let held = held.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        assert_eq!(held.filter(is_socket).count(), 1000);
        rig.finish(agent).await;
    });
}

#[test]
#[ignore = "needs root or user namespaces: .ci/run attestation"]
fn a_process_in_other_namespaces_is_not_on_the_host() {
    let user = ["--user", "--map-root-user"];
    let pid = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    for (options, expected) in
        [(&user[..], ContainerEvidence::UserNamespace), (&pid[..], ContainerEvidence::PidNamespace)]
    {
        let door = Door::new();
        let mut puppet = Puppet::start_in_namespaces(options);
        puppet.connect(&door.path());
        let (_stream, peer) = door.accept();
        let caller = attest(&peer).unwrap();
        let CallerPlace::Container { id: None, pod_uid: None, evidence, .. } = caller.place else {
            panic!("{caller:?}");
        };
        assert_eq!(evidence, expected);
    }
}

#[test]
#[ignore = "needs root or user namespaces: .ci/run attestation"]
fn a_process_that_gets_the_id_of_another_is_not_taken_for_it() {
    in_namespaces("privileged::reuses_process_ids", REUSED);
}

#[test]
#[ignore = "needs root or user namespaces: .ci/run attestation"]
fn a_process_that_gets_the_id_of_another_gets_none_of_its_credentials() {
    in_namespaces("privileged::reuses_the_id_of_a_caller", REUSED);
}

/// Runs a test of this program as the init of a PID namespace, with mounts of its own, and makes sure that it has printed this: that it did
/// not end at once.
fn in_namespaces(test: &str, proof: &str) {
    let namespaces = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    let mut inside = command("unshare");
    inside.args(namespaces).args(["--mount-proc"]).arg(std::env::current_exe().unwrap());
    inside.args(["--exact", test, "--ignored", "--nocapture"]);
    let output = inside.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains(proof), "{printed}{complaint}");
}

const REUSED: &str = "process ids were reused";

/// Not a test of its own: outside of a new PID namespace it ends at once.
#[test]
#[ignore = "another test starts it by its name, in a PID namespace"]
fn reuses_process_ids() {
    if !getpid().is_init() {
        return;
    }
    let door = Door::new();
    let mut first = Puppet::start();
    first.connect(&door.path());
    let (_stream, peer) = door.accept();
    let id = first.id();
    let peers = both_ways(peer);
    for peer in &peers {
        is_on_the_host(&attest(peer).unwrap());
    }
    first.end();
    let second = start_with_id(id);
    assert!(fs::exists(format!("/proc/{id}/status")).unwrap());
    peers.iter().for_each(is_gone);

    // The same with one whose id is reused even before its connection is accepted.
    second.end();
    let mut third = start_with_id(id);
    third.connect(&door.path());
    third.end();
    let fourth = start_with_id(id);
    let (_stream, peer) = door.accept();
    assert_eq!((peer.pid(), fourth.id()), (id, id));
    exited_before_accept(&peer);
    println!("{REUSED}");
}

/// Not a test of its own: outside of a new PID namespace it ends at once.
#[test]
#[ignore = "another test starts it by its name, in a PID namespace"]
fn reuses_the_id_of_a_caller() {
    if !getpid().is_init() {
        return;
    }
    run(async {
        // It has left its connection to a child, and another process has its id.
        let mut attack = Attack::new().await;
        let id = attack.puppet.id();
        attack.puppet.tell("leave");
        attack.puppet.reap();
        let _second = start_with_id(id);
        attack.puppet.send_through_its_heir(&request());
        attack.ends_with_a_refusal("the process that opened the connection has exited").await;

        // The same while its plugin runs.
        let mut attack = Attack::new().await;
        let held = attack.ask().await;
        let id = attack.puppet.id();
        attack.puppet.tell("leave");
        attack.puppet.reap();
        let _second = start_with_id(id);
        drop(held);
        attack.ends_with_a_refusal("the process that opened the connection has exited").await;
    });
    println!("{REUSED}");
}

/// Starts a process that gets this id, because the kernel is told that it gave out the one before last.
fn start_with_id(id: i32) -> Puppet {
    fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string()).unwrap();
    let puppet = Puppet::start();
    assert_eq!(puppet.id(), id);
    puppet
}
