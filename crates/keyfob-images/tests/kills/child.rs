//! What a child does until it is killed.

use std::{io, path::Path, time::Duration};

use fastrand::Rng;
use keyfob_images::{PullRecords, RecordsError, RecordsOptions};

use crate::support::{by_secret, must_pull, with_secret};
use crate::world::{NAMES, World, resolve};

/// Not a test: without instructions it ends at once.
#[test]
#[ignore = "kills.rs starts it by its name, once for each kill, with --ignored; by itself it has nothing to pull"]
fn pulls_until_it_is_killed() {
    let mut lines = io::stdin().lines();
    let Some(Ok(root)) = lines.next() else { return };
    let mut number = || lines.next().unwrap().unwrap().parse::<u64>().unwrap();
    let (seed, began) = (number(), number());
    let world = World::join(Path::new(&root), Duration::from_nanos(began));
    let node = Node {
        records: PullRecords::open(world.root(), RecordsOptions::default(), world.clock()).unwrap(),
        world,
    };
    let mut random = Rng::with_seed(seed);
    step("ready");
    loop {
        node.recover();
        if random.u8(..6) == 0 {
            node.collect_garbage(&mut random);
        } else {
            node.ensure(NAMES[random.usize(..NAMES.len())], &mut random);
        }
    }
}

struct Node {
    world: World,
    records: PullRecords,
}

impl Node {
    fn recover(&self) {
        let abandoned = self.records.abandoned();
        if !abandoned.is_empty() {
            step("recover");
            self.records.recover(abandoned, &self.world.images().list());
        }
    }

    /// As an image manager does, for one of three pods that may have everything.
    fn ensure(&self, name: &str, random: &mut Rng) {
        let pod = ["a", "b", "c"][random.usize(..3)];
        let id = self.world.images().id_of(name).unwrap_or_default();
        // Some always pull.
        if random.bool() && !must_pull(&self.records, name, &id, &with_secret(pod, pod)) {
            return step("use");
        }
        match self.records.record_intent(name) {
            Ok(()) => {}
            Err(RecordsError::Abandoned { .. }) => return step("recover first"),
            Err(error) => panic!("{error:?}"),
        }
        step("intent");
        if random.u8(..8) == 0 {
            self.records.record_failed(name);
            return step("failure");
        }
        let id = resolve(name, random);
        self.world.change(|images| images.put(name, &id));
        step("image");
        self.records.record_pulled(name, &id, Some(&by_secret(pod, pod))).unwrap();
        step("record");
    }

    fn collect_garbage(&self, random: &mut Rng) {
        let started = self.world.clock().now();
        let present: Vec<String> = self.world.change(|images| {
            let ids: Vec<String> = images.tags.keys().cloned().collect();
            if let Some(id) = random.choice(&ids) {
                images.remove(id);
            }
            images.tags.keys().cloned().collect()
        });
        step("list");
        self.records.prune(&present, started);
        step("prune");
    }
}

/// The harness may have left a line unfinished.
#[expect(clippy::print_stdout, reason = "the parent listens")]
fn step(step: &str) {
    println!("\nstep: {step}");
}
