//! How many processes of a provider run at once.

use std::{num::NonZeroUsize, sync::Mutex};

use keyfob_api::CacheKeyType::{self, Image, Registry};
use keyfob_exec::{BoxFuture, Finished, RunError, Runner};
use tokio::{sync::Semaphore, task::JoinHandle};

use super::*;

/// Plugins that end when they are let go, and the images that they were started for.
#[derive(Clone, Debug)]
struct Gate {
    started: Arc<Mutex<Vec<String>>>,
    open: Arc<Semaphore>,
    /// For which images their answers may be used.
    scope: CacheKeyType,
}

impl Gate {
    fn new() -> Self {
        Self { started: Arc::default(), open: Arc::new(Semaphore::new(0)), scope: Image }
    }

    fn started(&self) -> Vec<String> {
        self.started.lock().unwrap().clone()
    }

    /// Lets so many plugins end, and waits until nothing more happens.
    async fn let_go(&self, count: usize) {
        self.open.add_permits(count);
        settle().await;
    }
}

impl Runner for Gate {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        let image = question(invocation);
        Box::pin(async move {
            self.started.lock().unwrap().push(image);
            self.open.acquire().await.unwrap().forget();
            Says::Answer(answer(self.scope, None, [("r.io", "ada")])).run(invocation)
        })
    }
}

fn limited(stage: &mut Stage, gate: &Gate, most: Option<usize>) -> Arc<Host> {
    let mut options = HostOptions::default();
    options.max_runs_per_provider = most.and_then(NonZeroUsize::new);
    let providers = [provider("one", ["r.io"]), provider("two", ["q.io"])];
    let host = stage.builder(providers).options(options).runner(gate.clone()).build().unwrap();
    host.register_metrics(&mut stage.registry);
    Arc::new(host)
}

async fn pull(host: &Arc<Host>, image: &str) -> JoinHandle<Answer> {
    pulling(host, Pull::parse(image).unwrap()).await
}

async fn pull_for(host: &Arc<Host>, caller: &str, image: &str) -> JoinHandle<Answer> {
    pulling(host, Pull::parse(image).unwrap().for_caller(caller)).await
}

async fn pulling(host: &Arc<Host>, pull: Pull) -> JoinHandle<Answer> {
    let host = host.clone();
    let pulling = tokio::spawn(async move { host.credentials(&pull).await });
    settle().await;
    pulling
}

#[tokio::test]
async fn further_runs_of_a_provider_wait_in_order() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    let host = limited(&mut stage, &gate, Some(2));
    let mut pulls = Vec::new();
    for image in ["r.io/a", "r.io/b", "r.io/c", "r.io/d", "r.io/c"] {
        pulls.push(pull(&host, image).await);
    }
    assert_eq!(gate.started(), ["r.io/a", "r.io/b"]);
    pulls.push(pull(&host, "q.io/a").await);
    assert_eq!(gate.started(), ["r.io/a", "r.io/b", "q.io/a"], "another provider does not wait");

    gate.let_go(1).await;
    assert_eq!(gate.started()[3..], ["r.io/c"]);
    gate.let_go(10).await;

    assert_eq!(gate.started()[3..], ["r.io/c", "r.io/d"]);
    for pull in pulls {
        assert_eq!(did(&pull.await.unwrap())[0].1, "ran");
    }
}

#[tokio::test]
async fn a_run_that_waited_is_not_started_for_what_another_has_answered() {
    let (mut stage, mut gate) = (Stage::new(Says::Failure), Gate::new());
    gate.scope = Registry;
    let host = limited(&mut stage, &gate, Some(1));
    let mut pulls = Vec::new();
    for image in ["r.io/a", "r.io/b", "r.io/c"] {
        pulls.push(pull(&host, image).await);
    }

    gate.let_go(3).await;

    let mut outcomes = Vec::new();
    for pull in pulls {
        outcomes.push(did(&pull.await.unwrap())[0].1);
    }
    assert_eq!(outcomes, ["ran", "cached", "cached"]);
    assert_eq!(gate.started(), ["r.io/a"]);
}

#[tokio::test]
async fn without_a_limit_all_run_at_once() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    let host = limited(&mut stage, &gate, None);
    for image in ["r.io/a", "r.io/b", "r.io/c"] {
        pull(&host, image).await;
    }
    assert_eq!(gate.started().len(), 3);
}

#[tokio::test]
async fn an_enormous_limit_is_none() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    let host = limited(&mut stage, &gate, Some(usize::MAX));
    gate.let_go(1).await;
    assert_eq!(users(&host, "r.io/a").await, ["ada"]);
}

#[tokio::test]
async fn callers_who_leave_the_queue_make_way() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    let host = limited(&mut stage, &gate, Some(1));
    let waiters = r#"keyfob_credential_provider_waiters{plugin_name="one"}"#;
    let mut leaving = Vec::new();
    for image in ["r.io/a", "r.io/b", "r.io/c"] {
        leaving.push(pull(&host, image).await);
    }
    assert_eq!(stage.metric(waiters), Some("3".into()));
    for pull in leaving {
        pull.abort();
        assert!(pull.await.unwrap_err().is_cancelled());
    }
    assert_eq!(stage.metric(waiters), Some("0".into()));

    let staying = pull(&host, "r.io/d").await;
    gate.let_go(2).await;

    assert_eq!(did(&staying.await.unwrap()), [("one", "ran")]);
    assert_eq!(gate.started(), ["r.io/a", "r.io/d"], "nobody wants the others any more");
    assert_eq!(host.cached().len(), 2, "the first had started, and is known");
    gate.let_go(1).await;
    assert_eq!(users(&host, "r.io/e").await, ["ada"], "the place is free again");
}

#[tokio::test]
async fn a_run_that_panics_leaves_its_place_to_the_next() {
    let mut stage = Stage::new(Says::Failure);
    stage.runner = FakeRunner::new(|invocation| {
        assert_ne!(question(invocation), "r.io/broken", "a defect");
        Says::Answer(answer(Image, None, [("r.io", "ada")])).run(invocation)
    });
    let host = stage.host_with(|options| options.max_runs_per_provider = NonZeroUsize::new(1));

    assert_eq!(did(&ask(&host, "r.io/broken").await), [("one", "failed")]);

    assert_eq!(users(&host, "r.io/app").await, ["ada"]);
}

#[tokio::test]
async fn a_caller_that_asks_for_many_images_does_not_keep_a_kubelet_waiting() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    let host = limited(&mut stage, &gate, Some(4));
    let mut pulls = Vec::new();
    for number in 0..256 {
        pulls.push(pull_for(&host, "greedy", &format!("r.io/{number}")).await);
    }
    assert_eq!(gate.started(), ["r.io/0", "r.io/1"], "one place is left to others, and one to all");

    let kubelet = pull(&host, "r.io/app").await;

    assert_eq!(gate.started()[2..], ["r.io/app"], "it does not even wait for a run");
    let more = [pull(&host, "r.io/b").await, pull(&host, "r.io/c").await];
    assert_eq!(gate.started()[3..], ["r.io/b"], "all places are taken");
    gate.let_go(1).await;
    assert_eq!(gate.started()[4..], ["r.io/c"], "whatever place is free");
    gate.let_go(1000).await;
    for pull in pulls.into_iter().chain(more).chain([kubelet]) {
        assert_eq!(did(&pull.await.unwrap())[0].1, "ran");
    }
    assert_eq!(gate.started().len(), 259);
}

#[tokio::test]
async fn a_kubelet_that_wants_what_a_caller_has_queued_does_not_wait_for_that_caller() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    let host = limited(&mut stage, &gate, Some(4));
    for image in ["r.io/a", "r.io/b", "r.io/c", "r.io/d", "r.io/wanted"] {
        pull_for(&host, "greedy", image).await;
    }
    assert_eq!(gate.started(), ["r.io/a", "r.io/b"]);

    let kubelet = pull(&host, "r.io/wanted").await;

    assert_eq!(gate.started()[2..], ["r.io/wanted"]);
    gate.let_go(3).await;
    assert_eq!(did(&kubelet.await.unwrap()), [("one", "ran")]);
}

#[tokio::test]
async fn a_run_loses_its_priority_when_the_kubelet_that_wanted_it_leaves() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    let host = limited(&mut stage, &gate, Some(1));
    for image in ["r.io/a", "r.io/b", "r.io/wanted"] {
        pull_for(&host, "greedy", image).await;
    }
    let leaving = pull(&host, "r.io/wanted").await;
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    gate.let_go(1).await;
    assert_eq!(gate.started(), ["r.io/a", "r.io/b"]);
}

#[tokio::test]
async fn callers_take_turns() {
    // One place for each caller and one for the kubelet; then one for both callers.
    for (most, at_once) in [(3, 2), (2, 1), (1, 1)] {
        let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
        let host = limited(&mut stage, &gate, Some(most));
        let mut pulls = Vec::new();
        for number in 0..50 {
            pulls.push(pull_for(&host, "greedy", &format!("r.io/{number}")).await);
        }
        for image in ["r.io/x", "r.io/y", "r.io/z"] {
            pulls.push(pull_for(&host, "modest", image).await);
        }
        // The last one is what the other caller asked for first.
        pulls.push(pull_for(&host, "modest", "r.io/49").await);
        gate.let_go(9 - at_once).await;
        let started = gate.started();
        assert_eq!(started.len(), 9, "{started:?}");
        for image in ["r.io/x", "r.io/y", "r.io/z", "r.io/49"] {
            assert!(started.iter().any(|each| each == image), "{most}: {started:?}");
        }
        gate.let_go(100).await;
        for pull in pulls {
            assert_eq!(did(&pull.await.unwrap())[0].1, "ran");
        }
    }
}

#[tokio::test]
async fn a_caller_that_comes_back_again_and_again_keeps_nobody_waiting() {
    let (mut stage, gate) = (Stage::new(Says::Failure), Gate::new());
    // One place for all callers together.
    let host = limited(&mut stage, &gate, Some(2));
    let mut pulls = vec![pull_for(&host, "first", "r.io/0").await];
    for image in ["r.io/x", "r.io/y", "r.io/z"] {
        pulls.push(pull_for(&host, "waiting", image).await);
    }
    // Each of them is unknown again when it has its answer.
    for number in 1..7 {
        let caller = if number % 2 == 0 { "first" } else { "second" };
        pulls.push(pull_for(&host, caller, &format!("r.io/{number}")).await);
        gate.let_go(1).await;
    }
    let started = gate.started();
    for image in ["r.io/x", "r.io/y", "r.io/z"] {
        assert!(started.iter().any(|each| each == image), "{started:?}");
    }
    gate.let_go(100).await;
    for pull in pulls {
        assert_eq!(did(&pull.await.unwrap())[0].1, "ran");
    }
}
