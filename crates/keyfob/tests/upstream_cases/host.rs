//! Rows about a provider's call, its cache and its metrics, judged by a whole host.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use keyfob_api::{GoDuration, ProviderVersion};
use keyfob_exec::{Clock as _, Finished, Invocation, RunError, Status, StderrTail};
use keyfob_host::{
    Answer, CacheKey, Config, Host, HostOptions, ProviderConfig, ProviderOutcome, Pull,
};
use keyfob_testkit::{FakeRunner, ManualClock};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::{Check, fact, later, provider_wire, same, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/provide.json", "Test_ProvideWithCoordinates", provide),
    ("kubelet/provide.json", "TestSingleflightProvide", single_flight),
    ("kubelet/provide.json", "Test_ProvideParallel", provide_parallel),
    ("kubelet/provide.json", "Test_NoCacheResponse", no_cache),
    ("kubelet/cache_lookup.json", "Test_getCachedCredentials", cache_lookup),
    ("kubelet/cache_keys.json", "TestGenerateCacheKey", cache_key),
    ("kubelet/cache_keys.json", "Test_CacheKeyGeneration", cache_key_of_answer),
    ("kubelet/derived_matching.json", "derived registry cache key", registry_cache_key),
    ("kubelet/external_keyring.json", "TestRegisterCredentialProviderPlugin", registration),
    (
        "kubelet/external_keyring.json",
        "TestNewExternalCredentialProviderDockerKeyring",
        registered_providers,
    ),
    ("kubelet/external_keyring.json", "TestExternalCredentialProviderKeyringLookup", union),
    (
        "kubelet/external_keyring.json",
        "TestExternalCredentialProviderKeyringLookupConcurrency",
        concurrency,
    ),
    ("kubelet/keyring.json", "TestProvidersDockerKeyring", asked_for_every_lookup),
    ("kubelet/metrics.json", "plugin metrics", metrics),
    (
        "kubelet/derived_provider.json",
        "plugin stdout handling (provider configured with credentialprovider.kubelet.k8s.io/v1, defaultCacheDuration 10m)",
        plugin_stdout,
    ),
    ("providers/provider-host-cache.json", "cases", another_hosts_cache),
];

/// A host on a plugin directory of its own.
pub(crate) struct Stage {
    pub(crate) plugins: TempDir,
    clock: ManualClock,
    registry: Registry,
    pub(crate) options: HostOptions,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            plugins: tempfile::tempdir().unwrap(),
            clock: ManualClock::default(),
            registry: Registry::default(),
            options: HostOptions::default(),
        }
    }

    /// Providers whose plugins answer with what a function makes of their names.
    fn host(
        &mut self,
        providers: &[ProviderConfig],
        says: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> (Host, FakeRunner) {
        let runner = FakeRunner::new(move |invocation| Ok(finished(invocation, &says)));
        for provider in providers {
            self.script(&provider.name, "");
        }
        let host = self.builder(providers).runner(runner.clone()).build().unwrap();
        (host, runner)
    }

    pub(crate) fn builder(&mut self, providers: &[ProviderConfig]) -> keyfob_host::HostBuilder<'_> {
        Host::builder(Config::new(providers.to_vec()), self.plugins.path())
            .clock(self.clock.clone())
            .options(self.options.clone())
            .metrics(&mut self.registry)
    }

    pub(crate) fn script(&self, name: &str, body: &str) {
        let path = self.plugins.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn errors(&self) -> u64 {
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry).unwrap();
        let line = shown
            .lines()
            .find(|line| line.starts_with("kubelet_credential_provider_plugin_errors_total{"));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

fn finished(invocation: &Invocation, says: &dyn Fn(&str) -> Vec<u8>) -> Finished {
    let program = invocation.program();
    let name = program.file_name().unwrap().to_string_lossy();
    Finished {
        program: program.into(),
        status: Status::Exited(0),
        stdout: says(&name).into(),
        stderr: StderrTail::default(),
        elapsed: Duration::ZERO,
    }
}

pub(crate) fn provider(name: &str, patterns: &[&str]) -> ProviderConfig {
    ProviderConfig {
        name: if name.is_empty() { "plugin".into() } else { name.into() },
        match_images: patterns.iter().map(|text| (*text).to_owned()).collect(),
        default_cache_duration: Some(GoDuration::parse("10m").unwrap()),
        api_version: ProviderVersion::V1.api_version().into(),
        ..ProviderConfig::default()
    }
}

/// An answer in upstream's form, from auth entries in the notation of the rows.
fn answer(scope: &str, duration: &Value, auth: &Value) -> Vec<u8> {
    let entries = auth.as_object().cloned().unwrap_or_default().into_iter().map(|(key, login)| {
        (key, json!({ "username": login["Username"], "password": login["Password"] }))
    });
    let mut answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": ProviderVersion::V1.api_version(),
        "cacheKeyType": scope,
        "auth": Value::Object(entries.collect()),
    });
    if !duration.is_null() {
        answer["cacheDuration"] = duration.clone();
    }
    answer.to_string().into()
}

pub(crate) fn ask(host: &Host, image: &str) -> Answer {
    block_on(host.credentials(&Pull::of_repository(image)))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What a provider answered, whether or not it is for the image, in the notation of the rows.
fn answered(answer: &Answer) -> Value {
    let mut entries = Map::new();
    for logins in answer.reports.iter().filter_map(|report| report.outcome.logins()) {
        for (key, login) in logins.iter() {
            let login = json!({
                "Username": *login.username,
                "Password": login.password.expose(),
            });
            entries.insert(key.to_string(), login);
        }
    }
    Value::Object(entries)
}

fn provide(_file: &Value, row: &Value) -> Result<(), String> {
    if !row["sa_provider"].is_null() && !text(&row["pod"], "serviceAccountName").is_empty() {
        return later("service accounts");
    }
    let patterns: Vec<&str> =
        row["match_images"].as_array().unwrap().iter().map(|each| each.as_str().unwrap()).collect();
    let mut config = provider(text(row, "plugin_name"), &patterns);
    if !row["sa_provider"].is_null() {
        config.token_attributes = Some(keyfob_host::TokenAttributes {
            service_account_token_audience: "audience".into(),
            cache_type: "ServiceAccount".into(),
            require_service_account: row["sa_provider"]["requireServiceAccount"].as_bool(),
            ..Default::default()
        });
    }
    let response = row["plugin_response"].clone();
    let mut stage = Stage::new();
    let (host, _) = stage.host(&[config], move |_| {
        let scope = response["cacheKeyType"].as_str().unwrap_or("Image");
        answer(scope, &response["cacheDuration"], &response["auth"])
    });
    let given = ask(&host, text(row, "image"));
    fact("errors", &given.errors().count(), &0)?;
    fact("config", &answered(&given), &row["expected_config"])
}

fn single_flight(_file: &Value, row: &Value) -> Result<(), String> {
    if text(row, "name") != "no service account provider" {
        return later("service accounts");
    }
    let mut stage = Stage::new();
    stage.script(
        "plugin",
        &format!(
            "echo run >> \"$0.runs\"\nsleep 0.3\ncat <<'END'\n{}\nEND\n",
            String::from_utf8(answer("Registry", &json!("0s"), &json!({}))).unwrap()
        ),
    );
    let host =
        Arc::new(stage.builder(&[provider("plugin", &["test.registry.io"])]).build().unwrap());
    block_on(async {
        let asking: Vec<_> = (0..5)
            .map(|_| {
                let host = host.clone();
                tokio::spawn(async move {
                    host.credentials(&Pull::of_repository("test.registry.io")).await
                })
            })
            .collect();
        for task in asking {
            task.await.unwrap();
        }
    });
    let runs = fs::read_to_string(stage.plugins.path().join("plugin.runs")).unwrap();
    same(
        &runs.lines().count(),
        &usize::try_from(row["expected_exec_count"].as_u64().unwrap()).unwrap(),
    )
}

fn provide_parallel(_file: &Value, row: &Value) -> Result<(), String> {
    let number = text(row, "name").rsplit(' ').next().unwrap();
    let patterns = [1, 2, 3, 4].map(|n| format!("test{n}.registry.io"));
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let auth = json!({ "test.registry.io": { "Username": "user", "Password": "password" } });
    let mut stage = Stage::new();
    let (host, runner) =
        stage.host(&[provider("", &patterns)], move |_| answer("Registry", &json!("1m"), &auth));
    for image in ["a", "b", "c", "d", "e"] {
        let given = ask(&host, &format!("test{number}.registry.io/{image}"));
        fact("config", &answered(&given), &row["expected_config"])?;
    }
    fact("runs", &runner.runs(), &1)
}

fn no_cache(_file: &Value, row: &Value) -> Result<(), String> {
    let auth = row["expected_config"].clone();
    let mut stage = Stage::new();
    let (host, _) = stage
        .host(&[provider("", &["*.registry.io"])], move |_| answer("Global", &json!("0s"), &auth));
    fact("config", &answered(&ask(&host, text(row, "image"))), &row["expected_config"])?;
    fact("keys", &host.cached().len(), &row["expected_cache_keys"].as_array().unwrap().len())
}

/// The rows share a store and a clock, so each is judged after those before it.
fn cache_lookup(file: &Value, row: &Value) -> Result<(), String> {
    let rows = file["groups"][0]["cases"].as_array().unwrap();
    let until = rows.iter().position(|each| each == row).unwrap();
    let mut stage = Stage::new();
    let start = stage.clock.now();
    let wanted: Arc<Mutex<Value>> = Arc::default();
    let told = wanted.clone();
    let (host, _) = stage.host(&[provider("", &["*"])], move |_| {
        let told = told.lock().unwrap().clone();
        answer("Image", &told["duration"], &told["auth"])
    });
    for row in &rows[..=until] {
        insert(row, &host, &wanted, &stage.clock, start);
        stage
            .clock
            .advance(GoDuration::parse(text(row, "advance_clock")).unwrap().to_std().unwrap());
        *wanted.lock().unwrap() = json!({ "duration": "0s", "auth": {} });
        let given = ask(&host, text(row, "lookup_image"));
        let cached = matches!(given.reports[0].outcome, ProviderOutcome::Cached { .. });
        fact("cached", &cached, &!row["expected"].is_null())?;
        if cached {
            fact("config", &answered(&given), &row["expected"])?;
        }
        let kept = u64::try_from(host.cached().len()).unwrap();
        fact("keys", &Some(kept), &row["expected_keys_in_store_after"].as_u64())?;
    }
    Ok(())
}

/// Lets the plugin give what the row puts into the store.
fn insert(row: &Value, host: &Host, wanted: &Mutex<Value>, clock: &ManualClock, start: SystemTime) {
    let key = unhex(text(row, "insert_key_hex"));
    let image = String::from_utf8(key[2..key.len() - 2].to_vec()).unwrap();
    let after = text(row, "insert_expires_at").strip_prefix("T0").unwrap().trim_start_matches('+');
    let after = GoDuration::parse(if after.is_empty() { "0s" } else { after }).unwrap();
    let passed = clock.now().duration_since(start).unwrap();
    let nanos = after.as_nanos() - i64::try_from(passed.as_nanos()).unwrap();
    let duration = GoDuration::from_nanos(nanos).to_string();
    *wanted.lock().unwrap() = json!({ "duration": duration, "auth": row["insert_credentials"] });
    ask(host, &image);
}

/// What the decoder makes of an answer, and then what the host does with it in two calls.
fn plugin_stdout(file: &Value, row: &Value) -> Result<(), String> {
    provider_wire::plugin_stdout(file, row)?;
    let stdout = text(row, "stdout").to_owned();
    let mut stage = Stage::new();
    let (host, runner) = stage.host(&[provider("", &["r.io"])], move |_| stdout.clone().into());
    let first = ask(&host, "r.io/app");
    stage.clock.advance(Duration::from_nanos(1));
    ask(&host, "r.io/app");
    fact("failed", &(first.errors().count() == 1), &row["expected_error_exact"].is_string())?;
    fact("runs", &u64::try_from(runner.runs()).ok(), &row["execs_in_two_calls"].as_u64())?;
    fact("errors", &Some(stage.errors()), &row["errors_metric_delta"].as_u64())?;
    let found = text(row, "expected").starts_with("credential");
    fact("credential", &!first.credentials.is_empty(), &found)
}

/// Another host of plugins: for which images, and for how long, an answer counts. Minus a second is none at all there.
fn another_hosts_cache(_file: &Value, row: &Value) -> Result<(), String> {
    let scope = row["cacheKeyType"].as_str().unwrap_or("Image").to_owned();
    let duration = match row["responseTTL"].as_str() {
        Some("-1s") => Value::Null,
        Some(duration) => duration.into(),
        None => "1h".into(),
    };
    let mut config = provider("", &["*.example.com"]);
    if let Some(duration) = row["defaultTTL"].as_str() {
        config.default_cache_duration = Some(GoDuration::parse(duration).unwrap());
    }
    let mut stage = Stage::new();
    let (host, runner) = stage.host(&[config], move |_| answer(&scope, &duration, &json!({})));
    let image = |field: &str| row[field].as_str().unwrap_or("registry.example.com/image:tag");
    for image in [image("first"), image("second")] {
        block_on(host.credentials(&Pull::parse(image).unwrap()));
    }
    let hit = row["hit"].as_bool().or(row["cached"].as_bool());
    fact("hit", &Some(runner.runs() == 1), &hit)
}

fn cache_key(_file: &Value, row: &Value) -> Result<(), String> {
    let key = CacheKey::new(text(row, "base_key"), &unhex(text(row, "sa_key_hex"))).unwrap();
    same(key.as_bytes(), &*unhex(text(row, "expected_hex")))
}

fn cache_key_of_answer(_file: &Value, row: &Value) -> Result<(), String> {
    if !row["sa_cache_type"].is_null() {
        return later("service accounts");
    }
    let scope = text(row, "cacheKeyType").to_owned();
    let mut stage = Stage::new();
    let (host, runner) = stage.host(&[provider("", &["*.registry.io"])], move |_| {
        let auth = json!({ "*.registry.io": { "Username": "user", "Password": "password" } });
        answer(&scope, &json!("1h"), &auth)
    });
    let first = answered(&ask(&host, text(row, "image")));
    let keys: Vec<_> = host.cached().iter().map(|cached| cached.key.as_bytes().to_vec()).collect();
    fact("keys", &keys, &vec![unhex(text(row, "expected_only_cache_key_hex"))])?;
    fact("second call", &answered(&ask(&host, text(row, "image"))), &first)?;
    fact("runs", &runner.runs(), &1)
}

fn registry_cache_key(_file: &Value, row: &Value) -> Result<(), String> {
    let mut stage = Stage::new();
    let (host, _) = stage.host(&[provider("", &["", "registry.io", "*", "*.*"])], |_| {
        answer("Registry", &Value::Null, &json!({}))
    });
    ask(&host, text(row, "image"));
    let keys: Vec<_> = host.cached().iter().map(|cached| cached.key.base().to_owned()).collect();
    same(&keys, &vec![text(row, "expected_registry_cache_key").to_owned()])
}

/// Registering a name twice is no panic here, but refused.
fn registration(_file: &Value, row: &Value) -> Result<(), String> {
    let names = ["firstProvider", "secondProvider"].map(|field| row[field].as_str());
    let providers: Vec<_> =
        names.into_iter().flatten().map(|name| provider(name, &["r.io"])).collect();
    let mut stage = Stage::new();
    for provider in &providers {
        stage.script(&provider.name, "");
    }
    let refused = stage.builder(&providers).build().is_err();
    same(&Some(refused), &row["shouldPanic"].as_bool())
}

/// How many providers are asked. Which pod they are told about is not known yet.
fn registered_providers(_file: &Value, row: &Value) -> Result<(), String> {
    let names = row["registered_providers"].as_array().unwrap().iter();
    let providers: Vec<_> = names.map(|name| provider(name.as_str().unwrap(), &["r.io"])).collect();
    if providers.is_empty() {
        // Upstream has no keyring without a configuration; here there is no host.
        return Ok(());
    }
    let mut stage = Stage::new();
    let (host, _) = stage.host(&providers, |_| answer("Image", &Value::Null, &json!({})));
    let asked = u64::try_from(ask(&host, "r.io/app").reports.len()).unwrap();
    fact("providers", &Some(asked), &row["expectedProviderCount"].as_u64())?;
    match row["validatePerPodProviderFields"].as_bool() {
        Some(true) => later("service accounts"),
        _ => Ok(()),
    }
}

fn union(_file: &Value, row: &Value) -> Result<(), String> {
    let given = row["providers"].as_array().unwrap().clone();
    if given.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = (0..given.len()).map(|n| format!("provider-{n}")).collect();
    let providers: Vec<_> = names.iter().map(|name| provider(name, &["*.*.*"])).collect();
    let mut stage = Stage::new();
    let (host, runner) = stage.host(&providers, move |name| {
        let at: usize = name.rsplit('-').next().unwrap().parse().unwrap();
        answer("Image", &json!("0s"), &given[at]["dockerConfig"])
    });
    let found = u64::try_from(ask(&host, text(row, "image")).credentials.len()).unwrap();
    fact("credentials", &Some(found), &row["expectedConfigCount"].as_u64())?;
    fact("found", &Some(found > 0), &row["expectedFound"].as_bool())?;
    fact("each asked once", &runner.runs(), &providers.len())
}

fn concurrency(_file: &Value, row: &Value) -> Result<(), String> {
    let auth = json!({ "test.registry.io": { "Username": "u", "Password": "p" } });
    let mut stage = Stage::new();
    let (host, _) = stage.host(&[provider("", &["test.registry.io"])], move |_| {
        answer("Image", &json!("0s"), &auth)
    });
    let host = Arc::new(host);
    let threads = (0..10).map(|_| {
        let host = host.clone();
        std::thread::spawn(move || {
            (0..5).map(|_| ask(&host, "test.registry.io/image:tag").credentials.len()).collect()
        })
    });
    let found: Vec<Vec<usize>> =
        threads.collect::<Vec<_>>().into_iter().map(|each| each.join().unwrap()).collect();
    let count = usize::try_from(row["expected_each"]["count"].as_u64().unwrap()).unwrap();
    fact("each", &found.concat(), &vec![count; 50])
}

/// The keyring keeps nothing itself: a provider whose answers may not be kept is asked each time.
fn asked_for_every_lookup(_file: &Value, row: &Value) -> Result<(), String> {
    let mut stage = Stage::new();
    let (host, runner) =
        stage.host(&[provider("", &["*"])], |_| answer("Image", &json!("0s"), &json!({})));
    let counts = row["lookups"].as_array().unwrap().iter().map(|image| {
        ask(&host, image.as_str().unwrap());
        runner.runs()
    });
    same(&json!(counts.collect::<Vec<_>>()), &row["expected_provider_calls_after_each"])
}

fn metrics(_file: &Value, row: &Value) -> Result<(), String> {
    let failing = ["test-plugin", "plugin-a", "plugin-a", "plugin-b"];
    let metric = text(row, "metric");
    let mut stage = Stage::new();
    let providers = ["test-plugin", "plugin-a", "plugin-b"].map(|name| provider(name, &[name]));
    let runner = FakeRunner::new(|invocation| {
        Err(RunError::Failed {
            program: invocation.program().into(),
            status: Status::Exited(1),
            stderr: StderrTail::default(),
            elapsed: Duration::from_millis(300),
        })
    });
    for provider in &providers {
        stage.script(&provider.name, "");
    }
    let hashes = match row["labels"]["hash"].as_str() {
        Some(hash) => vec![hash],
        None => vec!["sha256:config1", "sha256:config2"],
    };
    let config = |hash: &str| {
        let mut config = Config::new(providers.clone());
        config.hash = Some(hash.to_owned());
        config
    };
    let host = Host::builder(config(hashes[0]), stage.plugins.path())
        .runner(runner)
        .metrics(&mut stage.registry)
        .build()
        .unwrap();
    for hash in &hashes[1..] {
        host.reload(config(hash)).unwrap();
    }
    for name in failing {
        ask(&host, name);
    }
    let mut shown = String::new();
    text::encode(&mut shown, &stage.registry).unwrap();
    expected_series(row).iter().try_for_each(|line| {
        if shown.lines().any(|each| each == line) {
            Ok(())
        } else {
            Err(format!("no {line} in\n{shown}"))
        }
    })?;
    let family = metric.strip_suffix("_total").unwrap_or(metric);
    let help = row["help"].as_str().map(|help| format!("# HELP {family} {help}"));
    match help {
        Some(help) if !shown.contains(&help) => Err(format!("no {help} in\n{shown}")),
        _ => Ok(()),
    }
}

fn expected_series(row: &Value) -> Vec<String> {
    let metric = text(row, "metric");
    let labelled =
        |name: &str, label: &str, value: &Value| format!("{metric}{{{name}=\"{label}\"}} {value}");
    if let Some(buckets) = row["buckets"].as_array() {
        let label = r#"plugin_name="test-plugin""#;
        let counts = row["expected_cumulative"].as_array().unwrap();
        let bucket = |(le, count): (&Value, &Value)| {
            let le = le.as_f64().map_or_else(|| "+Inf".to_owned(), |le| format!("{le:?}"));
            format!("{metric}_bucket{{le=\"{le}\",{label}}} {count}")
        };
        let mut lines: Vec<String> = buckets.iter().zip(counts).map(bucket).collect();
        lines.push(format!("{metric}_sum{{{label}}} {}", row["expected_sum"]));
        lines.push(format!("{metric}_count{{{label}}} {}", row["expected_count"]));
        return lines;
    }
    let name = if metric.contains("config_info") { "hash" } else { "plugin_name" };
    match &row["expected"] {
        Value::Object(each) => {
            each.iter().map(|(label, value)| labelled(name, label, value)).collect()
        }
        value => vec![labelled(name, text(&row["labels"], name), value)],
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}
