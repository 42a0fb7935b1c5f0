//! Many requests while the token changes all the time.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, StatusCode, header::AUTHORIZATION};
use keyfob_client::{Authenticators, Behaviour, ExecConfig, ExecLayer, World};
use keyfob_exec::{BoxFuture, Finished, Invocation, RunError, Runner, Status, StderrTail};
use serde_json::json;
use tokio::time::{interval, sleep};
use tower::{Layer as _, Service as _, service_fn};

use crate::{
    plugin::V1,
    real_storm::{ROTATION, storm},
};

const TASKS: usize = 100;
const REQUESTS: usize = 100;

/// A plugin that takes two milliseconds and answers with the current token.
#[derive(Clone, Debug, Default)]
struct Issuer {
    current: Arc<AtomicUsize>,
    runs: Arc<AtomicUsize>,
}

impl Issuer {
    fn header(&self) -> String {
        format!("Bearer {}", self.current.load(Ordering::SeqCst))
    }
}

impl Runner for Issuer {
    fn run<'a>(&'a self, invocation: &'a Invocation) -> BoxFuture<'a, Result<Finished, RunError>> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            sleep(Duration::from_millis(2)).await;
            let token = self.current.load(Ordering::SeqCst).to_string();
            let answer =
                json!({"kind": "ExecCredential", "apiVersion": V1, "status": {"token": token}});
            Ok(Finished {
                program: invocation.program().into(),
                status: Status::Exited(0),
                stdout: answer.to_string().into_bytes().into(),
                stderr: StderrTail::default(),
                elapsed: Duration::ZERO,
            })
        })
    }
}

/// In a time of its own, in which nothing takes longer than it is said to: here none may fail.
#[tokio::test(start_paused = true)]
async fn nobody_is_refused_and_the_plugin_runs_once_per_rotation() {
    let issuer = Issuer::default();
    let mut world = World::system();
    world.runner = Arc::new(issuer.clone());
    let exec = ExecConfig {
        command: "/bin/true".to_owned(),
        api_version: V1.to_owned(),
        interactive_mode: "Never".into(),
        ..ExecConfig::default()
    };
    let authenticator = Authenticators::new(world, Behaviour::default()).get(&exec, None).unwrap();
    let server = {
        let issuer = issuer.clone();
        service_fn(move |request: Request<()>| {
            let issuer = issuer.clone();
            async move {
                sleep(Duration::from_millis(3)).await;
                let is_current = request.headers()[AUTHORIZATION] == *issuer.header();
                let status = if is_current { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
                let mut response = Response::new(());
                *response.status_mut() = status;
                sleep(Duration::from_millis(3)).await;
                Ok::<_, Infallible>(response)
            }
        })
    };
    let service = ExecLayer::new(authenticator).layer(server);

    let rotating = tokio::spawn({
        let issuer = issuer.clone();
        async move {
            let mut ticks = interval(ROTATION);
            loop {
                ticks.tick().await;
                issuer.current.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let tasks = (0..TASKS).map(|_| {
        let mut service = service.clone();
        tokio::spawn(async move {
            let mut statuses = Vec::new();
            for _ in 0..REQUESTS {
                let answer = service.call(Request::new(())).await;
                statuses.push(answer.unwrap().status());
            }
            statuses
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap(), [StatusCode::OK; REQUESTS]);
    }
    rotating.abort();

    let rotations = issuer.current.load(Ordering::SeqCst);
    let runs = issuer.runs.load(Ordering::SeqCst);
    assert!(rotations > 10, "{rotations}");
    assert!((rotations..=rotations + 1).contains(&runs), "{runs} runs, {rotations} rotations");
}

/// With real processes, connections and time, where a busy machine may take longer than a token lasts: whoever is refused has
/// carried a newer token each time. `cargo bench -p keyfob-client --bench storm` is the same with 10,000 requests of 100 tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_given_up_with_a_token_that_it_had_before() {
    let storm = storm(10, 50).await;

    eprintln!("{storm}");
    assert!(storm.runs <= storm.rotations + 1, "{storm}");
    for tokens in &storm.refused {
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    }
}
