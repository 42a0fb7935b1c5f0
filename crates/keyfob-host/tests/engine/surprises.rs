//! Clocks that jump, plugins that fail in masses, runtimes that end.

use std::{fs, num::NonZeroUsize, sync::Arc, time::Duration};

use keyfob_api::CacheKeyType::{Global, Image};
use keyfob_exec::{BoxFuture, Clock, Finished, RunError};
use keyfob_host::{Backoff, CallError};
use keyfob_keyring::{Credential, NodeDockerConfig, PullSecret};

use super::*;

const DAY: Duration = Duration::from_hours(24);

/// A clock that can be set back: it shows what another one shows, a day later until it is corrected.
#[derive(Clone, Debug)]
struct Correctable {
    clock: ManualClock,
    corrected: Arc<Mutex<bool>>,
}

impl Clock for Correctable {
    fn now(&self) -> std::time::SystemTime {
        let ahead = if *self.corrected.lock().unwrap() { Duration::ZERO } else { DAY };
        self.clock.now() + ahead
    }
}

impl Correctable {
    fn host(stage: &mut Stage, options: HostOptions) -> (Self, Host) {
        let clock = Self { clock: stage.clock.clone(), corrected: Arc::default() };
        let builder = stage.builder([provider("one", ["r.io"])]).clock(Arc::new(clock.clone()));
        (clock.clone(), builder.options(options).build().unwrap())
    }

    fn set_back(&self) {
        *self.corrected.lock().unwrap() = true;
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_keep_answers_alive() {
    let mut stage = Stage::new(Says::Answer(answer(Image, None, [("r.io", "ada")])));
    let (clock, host) = Correctable::host(&mut stage, HostOptions::default());
    ask(&host, "r.io/app").await;

    clock.set_back();

    assert_eq!(did(&ask(&host, "r.io/app").await), [("one", "ran")]);
    assert_eq!(did(&ask(&host, "r.io/app").await), [("one", "cached")]);
}

#[tokio::test]
async fn a_clock_that_is_set_back_ends_a_back_off_and_does_not_stop_the_sweep() {
    let mut stage = Stage::new(Says::Failure);
    let mut options = HostOptions::default();
    options.backoff = Some(Backoff::default());
    let (clock, host) = Correctable::host(&mut stage, options);
    ask(&host, "r.io/app").await;
    clock.set_back();
    ask(&host, "r.io/app").await;
    assert_eq!(stage.runner.runs(), 2);

    stage.says(Says::Answer(answer(Image, Some("1m"), [("r.io", "ada")])));
    for image in ["r.io/a", "r.io/b", "r.io/c"] {
        stage.clock.advance(Duration::from_mins(16));
        ask(&host, image).await;
    }
    assert_eq!(host.cached().len(), 1, "the others were swept");
}

#[tokio::test]
async fn a_back_off_grows_however_many_images_fail() {
    const IMAGES: usize = 1_100;
    let mut stage = Stage::new(Says::Failure);
    let host = stage.host_with(|options| options.backoff = Some(Backoff::default()));
    for _ in 0..30 {
        for n in 0..IMAGES {
            ask(&host, &format!("r.io/app{n}")).await;
        }
        stage.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(stage.runner.runs(), IMAGES * 5, "at 0, 10, 30, 70 and 150 seconds of 300");
}

#[tokio::test]
async fn the_longest_back_off_lasts() {
    let mut stage = Stage::new(Says::Failure);
    let forever = Backoff::new(Duration::MAX, Duration::MAX);
    let host = stage.host_with(|options| options.backoff = Some(forever));
    for _ in 0..3 {
        ask(&host, "r.io/app").await;
        stage.clock.advance(DAY);
    }
    assert_eq!(stage.runner.runs(), 1);
}

#[tokio::test]
async fn a_renewal_that_fails_backs_off_too_and_a_refusal_ends_that() {
    let mut stage = Stage::new(Says::Answer(answer(Global, Some("2h"), [("r.io", "old")])));
    let host = stage.host_with(|options| {
        options.refresh_ahead = Some(Duration::from_hours(1));
        options.backoff = Some(Backoff::default());
    });
    let old = ask(&host, "r.io/app").await.credentials.remove(0);
    stage.says(Says::Failure);
    stage.clock.advance(Duration::from_hours(1));
    for _ in 0..50 {
        stage.clock.advance(Duration::from_mins(1));
        assert_eq!(users(&host, "r.io/app").await, ["old"]);
        settle().await;
    }
    assert!((5..=16).contains(&stage.runner.runs()), "{}", stage.runner.runs());

    stage.says(Says::Answer(answer(Global, None, [("r.io", "new")])));
    assert!(host.reject(&old));
    assert_eq!(users(&host, "r.io/app").await, ["new"]);
}

#[tokio::test]
async fn an_answer_that_has_expired_already_takes_nobodys_place() {
    let mut stage = Stage::saying(|_, image| {
        let duration = if image.ends_with("dead") { "-1m" } else { "1h" };
        answer(Image, Some(duration), [("r.io", "ada")])
    });
    let host = stage.host_with(|options| options.max_cache_entries = NonZeroUsize::new(2));
    for image in ["r.io/a", "r.io/b", "r.io/dead"] {
        ask(&host, image).await;
    }
    assert_eq!(host.cached().len(), 2);
}

/// Panics, or never answers.
#[derive(Debug)]
enum Broken {
    Panics,
    Hangs,
}

impl keyfob_exec::Runner for Broken {
    #[expect(clippy::panic, reason = "that is what it does")]
    fn run<'a>(&'a self, _: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        match self {
            Self::Panics => Box::pin(async { panic!("a defect") }),
            Self::Hangs => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test]
async fn a_run_that_is_lost_is_told_and_backed_off() {
    let stage = Stage::new(Says::Failure);
    let mut options = HostOptions::default();
    options.backoff = Some(Backoff::default());
    let builder = stage.builder([provider("one", ["r.io"])]).runner(Broken::Panics);
    let host = builder.options(options).build().unwrap();

    let first = ask(&host, "r.io/app").await;
    let second = ask(&host, "r.io/app").await;

    assert!(matches!(first.errors().next().unwrap().1, CallError::Lost));
    assert!(matches!(second.errors().next().unwrap().1, CallError::BackingOff { .. }));
}

#[test]
fn a_run_that_ends_with_its_callers_runtime_is_started_again_for_the_others() {
    let mut stage = Stage::new(Says::Answer(answer(Image, None, [("r.io", "ada")])));
    let host = stage.host([provider("one", ["r.io"])]);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (leaving, staying) = (runtime(), runtime());
    let pull = Pull::parse("r.io/app").unwrap();
    // Asks, and goes before the run has begun.
    let first = leaving.block_on(async { futures_ready(host.credentials(&pull)).await });
    assert!(first.is_none());

    let answer = staying.block_on(async {
        let asked = host.credentials(&pull);
        let gone = async {
            tokio::task::yield_now().await;
            std::thread::spawn(move || drop(leaving)).join().unwrap();
        };
        tokio::join!(asked, gone).0
    });

    assert_eq!(answer.credentials[0].username(), "ada");
}

/// Polls once, and leaves.
async fn futures_ready<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        std::task::Poll::Ready(match polled {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let mut stage = Stage::new(Says::Failure);
    let host = stage.host([provider("one", ["r.io"])]);
    let pull = Pull::parse("r.io/app").unwrap();
    let mut asked = std::pin::pin!(host.credentials(&pull));

    let polled = asked.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));

    let std::task::Poll::Ready(answer) = polled else { panic!("it waits") };
    assert!(matches!(answer.errors().next().unwrap().1, CallError::NoRuntime));
}

#[test]
fn a_host_may_have_a_runtime_of_its_own() {
    let stage = Stage::new(Says::Answer(answer(Image, None, [("r.io", "ada")])));
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let host = stage.builder([provider("one", ["r.io"])]).runtime(own.handle().clone());
    let host = host.build().unwrap();
    let caller = tokio::runtime::Builder::new_current_thread().build().unwrap();

    assert_eq!(caller.block_on(users(&host, "r.io/app")), ["ada"]);
}

#[tokio::test]
async fn a_hanging_run_keeps_nobody_from_leaving() {
    let mut stage = Stage::new(Says::Failure);
    let builder = stage.builder([provider("one", ["r.io"])]).runner(Broken::Hangs);
    let host = builder.build().unwrap();
    assert!(futures_ready(ask(&host, "r.io/app")).await.is_none());
    host.register_metrics(&mut stage.registry);
    assert_eq!(
        stage.metric(r#"keyfob_credential_provider_waiters{plugin_name="one"}"#).as_deref(),
        Some("0")
    );
}

#[tokio::test]
async fn metrics_can_be_registered_at_any_time_and_do_not_keep_a_host_alive() {
    let mut stage = Stage::new(Says::Answer(answer(Image, None, [("r.io", "one")])));
    let host = stage.builder([provider("one", ["r.io"])]).build().unwrap();
    ask(&host, "r.io/app").await;

    host.register_metrics(&mut stage.registry);

    let series = |name| format!(r#"keyfob_credential_provider_{name}{{plugin_name="one"}}"#);
    let (misses, entries) = (series("cache_misses_total"), series("cache_entries"));
    assert_eq!(stage.metric(&misses).as_deref(), Some("1"));
    assert_eq!(stage.metric(&entries).as_deref(), Some("1"));
    drop(host);
    assert_eq!(stage.metric(&misses).as_deref(), Some("1"));
    assert_eq!(stage.metric(&entries), None, "the cache outlived its host");
}

#[tokio::test]
async fn the_nodes_docker_configuration_comes_before_the_providers_and_is_read_again_if_refused() {
    let stage = Stage::new(Says::Answer(answer(Image, None, [("r.io/app", "provider")])));
    let file = stage.plugins.path().join("docker.json");
    let write = |user: &str| {
        fs::write(&file, format!(r#"{{"auths":{{"r.io":{{"username":"{user}"}}}}}}"#)).unwrap();
    };
    write("node");
    let node = NodeDockerConfig::file(&file, Arc::new(stage.clock.clone()));
    let host = stage.builder([provider("one", ["r.io"])]).docker_config(node).build().unwrap();
    let first = ask(&host, "r.io/app").await;
    write("rotated");

    assert_eq!(users(&host, "r.io/app").await, ["node", "provider"]);
    assert!(host.reject(&first.credentials[0]));
    assert_eq!(users(&host, "r.io/app").await, ["rotated", "provider"]);

    fs::remove_file(&file).unwrap();
    stage.clock.advance(Duration::from_mins(5));
    let answer = ask(&host, "r.io/app").await;
    assert!(answer.docker_config_error.is_some());
    assert_eq!(answer.credentials[0].username(), "provider");
}

#[tokio::test]
async fn a_host_without_providers_has_what_the_pod_and_the_node_bring() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("docker.json");
    fs::write(&file, r#"{"auths":{"r.io":{"username":"node"}}}"#).unwrap();
    let node = NodeDockerConfig::file(&file, Arc::new(ManualClock::default()));
    let host = Host::without_providers().docker_config(node).build().unwrap();
    let secret = br#"{"auths":{"r.io":{"username":"pod"}}}"#;
    let secrets = PullSecret::parse_file(secret, "a.json").unwrap();
    let pull = Pull::parse("r.io/app").unwrap();
    let pull = pull.with_secrets(PullSecret::all_logins(&secrets).unwrap());

    let answer = host.credentials(&pull).await;

    let users: Vec<_> = answer.credentials.iter().map(Credential::username).collect();
    assert_eq!((users, answer.reports.len()), (vec!["pod", "node"], 0));
    assert_eq!(host.docker_config().unwrap().logins().unwrap().unwrap().keys().count(), 1);
}
