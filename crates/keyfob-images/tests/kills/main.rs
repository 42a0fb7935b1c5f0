//! Processes that pull are killed at any moment, and nobody is let in who did not prove access.
//!
//! The children are this program itself. They pull images "into" a file that says which names mean which images, as a runtime
//! would know it, and tell each step, so that the parent can kill them after any of them, or a little later.
//!
//! A program of its own: a child that is being started has, for a moment, whatever its parent has open, and the locks that tests
//! in other threads have just let go of.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so do its helpers"
)]

mod child;
#[expect(dead_code, reason = "the tests of records use more of it")]
#[path = "../records/support.rs"]
mod support;
mod world;

use std::{
    hint,
    io::{BufRead as _, BufReader, Read, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use fastrand::Rng;
use keyfob_images::{PullRecords, RecordsOptions};

use self::world::{PRELOADED, World};
use crate::support::{must_pull, quick_folder, stranger, with_secret};

#[test]
fn a_process_that_is_killed_at_any_moment_lets_nobody_in() {
    let (folder, mut random) = (quick_folder(), Rng::with_seed(7));
    let world = World::new(folder.path());
    let mut halfway = 0;
    for _ in 0..200 {
        let mut puller = Puller::start(&world, random.u64(..));
        puller.wait_for_steps(random.usize(..16));
        loiter(&mut random);
        puller.kill();

        let records = open(&world);
        world.check(&records, "before anybody looked");
        halfway += usize::from(!records.abandoned().is_empty());
        recover(&world, &records);
        world.check(&records, "after");
        assert_files_are_whole(&records);
    }
    assert!(halfway > 0, "no process was killed in the middle of a pull");
}

#[test]
fn two_processes_at_once_let_nobody_in_whichever_dies() {
    let (folder, mut random) = (quick_folder(), Rng::with_seed(11));
    let world = World::new(folder.path());
    for _ in 0..60 {
        let mut pullers = [0, 1].map(|_| Puller::start(&world, random.u64(..)));
        let records = open(&world);
        for puller in &mut pullers {
            puller.wait_for_steps(random.usize(..8));
            world.check(&records, "while both pull");
        }
        random.shuffle(&mut pullers);
        let [mut first, mut second] = pullers;
        first.kill();
        recover(&world, &records);
        world.check(&records, "while one pulls");
        second.wait_for_steps(random.usize(..8));
        loiter(&mut random);
        second.kill();
        recover(&world, &records);
        world.check(&records, "when both are dead");
        assert_files_are_whole(&records);
    }
}

fn open(world: &World) -> PullRecords {
    PullRecords::open(world.root(), RecordsOptions::default(), world.clock()).unwrap()
}

fn recover(world: &World, records: &PullRecords) {
    let abandoned = records.abandoned();
    if !abandoned.is_empty() {
        records.recover(abandoned, &world.images().list());
    }
}

impl World {
    /// A stranger is let into nothing that was pulled; who is recorded is; and what was always here is everybody's.
    fn check(&self, records: &PullRecords, when: &str) {
        let before = self.images();
        for (name, id) in before.names() {
            assert!(
                must_pull(records, &name, &id, &stranger())
                    // What was removed in the meantime is nobody's business.
                    || self.images().removals != before.removals,
                "a stranger is let into {name} ({id}) {when}: {:?}",
                records.intents()
            );
        }
        assert!(!must_pull(records, PRELOADED, "preloaded", &stranger()), "{when}");
    }
}

/// Every file can be read, and lets in whom it names.
fn assert_files_are_whole(records: &PullRecords) {
    let ((_, broken_intents), (all, broken_records)) = (records.intents(), records.records());
    assert!(broken_intents.is_empty(), "{broken_intents:?}");
    assert!(broken_records.is_empty(), "{broken_records:?}");
    for record in all {
        for (name, access) in &record.credential_mapping {
            for secret in &access.secrets {
                let pod = with_secret(&secret.secret.name, &secret.credential_hash);
                assert!(!must_pull(records, name, &record.image_ref, &pod), "{name}");
            }
        }
    }
}

/// A little while that nobody measures.
fn loiter(random: &mut Rng) {
    for _ in 0..random.u32(..20_000) {
        hint::spin_loop();
    }
}

/// A child that pulls until it is killed.
struct Puller {
    process: Child,
    steps: BufReader<ChildStdout>,
}

impl Puller {
    fn start(world: &World, seed: u64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "a test starts itself")]
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut process = command
            .args(["--exact", "child::pulls_until_it_is_killed", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        writeln!(stdin, "{}\n{seed}\n{}", world.root().display(), world.began()).unwrap();
        let steps = BufReader::new(process.stdout.take().unwrap());
        let mut puller = Self { process, steps };
        puller.wait_for_steps(1);
        puller
    }

    fn wait_for_steps(&mut self, steps: usize) {
        for _ in 0..steps {
            let mut line = String::new();
            while !line.starts_with("step") {
                line.clear();
                assert_ne!(self.steps.read_line(&mut line).unwrap(), 0, "the child ended");
            }
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // It was killed, and did not fail before.
        let mut rest = String::new();
        self.steps.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("panicked") && !rest.contains("FAILED"), "{rest}");
    }
}

impl Drop for Puller {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
