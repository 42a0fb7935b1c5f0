//! What a host does with answers and time: by a clock that is turned by hand, and plugins that need no process.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod beyond_upstream;
mod caching;
mod freshness;
mod limits;
mod order;
mod reload;
mod selection;
mod surprises;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::{
    AuthConfig, CacheKeyType, CredentialProviderResponse, FeatureGates, GoDuration, ProviderVersion,
};
use keyfob_config::{Config, ProviderConfig, ValidConfig};
use keyfob_exec::{Finished, Invocation, RunError, Status, StderrTail};
use keyfob_host::{Answer, BuildError, Host, HostBuilder, HostOptions, ProviderOutcome, Pull};
use keyfob_testkit::{FakeRunner, ManualClock};
use prometheus_client::{encoding::text, registry::Registry};
use tempfile::TempDir;

/// A place for hosts: a plugin directory, a clock, and what the plugins say.
struct Stage {
    plugins: TempDir,
    clock: ManualClock,
    runner: FakeRunner,
    says: Arc<Mutex<Says>>,
    registry: Registry,
}

/// What a plugin does.
#[derive(Clone)]
enum Says {
    Answer(Vec<u8>),
    Failure,
}

impl Stage {
    fn new(says: Says) -> Self {
        let says = Arc::new(Mutex::new(says));
        let told = says.clone();
        let runner = FakeRunner::new(move |invocation| told.lock().unwrap().run(invocation));
        let plugins = tempfile::tempdir().unwrap();
        let clock = ManualClock::default();
        Self { plugins, clock, runner, says, registry: Registry::default() }
    }

    /// A stage whose plugins say what a function makes of the plugin's name and the question.
    fn saying(says: impl Fn(&str, &str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let mut stage = Self::new(Says::Failure);
        stage.runner = FakeRunner::new(move |invocation| {
            let name = invocation.program().file_name().unwrap().to_string_lossy();
            Says::Answer(says(&name, &question(invocation))).run(invocation)
        });
        stage
    }

    fn says(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn builder(&self, providers: impl IntoIterator<Item = ProviderConfig>) -> HostBuilder {
        let config = Config::new(providers);
        for provider in &config.providers {
            self.install(&provider.name);
        }
        Host::builder(valid(config.providers), self.plugins.path())
            .clock(Arc::new(self.clock.clone()))
            .runner(self.runner.clone())
    }

    fn host(&mut self, providers: impl IntoIterator<Item = ProviderConfig>) -> Host {
        let host = self.builder(providers).build().unwrap();
        host.register_metrics(&mut self.registry);
        host
    }

    fn host_with(&mut self, change: impl FnOnce(&mut HostOptions)) -> Host {
        let mut options = HostOptions::default();
        change(&mut options);
        self.builder([provider("one", ["r.io"])]).options(options).build().unwrap()
    }

    /// The file is never run, but must be there.
    fn install(&self, name: &str) {
        let path = self.plugins.path().join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    fn metric(&self, series: &str) -> Option<String> {
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry).unwrap();
        let value = shown.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(str::to_owned)
    }
}

impl Says {
    fn run(&self, invocation: &Invocation) -> Result<Finished, RunError> {
        let (program, elapsed) = (invocation.program().into(), Duration::from_millis(5));
        match self {
            Self::Failure => Err(RunError::Failed {
                program,
                status: Status::Exited(1),
                stderr: StderrTail::default(),
                elapsed,
            }),
            Self::Answer(stdout) => Ok(Finished {
                program,
                status: Status::Exited(0),
                stdout: stdout.clone().into(),
                stderr: StderrTail::default(),
                elapsed,
            }),
        }
    }
}

/// The image a plugin was asked about.
fn question(invocation: &Invocation) -> String {
    let keyfob_exec::Stdin::Bytes(stdin) = invocation.input() else { return String::new() };
    let request = keyfob_api::CredentialProviderRequest::decode(stdin.expose()).unwrap();
    request.1.image
}

fn valid(providers: impl IntoIterator<Item = ProviderConfig>) -> ValidConfig {
    Config::new(providers).validate(FeatureGates::default()).unwrap()
}

fn provider<const N: usize>(name: &str, patterns: [&str; N]) -> ProviderConfig {
    ProviderConfig {
        name: name.into(),
        match_images: patterns.map(String::from).into(),
        default_cache_duration: Some(GoDuration::parse("10m").unwrap()),
        api_version: ProviderVersion::V1.api_version().into(),
        ..ProviderConfig::default()
    }
}

/// An answer of logins by key; the password of user `u` is `u's`.
fn answer<const N: usize>(
    scope: CacheKeyType,
    duration: Option<&str>,
    logins: [(&str, &str); N],
) -> Vec<u8> {
    let auth = logins.map(|(key, user)| {
        let password = format!("{user}'s").into();
        (key.to_owned(), AuthConfig { username: user.into(), password })
    });
    let response = CredentialProviderResponse {
        cache_key_type: scope,
        cache_duration: duration.map(|text| GoDuration::parse(text).unwrap()),
        auth: auth.into(),
    };
    response.encode(ProviderVersion::V1).expose().clone()
}

async fn ask(host: &Host, image: &str) -> Answer {
    host.credentials(&Pull::parse(image).unwrap()).await
}

async fn users(host: &Host, image: &str) -> Vec<String> {
    let answer = ask(host, image).await;
    answer.credentials.iter().map(|credential| credential.username().to_owned()).collect()
}

/// What each provider did, in a word.
fn did(answer: &Answer) -> Vec<(&str, &'static str)> {
    let word = |outcome: &ProviderOutcome| match outcome {
        ProviderOutcome::Cached { .. } => "cached",
        ProviderOutcome::Ran { .. } => "ran",
        ProviderOutcome::Skipped(_) => "skipped",
        ProviderOutcome::Failed(_) => "failed",
        _ => "?",
    };
    answer.reports.iter().map(|report| (&*report.provider, word(&report.outcome))).collect()
}

/// Lets spawned runs come to their end; there is nothing in them that waits.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_host_is_not_built_without_its_plugin_directory_or_a_plugin() {
    let stage = Stage::new(Says::Failure);
    let gone = stage.plugins.path().join("gone");
    let builder = stage.builder([provider("there", ["r.io"]), provider("gone", ["r.io"])]);
    fs::remove_file(gone).unwrap();
    let error = builder.build().unwrap_err();
    assert!(matches!(&error, BuildError::Plugins(problems) if problems.len() == 1), "{error}");
    assert!(error.to_string().contains("/gone: install it there"), "{error}");

    let nowhere = stage.plugins.path().join("nowhere");
    let error = Host::builder(valid([provider("there", ["r.io"])]), &nowhere).build();
    let expected = format!("plugin binary directory {} did not exist", nowhere.display());
    assert_eq!(error.unwrap_err().to_string(), expected);
}
