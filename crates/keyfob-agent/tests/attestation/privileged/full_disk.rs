//! A disk that is full for a while, and its two files: the audit log and the names of images. It is a small tmpfs in a mount namespace.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use rustix::process::getpid;
use serde_json::Value;

use super::{
    super::{
        puppet::command,
        rig::{APP, AgentFile, Rig, RunningAgent, eventually},
    },
    in_namespaces,
};

const FILLED: &str = "the disk was full";

const WRITTEN: &str = "keyfob_agent_audit_events_written_total";
const LOST: &str = "keyfob_agent_audit_events_lost_total";

/// The log is rotated when it has little more than two pages.
const AUDIT: &str = "maxBytes: 8300, keep: 5";
const PAGE: u64 = 4096;

#[test]
#[ignore = "needs root or user namespaces: .ci/run attestation"]
fn a_full_disk_keeps_nobody_from_credentials_and_spoils_no_file() {
    in_namespaces("privileged::full_disk::fills_a_disk", FILLED);
}

/// Not a test of its own: outside of new namespaces it ends at once.
#[test]
#[ignore = "another test starts it by its name, in a mount namespace"]
fn fills_a_disk() {
    if !getpid().is_init() {
        return;
    }
    let rig = Rig::new();
    let disk = rig.path("state");
    mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &disk);
    let path = disk.join("audit.log");
    let audit = format!("{{to: file, path: {}, {AUDIT}}}", path.display());
    rig.write(&AgentFile { audit, ..AgentFile::default() });
    // On this thread, whose log is captured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fill_and_empty(&rig, &disk));
    drop(runtime);
    drop(fs::remove_file(disk.join("filler")));
    rig.check_leaks();
    assert!(command("umount").arg(&disk).status().unwrap().success());
    println!("{FILLED}");
}

async fn fill_and_empty(rig: &Rig, disk: &Path) {
    let filler = disk.join("filler");
    // The names of images are written at the end of an agent.
    let agent = rig.start();
    ask(&agent, APP, 1).await;
    agent.stop().await;
    assert_eq!(remembered(disk), [APP]);

    // The log grows to the end of its second page. Then it is rotated, and the new file stays empty.
    let agent = rig.start();
    while size(disk) < PAGE + PAGE / 2 {
        ask(&agent, APP, 1).await;
    }
    let (before, _) = counts(&agent).await;
    fill(&filler);
    ask(&agent, APP, 40).await;
    let (written, lost) = counts(&agent).await;
    assert!(lost > 0 && written > before, "{written} written, {lost} lost");
    assert_eq!((size(disk), written + lost), (0, before + 40));
    fs::remove_file(&filler).unwrap();
    ask(&agent, APP, 3).await;
    assert_eq!(counts(&agent).await, (written + 3, lost), "it goes on");

    // A line is torn at the end of the first page, and the log goes on in the same file.
    fill(&filler);
    ask(&agent, APP, 20).await;
    assert_eq!(size(disk), PAGE);
    fs::remove_file(&filler).unwrap();
    ask(&agent, APP, 3).await;
    let (written, more_lost) = counts(&agent).await;
    assert!(more_lost > lost && size(disk) > PAGE, "{more_lost} lost");

    // The names cannot be written, and the old ones stay.
    fill(&filler);
    let other = "registry.example/other";
    ask(&agent, other, 40).await;
    let lost_at_last = counts(&agent).await;
    agent.stop().await;
    assert!(rig.logs().contains("remembered images cannot be written"), "{}", rig.logs());
    assert_eq!(remembered(disk), [APP]);
    fs::remove_file(&filler).unwrap();
    assert!(lost_at_last.1 > more_lost && lost_at_last.0 >= written);
    check_lines(disk, lost_at_last.0 + 1);

    let agent = rig.start();
    ask(&agent, other, 1).await;
    agent.stop().await;
    assert_eq!(remembered(disk), [other, APP]);
}

/// Every event that counts as written is there, and each line that is not whole has a line of its own.
fn check_lines(disk: &Path, written: u64) {
    let (mut whole, mut torn) = (0, 0);
    for number in 0..=5 {
        let name = if number == 0 { "audit.log".into() } else { format!("audit.log.{number}") };
        let text = fs::read_to_string(disk.join(name)).unwrap_or_default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_str::<Value>(line) {
                Ok(event) => {
                    assert_eq!(event["outcome"], "allowed");
                    whole += 1;
                }
                Err(error) => {
                    assert!(error.is_eof(), "{line}");
                    torn += 1;
                }
            }
        }
    }
    assert_eq!(whole, written);
    // One for sure; whether there is one where the log is rotated depends on the length of a line.
    assert!((1..=3).contains(&torn), "{torn} lines are torn");
}

/// Credentials are given, and each request is counted when this returns.
async fn ask(agent: &RunningAgent, image: &str, times: u64) {
    let (written, lost) = counts(agent).await;
    for _ in 0..times {
        assert_eq!(agent.users(image).await, ["ada"]);
    }
    eventually("all events are counted", || async {
        let (now_written, now_lost) = counts(agent).await;
        now_written + now_lost == written + lost + times
    })
    .await;
}

async fn counts(agent: &RunningAgent) -> (u64, u64) {
    let (written, lost) = (agent.metric(WRITTEN).await, agent.metric(LOST).await);
    (written.parse().unwrap(), lost.parse().unwrap())
}

fn size(disk: &Path) -> u64 {
    fs::metadata(disk.join("audit.log")).unwrap().len()
}

fn remembered(disk: &Path) -> Vec<String> {
    let stored: Value =
        serde_json::from_slice(&fs::read(disk.join("images.json")).unwrap()).unwrap();
    let images = stored["images"].as_array().unwrap().iter();
    let mut names: Vec<_> = images.map(|each| each["image"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn fill(filler: &Path) {
    let mut file = File::create(filler).unwrap();
    let error = loop {
        if let Err(error) = file.write_all(&[0; 512]) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

fn mount(options: &[&str], at: &Path) {
    assert!(command("mount").args(options).arg(at).status().unwrap().success());
}
