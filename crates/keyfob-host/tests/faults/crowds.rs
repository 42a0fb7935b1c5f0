//! Many callers at once, and callers that give up.

use std::{fs, sync::Arc};

use keyfob_host::{Host, Pull};
use keyfob_testkit::Step;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;

use crate::rig::{ERRORS, Folder, IMAGE, RUNS, WAITERS, answer, metric, until};

/// A host whose plugin answers when it is told to, and who waits for it.
struct Crowd {
    folder: Folder,
    host: Arc<Host>,
    registry: Registry,
}

impl Crowd {
    fn new() -> Self {
        let folder = Folder::new();
        let steps = vec![
            Step::Count(folder.path("runs")),
            Step::Await(folder.path("go")),
            Step::Answer(answer("one", "10m")),
        ];
        let mut registry = Registry::default();
        let host = folder.host([folder.provider("slow", steps)]).build().unwrap();
        host.register_metrics(&mut registry);
        Self { host: Arc::new(host), folder, registry }
    }

    /// So many tasks that ask the same; all of them wait when this returns.
    async fn gather(&self, size: u64) -> Vec<JoinHandle<Vec<String>>> {
        let ask = |_| {
            let host = self.host.clone();
            tokio::spawn(async move { users(&host).await })
        };
        let crowd = (0..size).map(ask).collect();
        until(|| metric(&self.registry, WAITERS, "slow") >= size).await;
        crowd
    }

    fn let_it_answer(&self) {
        fs::write(self.folder.path("go"), "").unwrap();
    }

    /// Processes started, runs and errors according to the metrics, and callers that still wait.
    fn counts(&self) -> (usize, [u64; 3]) {
        let metric = |name| metric(&self.registry, name, "slow");
        (self.folder.count("runs"), [metric(RUNS), metric(ERRORS), metric(WAITERS)])
    }
}

async fn users(host: &Host) -> Vec<String> {
    let answer = host.credentials(&Pull::parse(IMAGE).unwrap()).await;
    answer.credentials.iter().map(|credential| credential.username().to_owned()).collect()
}

async fn all_get_the_one_answer(crowd: Crowd) {
    let callers = crowd.gather(10_000).await;

    crowd.let_it_answer();

    for caller in callers {
        assert_eq!(caller.await.unwrap(), ["one"]);
    }
    assert_eq!(crowd.counts(), (1, [1, 0, 0]));
    assert_eq!(users(&crowd.host).await, ["one"]);
    assert_eq!(crowd.counts(), (1, [1, 0, 0]), "the answer was not kept");
}

#[tokio::test]
async fn ten_thousand_callers_on_one_thread_start_one_process() {
    all_get_the_one_answer(Crowd::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_thousand_callers_on_four_threads_start_one_process() {
    all_get_the_one_answer(Crowd::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_come_while_the_answer_arrives_start_no_second_process() {
    let crowd = Crowd::new();
    let mut callers = crowd.gather(1).await;

    crowd.let_it_answer();
    while metric(&crowd.registry, RUNS, "slow") < 1 || callers.len() < 10_000 {
        let host = crowd.host.clone();
        callers.push(tokio::spawn(async move { users(&host).await }));
    }

    for caller in callers {
        assert_eq!(caller.await.unwrap(), ["one"]);
    }
    assert_eq!(crowd.counts(), (1, [1, 0, 0]));
}

#[tokio::test]
async fn callers_that_give_up_leave_the_run_to_the_others() {
    let crowd = Crowd::new();
    let mut staying = crowd.gather(10_000).await;

    for leaving in staying.drain(..5_000) {
        leaving.abort();
        assert!(leaving.await.unwrap_err().is_cancelled());
    }
    assert_eq!(crowd.counts(), (1, [0, 0, 5_000]));
    crowd.let_it_answer();

    for caller in staying {
        assert_eq!(caller.await.unwrap(), ["one"]);
    }
    assert_eq!(crowd.counts(), (1, [1, 0, 0]));
}

#[tokio::test]
async fn a_run_that_everybody_gave_up_still_fills_the_cache() {
    let crowd = Crowd::new();
    for leaving in crowd.gather(100).await {
        leaving.abort();
        assert!(leaving.await.unwrap_err().is_cancelled());
    }

    crowd.let_it_answer();
    until(|| !crowd.host.cached().is_empty()).await;

    assert_eq!(users(&crowd.host).await, ["one"]);
    assert_eq!(crowd.counts(), (1, [1, 0, 0]));
}
