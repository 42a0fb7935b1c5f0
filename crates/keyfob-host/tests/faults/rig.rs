//! A plugin directory, and a host that asks a faulty provider and a healthy one about the same registry.

use std::{fs, os::unix::fs::symlink, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use keyfob_api::{Chain, FeatureGates};
use keyfob_config::{Config, ProviderConfig, ValidConfig};
use keyfob_exec::ProcessRunner;
use keyfob_host::{Answer, Host, HostBuilder, HostOptions, ProviderOutcome, Pull};
use keyfob_testkit::{
    LeakCheck, LogCapture, ManualClock, MapEnvironment, Script, Step, Witness, scripted_plugin,
};
use prometheus_client::{encoding::text, registry::Registry};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PASSWORD: &str = "password-77aa-printed-by-the-plugin";
pub(crate) const IMAGE: &str = "reg.test/team/app";
pub(crate) const FOREVER: Step = Step::SleepMs(600_000);
pub(crate) const SOON: Duration = Duration::from_millis(500);

/// Much longer than anything here takes, and much shorter than a plugin that hangs.
const AT_MOST: Duration = Duration::from_secs(20);

/// A folder with plugins, their scripts and what they record.
pub(crate) struct Folder {
    folder: TempDir,
}

pub(crate) fn valid(providers: impl IntoIterator<Item = ProviderConfig>) -> ValidConfig {
    Config::new(providers).validate(FeatureGates::default()).unwrap()
}

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("plugins")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn plugin(&self, name: &str) -> PathBuf {
        self.path("plugins").join(name)
    }

    /// A provider for `reg.test`, whose plugin is there if it was not.
    pub(crate) fn provider(&self, name: &str, steps: Vec<Step>) -> ProviderConfig {
        if !self.plugin(name).exists() {
            symlink(scripted_plugin(), self.plugin(name)).unwrap();
        }
        let script = self.path(&format!("{name}.script"));
        fs::write(&script, Script(steps).to_arg()).unwrap();
        ProviderConfig {
            name: name.into(),
            match_images: vec!["reg.test".into()],
            default_cache_duration: Some(Duration::from_mins(1).into()),
            api_version: V1.into(),
            args: vec![script.to_str().unwrap().into()],
            ..ProviderConfig::default()
        }
    }

    /// A host of these providers, which starts real processes.
    pub(crate) fn host(&self, providers: impl IntoIterator<Item = ProviderConfig>) -> HostBuilder {
        Host::builder(valid(providers), &self.path("plugins"))
            .runner(ProcessRunner::new(MapEnvironment::default()))
            .clock(Arc::new(ManualClock::default()))
    }

    pub(crate) fn witness(&self, name: &str) -> Witness {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// How often [`Step::Count`] was taken with this file.
    pub(crate) fn count(&self, name: &str) -> usize {
        fs::read(self.path(name)).map_or(0, |counted| counted.len())
    }

    fn without_path(&self, text: &str) -> String {
        text.replace(self.folder.path().to_str().unwrap(), "DIR")
    }
}

/// A host that asks `faulty`, which has a script, and `healthy`, which answers well.
pub(crate) struct Case {
    pub(crate) folder: Folder,
    host: Host,
    registry: Registry,
    logs: LogCapture,
}

impl Case {
    pub(crate) fn new(steps: impl FnOnce(&Folder) -> Vec<Step>) -> Self {
        Self::in_folder(Folder::new(), HostOptions::default(), steps)
    }

    /// The faulty provider has only so long.
    pub(crate) fn within(deadline: Duration, steps: impl FnOnce(&Folder) -> Vec<Step>) -> Self {
        let mut options = HostOptions::default();
        options.timeouts.insert("faulty".into(), deadline);
        Self::in_folder(Folder::new(), options, steps)
    }

    pub(crate) fn in_folder(
        folder: Folder,
        options: HostOptions,
        steps: impl FnOnce(&Folder) -> Vec<Step>,
    ) -> Self {
        let logs = LogCapture::start();
        let mut faulty = vec![Step::Record(folder.path("faulty.witness"))];
        faulty.extend(steps(&folder));
        let healthy = vec![Step::Answer(answer("healthy", "10m"))];
        let providers = [folder.provider("faulty", faulty), folder.provider("healthy", healthy)];
        let mut registry = Registry::default();
        let host = folder.host(providers).options(options).build().unwrap();
        host.register_metrics(&mut registry);
        Self { folder, host, registry, logs }
    }

    pub(crate) async fn ask(&self) -> Seen {
        self.ask_about(&Pull::parse(IMAGE).unwrap()).await
    }

    /// Asks, and checks that it did not take forever, that nothing leaked and that no process is left.
    pub(crate) async fn ask_about(&self, pull: &Pull) -> Seen {
        let asked = tokio::time::timeout(AT_MOST, self.host.credentials(pull));
        let answer = asked.await.unwrap();
        self.check_leaks(&answer);
        if self.folder.path("faulty.witness").exists() {
            let pid = self.folder.witness("faulty.witness").pid;
            assert!(!fs::exists(format!("/proc/{pid}")).unwrap(), "the plugin was not reaped");
        }
        self.seen(&answer)
    }

    fn check_leaks(&self, answer: &Answer) {
        let leaks = LeakCheck::new([PASSWORD]);
        let logs = self.logs.text();
        assert!(logs.contains("asking the plugin"), "the log is empty, so it proves nothing");
        leaks.text("the log", &logs).text("the metrics", &encoded(&self.registry));
        leaks.debug("the answer", answer).debug("the host", &self.host);
        answer.errors().for_each(|(_, error)| {
            leaks.error(error).text("an error's chain", &Chain(error).to_string());
        });
    }

    fn seen(&self, answer: &Answer) -> Seen {
        let credentials = answer.credentials.iter();
        let faulty = answer.reports.iter().find(|report| &*report.provider == "faulty").unwrap();
        let mut cached: Vec<String> =
            self.host.cached().iter().map(|cached| cached.provider.to_string()).collect();
        cached.sort_unstable();
        Seen {
            credentials: credentials.map(|credential| credential.username().to_owned()).collect(),
            faulty: match &faulty.outcome {
                ProviderOutcome::Ran { .. } => Did::Ran,
                ProviderOutcome::Cached { .. } => Did::Remembered,
                ProviderOutcome::Failed(error) => {
                    Did::Failed(self.folder.without_path(&Chain(&**error).to_string()))
                }
                other => panic!("{other:?}"),
            },
            cached,
            errors: metric(&self.registry, ERRORS, "faulty"),
            runs: metric(&self.registry, RUNS, "faulty"),
        }
    }

    /// How long the faulty provider's plugin ran, according to the metrics.
    pub(crate) fn seconds(&self) -> f64 {
        value(&self.registry, "kubelet_credential_provider_plugin_duration_sum", "faulty")
    }
}

/// All that one question to a [`Case`] shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The user names, in the order in which to try them.
    pub(crate) credentials: Vec<String>,
    pub(crate) faulty: Did,
    /// The providers that have something in their caches, now.
    pub(crate) cached: Vec<String>,
    /// Errors and runs of the faulty provider up to now, according to the metrics.
    pub(crate) errors: u64,
    pub(crate) runs: u64,
}

/// What a provider did; an error with its causes, the folder's path being `DIR`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Ran,
    Remembered,
    Failed(String),
}

impl Seen {
    /// The first run failed, which counts as an error of the plugin; the healthy provider's credential is there.
    pub(crate) fn failed(error: &str) -> Self {
        Self { errors: 1, ..Self::invalid(error) }
    }

    /// The first run ended well and its answer is not valid; the healthy provider's credential is there.
    pub(crate) fn invalid(error: &str) -> Self {
        Self {
            credentials: vec!["healthy".into()],
            faulty: Did::Failed(error.into()),
            cached: vec!["healthy".into()],
            errors: 0,
            runs: 1,
        }
    }

    /// The first run answered, its answer is kept, and both providers' credentials are there.
    pub(crate) fn ran() -> Self {
        Self {
            credentials: vec!["faulty".into(), "healthy".into()],
            faulty: Did::Ran,
            cached: vec!["faulty".into(), "healthy".into()],
            errors: 0,
            runs: 1,
        }
    }
}

const V1: &str = "credentialprovider.kubelet.k8s.io/v1";

/// An answer for `reg.test`, kept for so long for the whole registry.
pub(crate) fn answer(user: &str, kept_for: &str) -> Value {
    answer_for("reg.test", user, kept_for)
}

pub(crate) fn answer_for(host: &str, user: &str, kept_for: &str) -> Value {
    json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": V1,
        "cacheKeyType": "Registry",
        "cacheDuration": kept_for,
        "auth": {host: {"username": user, "password": PASSWORD}},
    })
}

pub(crate) const ERRORS: &str = "kubelet_credential_provider_plugin_errors_total";
pub(crate) const RUNS: &str = "kubelet_credential_provider_plugin_duration_count";
pub(crate) const WAITERS: &str = "keyfob_credential_provider_waiters";

/// The value of a plugin's series, which is nothing before there is one.
pub(crate) fn metric(registry: &Registry, name: &str, plugin: &str) -> u64 {
    value(registry, name, plugin)
}

fn value<V: FromStr + Default>(registry: &Registry, name: &str, plugin: &str) -> V {
    let series = format!("{name}{{plugin_name=\"{plugin}\"}} ");
    let text = encoded(registry);
    text.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or_default()
}

pub(crate) fn encoded(registry: &Registry) -> String {
    let mut encoded = String::new();
    text::encode(&mut encoded, registry).unwrap();
    encoded
}

/// Lets others work until something is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(AT_MOST, waiting).await.unwrap();
}

/// Whether a process that was killed is dead, waiting for the kernel if it must. (A zombie is dead.)
pub(crate) fn is_dead(pid: i32) -> bool {
    let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else {
        return true;
    };
    let mut watched = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap() == 1
}
