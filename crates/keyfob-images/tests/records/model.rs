//! Any sequence of events in three processes, beside a model that fits on a page.

mod expected;

use keyfob_exec::Clock as _;
use keyfob_images::{LocalImage, PullRecords};
use proptest::prelude::*;

use self::expected::{Model, digest, id, repository};
use crate::support::{Node, by_secret, must_pull, stranger, with_secret};

const PROCESSES: usize = 3;
const NAMES: [&str; 3] = ["r.test/app:v1", "r.test/app:v2", "redis:7"];
const PODS: [&str; 2] = ["one", "two"];

#[derive(Clone, Debug)]
enum Event {
    /// A process says that it will pull.
    Begin(usize, usize),
    /// The image of one of the pulls in flight comes; the registry has two of each repository.
    Arrive(usize, u8),
    /// One whose image came is recorded, for a pod.
    Succeed(usize, usize),
    /// One whose image did not come has failed.
    Fail(usize),
    /// The process dies; another one starts.
    Die(usize),
    Recover(usize),
    /// Somebody else brings an image.
    Preload(usize, u8),
    /// An image goes, and its record with it.
    Collect(usize, usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let (process, name, version) = (0..PROCESSES, 0..NAMES.len(), 0..2_u8);
    let any = any::<usize>;
    let event = prop_oneof![
        4 => (process.clone(), name.clone()).prop_map(|(p, n)| Event::Begin(p, n)),
        4 => (any(), version.clone()).prop_map(|(pull, v)| Event::Arrive(pull, v)),
        4 => (any(), 0..PODS.len()).prop_map(|(pull, pod)| Event::Succeed(pull, pod)),
        1 => any().prop_map(Event::Fail),
        2 => process.clone().prop_map(Event::Die),
        2 => process.clone().prop_map(Event::Recover),
        1 => (name.clone(), version).prop_map(|(n, v)| Event::Preload(n, v)),
        1 => (process, name).prop_map(|(p, n)| Event::Collect(p, n)),
    ];
    prop::collection::vec(event, 1..30)
}

/// The real thing and the model, side by side.
struct Both {
    node: Node,
    processes: Vec<PullRecords>,
    model: Model,
}

impl Both {
    fn new() -> Self {
        let node = Node::new();
        let processes = (0..PROCESSES).map(|_| node.open()).collect();
        Self { node, processes, model: Model::default() }
    }

    fn happen(&mut self, event: &Event) {
        self.node.clock.advance(std::time::Duration::from_secs(1));
        match *event {
            Event::Begin(process, name) => {
                let began = self.processes[process].record_intent(NAMES[name]);
                let expected = self.model.begin(process, NAMES[name]);
                assert_eq!(began.is_ok(), expected.is_ok(), "{began:?}");
            }
            Event::Arrive(any, version) => {
                let Some(pull) = self.model.pull(any, false) else { return };
                let (_, name, _) = self.model.in_flight[pull];
                let id = id(name, version);
                self.model.put(name, &id, false);
                self.model.in_flight[pull].2 = Some(id);
            }
            Event::Succeed(any, pod) => {
                let Some(pull) = self.model.pull(any, true) else { return };
                let (process, name, id) = self.model.end(pull);
                let (id, access) = (id.unwrap(), by_secret(PODS[pod], PODS[pod]));
                self.processes[process].record_pulled(name, &id, Some(&access)).unwrap();
                let known = (repository(name).to_owned(), PODS[pod]);
                self.model.records.entry(id).or_default().insert(known);
            }
            Event::Fail(any) => {
                let Some(pull) = self.model.pull(any, false) else { return };
                let (process, name, _) = self.model.end(pull);
                self.processes[process].record_failed(name);
            }
            Event::Die(process) => {
                self.model.in_flight.retain(|(puller, ..)| *puller != process);
                self.model.intents.values_mut().for_each(|intent| {
                    intent.looked.remove(&process);
                });
                // First it dies, then another starts.
                drop(self.processes.remove(process));
                self.processes.insert(process, self.node.open());
            }
            Event::Recover(process) => {
                let records = &self.processes[process];
                let abandoned = records.abandoned();
                records.recover(abandoned, &self.list());
                self.model.recover(process);
            }
            Event::Preload(name, version) => {
                let id = id(NAMES[name], version);
                if !self.model.tags.contains_key(NAMES[name])
                    && !self.model.images.contains_key(&id)
                {
                    self.model.put(NAMES[name], &id, true);
                }
            }
            Event::Collect(process, name) => self.collect(process, NAMES[name]),
        }
    }

    /// Not an image that a pull in flight has brought: who pulls an image has it until it is recorded.
    fn collect(&mut self, process: usize, name: &str) {
        let Some(gone) = self.model.tags.get(name).cloned() else { return };
        let is_in_flight = |(_, _, id): &(usize, &str, Option<String>)| id.as_ref() == Some(&gone);
        if self.model.in_flight.iter().any(is_in_flight) {
            return;
        }
        self.model.tags.retain(|_, id| *id != gone);
        self.model.images.remove(&gone);
        let present: Vec<String> = self.model.images.keys().cloned().collect();
        self.processes[process].prune(&present, self.node.clock.now());
        self.model.records.retain(|id, _| self.model.images.contains_key(id));
    }

    fn list(&self) -> Vec<LocalImage> {
        let image = |id: &String| LocalImage {
            id: id.clone(),
            repo_tags: self
                .model
                .tags
                .iter()
                .filter(|(_, tagged)| *tagged == id)
                .map(|(tag, _)| (*tag).to_owned())
                .collect(),
            repo_digests: vec![digest(id)],
        };
        self.model.images.keys().map(image).collect()
    }

    fn agree(&self) {
        let tags = self.model.tags.iter().map(|(name, id)| ((*name).to_owned(), id));
        let digests = self.model.images.keys().map(|id| (digest(id), id));
        for (name, id) in tags.chain(digests) {
            for records in &self.processes {
                for pod in PODS {
                    let ours = must_pull(records, &name, id, &with_secret(pod, pod));
                    assert_eq!(
                        ours,
                        self.model.must_pull(&name, id, pod),
                        "{name} ({id}) for {pod}"
                    );
                }
                if !self.model.images[id] {
                    assert!(must_pull(records, &name, id, &stranger()), "{name} ({id})");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_model_knows_who_is_let_in(events in events()) {
        let mut both = Both::new();
        for event in &events {
            both.happen(event);
            both.agree();
        }
    }
}
