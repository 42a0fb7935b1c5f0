//! Rows about which providers are asked, and what comes of it, judged by a whole host.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use keyfob_api::FeatureGates;
use keyfob_config::Config;
use keyfob_host::Pull;
use serde_json::{Value, json};

use crate::{
    Check,
    accounts::{Accounts, pod, with_attributes},
    fact, provider_wire, same, service_accounts,
    stage::{Stage, answer, answered, ask, block_on, provider},
    text,
};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/provide.json", "Test_ProvideWithCoordinates", provide),
    ("kubelet/provide.json", "TestSingleflightProvide", single_flight),
    ("kubelet/provide.json", "Test_ProvideParallel", provide_parallel),
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
    (
        "kubelet/derived_provider.json",
        "plugin stdout handling (provider configured with credentialprovider.kubelet.k8s.io/v1, defaultCacheDuration 10m)",
        plugin_stdout,
    ),
];

fn provide(_file: &Value, row: &Value) -> Result<(), String> {
    if !row["sa_provider"].is_null() {
        return service_accounts::provide(row);
    }
    let patterns: Vec<&str> =
        row["match_images"].as_array().unwrap().iter().map(|each| each.as_str().unwrap()).collect();
    let config = provider(text(row, "plugin_name"), &patterns);
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
    let stage = Stage::new();
    let accounts = Accounts::new(&stage, "sa-uid", BTreeMap::new());
    let plain = provider("plugin", &["test.registry.io"]);
    let with_accounts = || with_attributes(plain.clone(), "", [&[], &[]]);
    // A token belongs to its pod, so that different tokens are those of different pods.
    let (config, accounts) = match text(row, "name") {
        "no service account provider" => (plain.clone(), accounts),
        "service account mode, token always empty string" => {
            (with_accounts(), accounts.token(Ok("")))
        }
        _ => (with_accounts(), accounts.numbered()),
    };
    stage.script(
        "plugin",
        &format!(
            "echo run >> \"$0.runs\"\nsleep 0.3\ncat <<'END'\n{}\nEND\n",
            String::from_utf8(answer("Registry", &json!("0s"), &json!({}))).unwrap()
        ),
    );
    let host = stage.builder(&[config]).service_accounts(accounts).build().unwrap();
    let host = Arc::new(host);
    block_on(async {
        let asking: Vec<_> = ["a", "b", "c", "d", "e"]
            .map(|name| {
                let (host, pod) = (host.clone(), pod("ns", "sa", [name, name]));
                let pull = Pull::of_repository("test.registry.io").with_pod(pod);
                tokio::spawn(async move { host.credentials(&pull).await })
            })
            .into_iter()
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

/// Registering a name twice is no panic here, but refused.
fn registration(_file: &Value, row: &Value) -> Result<(), String> {
    let names = ["firstProvider", "secondProvider"].map(|field| row[field].as_str());
    let providers: Vec<_> =
        names.into_iter().flatten().map(|name| provider(name, &["r.io"])).collect();
    // A host is built of validated configurations only, so this is where it is refused.
    let refused = Config::new(providers.clone()).validate(FeatureGates::default()).is_err();
    if !refused {
        let stage = Stage::new();
        for provider in &providers {
            stage.script(&provider.name, "");
        }
        stage.builder(&providers).build().map_err(|error| error.to_string())?;
    }
    same(&Some(refused), &row["shouldPanic"].as_bool())
}

/// How many providers are asked, and about which pod.
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
        Some(true) => service_accounts::told_about_pod(row),
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
