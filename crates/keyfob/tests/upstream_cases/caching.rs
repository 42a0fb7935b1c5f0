//! Rows about what a host keeps, under which key and for how long.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyfob_api::GoDuration;
use keyfob_config::ProviderConfig;
use keyfob_exec::Clock as _;
use keyfob_host::{CacheKey, PodIdentity, ProviderOutcome, Pull, ServiceAccountKey};
use keyfob_keyring::ServiceAccountCoordinates;
use serde_json::{Value, json};

use crate::{
    Check,
    accounts::{Accounts, annotations, pod, with_attributes},
    fact, same, service_accounts,
    stage::{Stage, answer, answered, ask, block_on, provider},
    text, unhex,
};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/provide.json", "Test_NoCacheResponse", no_cache),
    ("kubelet/cache_lookup.json", "Test_getCachedCredentials", cache_lookup),
    (
        "kubelet/cache_lookup.json",
        "Test_getCachedCredentials_pluginUsingServiceAccount",
        cache_lookup_with_account,
    ),
    ("kubelet/cache_keys.json", "TestGenerateCacheKey", cache_key),
    ("kubelet/cache_keys.json", "Test_CacheKeyGeneration", cache_key_of_answer),
    ("kubelet/derived_matching.json", "derived registry cache key", registry_cache_key),
    ("providers/provider-host-cache.json", "cases", another_hosts_cache),
];

/// The rows share a store and a clock, so each is judged after those before it.
fn cache_lookup(file: &Value, row: &Value) -> Result<(), String> {
    look_up_until(&file["groups"][0], row, provider("", &["*"]), &PodIdentity::default())
}

fn cache_lookup_with_account(file: &Value, row: &Value) -> Result<(), String> {
    let keys = ["prefix.io/annotation-1", "prefix.io/annotation-2"];
    let config = with_attributes(provider("", &["*"]), "", [&keys, &[]]);
    let who = pod("namespace", "serviceAccountName", ["pod", "pod-uid"]);
    let account = ServiceAccountCoordinates {
        uid: "service-account-uid".into(),
        namespace: who.namespace.clone(),
        name: who.service_account.clone(),
    };
    let key = ServiceAccountKey::new(&account, &two_annotations(), None).unwrap();
    let group = &file["groups"][1];
    fact("key", key.as_bytes(), &*unhex(text(group, "service_account_key_hex")))?;
    look_up_until(group, row, config, &who)
}

fn two_annotations() -> BTreeMap<String, String> {
    annotations(&json!({ "prefix.io/annotation-1": "value1", "prefix.io/annotation-2": "value2" }))
}

fn look_up_until(
    group: &Value,
    row: &Value,
    config: ProviderConfig,
    who: &PodIdentity,
) -> Result<(), String> {
    let rows = group["cases"].as_array().unwrap();
    let until = rows.iter().position(|each| each == row).unwrap();
    let mut stage = Stage::new();
    stage.accounts = Some(Accounts::new(&stage, "service-account-uid", two_annotations()));
    let start = stage.clock.now();
    let wanted: Arc<Mutex<Value>> = Arc::default();
    let told = wanted.clone();
    let (host, _) = stage.host(&[config], move |_| {
        let told = told.lock().unwrap().clone();
        answer("Image", &told["duration"], &told["auth"])
    });
    let ask =
        |image: &str| block_on(host.credentials(&Pull::of_repository(image).with_pod(who.clone())));
    for row in &rows[..=until] {
        let passed = stage.clock.now().duration_since(start).unwrap();
        *wanted.lock().unwrap() = insertion(row, passed);
        ask(&inserted_image(row));
        stage
            .clock
            .advance(GoDuration::parse(text(row, "advance_clock")).unwrap().to_std().unwrap());
        *wanted.lock().unwrap() = json!({ "duration": "0s", "auth": {} });
        let given = ask(text(row, "lookup_image"));
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

/// What the plugin must give for the row's entry to be stored.
fn insertion(row: &Value, passed: Duration) -> Value {
    let after = text(row, "insert_expires_at").strip_prefix("T0").unwrap().trim_start_matches('+');
    let after = GoDuration::parse(if after.is_empty() { "0s" } else { after }).unwrap();
    let nanos = after.as_nanos() - i64::try_from(passed.as_nanos()).unwrap();
    let duration = GoDuration::from_nanos(nanos).to_string();
    json!({ "duration": duration, "auth": row["insert_credentials"] })
}

/// The image in the key of the row's entry; one row has nothing else in it.
fn inserted_image(row: &Value) -> String {
    let key = unhex(text(row, "insert_key_hex"));
    let length = usize::from(u16::from_be_bytes([key[0], key[1]]));
    let image = key.get(2..2 + length).unwrap_or(&key);
    String::from_utf8(image.to_vec()).unwrap()
}

fn no_cache(_file: &Value, row: &Value) -> Result<(), String> {
    let auth = row["expected_config"].clone();
    let mut stage = Stage::new();
    let (host, _) = stage
        .host(&[provider("", &["*.registry.io"])], move |_| answer("Global", &json!("0s"), &auth));
    fact("config", &answered(&ask(&host, text(row, "image"))), &row["expected_config"])?;
    fact("keys", &host.cached().len(), &row["expected_cache_keys"].as_array().unwrap().len())
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

fn cache_key_of_answer(file: &Value, row: &Value) -> Result<(), String> {
    if !row["sa_cache_type"].is_null() {
        return service_accounts::key_of_answer(file, row);
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
