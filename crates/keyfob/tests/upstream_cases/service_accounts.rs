//! Rows about pulls with a pod's service account, judged by a whole host and by the bytes of its keys.

use std::collections::BTreeMap;

use keyfob_api::{Chain, FeatureGates};
use keyfob_config::{Config, ProviderConfig};
use keyfob_host::{
    Answer, CacheKey, Host, IdentityError, ProviderOutcome, ServiceAccountKey,
    ServiceAccountsError, Skipped,
};
use keyfob_keyring::ServiceAccountCoordinates;
use serde_json::{Value, json};

use crate::{
    Check,
    accounts::{Accounts, Scene, annotations, pod, with_attributes},
    fact, same,
    stage::{Stage, answer, answered, provider},
    text, unhex,
};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/cache_keys.json", "TestGenerateServiceAccountCacheKey", key_bytes),
    ("kubelet/cache_keys.json", "TestGenerateServiceAccountCacheKey_Deterministic", distinct_keys),
    ("kubelet/cache_keys.json", "TestRequiredAnnotationNotFoundErr", kind_of_error),
    ("kubelet/derived_provider.json", "service account mode", mode),
];

fn require(config: &mut ProviderConfig, required: bool) {
    config.token_attributes.as_mut().unwrap().require_service_account = Some(required);
}

/// The error of a call's one provider, or nothing.
fn error(answer: &Answer) -> Option<String> {
    answer.errors().next().map(|(_, error)| Chain(error).to_string())
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|each| each.as_str().unwrap()).collect()
}

/// A row of `Test_ProvideWithCoordinates` in service-account mode.
pub(crate) fn provide(row: &Value) -> Result<(), String> {
    let (given, pod_of) = (&row["sa_provider"], &row["pod"]);
    let mut stage = Stage::new();
    let account = &given["get_service_account"];
    let uid = account["uid"].as_str().unwrap_or_default();
    let token = given["get_token_error"].as_str().map_or(Ok("token"), Err);
    let accounts = Accounts::new(&stage, uid, annotations(&account["annotations"])).token(token);
    let keys = [&strings(&given["requiredKeys"])[..], &strings(&given["optionalKeys"])];
    let config = provider(text(row, "plugin_name"), &strings(&row["match_images"]));
    let mut config = with_attributes(config, text(given, "cacheType"), keys);
    require(&mut config, given["requireServiceAccount"] != false);
    let response = &row["plugin_response"];
    let scope = response["cacheKeyType"].as_str().unwrap_or("Image");
    let says = answer(scope, &response["cacheDuration"], &response["auth"]);
    let scene = Scene::new(&mut stage, config, &accounts, says);

    let reference = [text(pod_of, "name"), text(pod_of, "uid")];
    let who = pod(text(pod_of, "namespace"), text(pod_of, "serviceAccountName"), reference);
    let given = scene.ask(text(row, "image"), who);

    fact("config", &answered(&given), &row["expected_config"])?;
    fact("coordinates", &coordinates(&given), &row["expected_sa_coordinates"])?;
    let log = text(row, "expected_log_contains");
    let logged = log.split_once("err=\"").and_then(|(_, rest)| rest.split_once("\" provider="));
    let logged = logged.map(|(error, _)| error);
    match &given.reports[0].outcome {
        ProviderOutcome::Skipped(Skipped::MissingAnnotation { key }) => {
            let said = format!("required annotation {key} not found");
            fact("why", &Some(&*said), &logged)
        }
        ProviderOutcome::Skipped(Skipped::NoServiceAccount) => {
            fact("log", &log.starts_with("Service account name is empty"), &true)
        }
        _ => fact("error", &error(&given).as_deref(), &logged),
    }
}

/// What the credentials' source says of the account, in the notation of the rows.
fn coordinates(answer: &Answer) -> Value {
    let logins = answer.reports.iter().find_map(|report| report.outcome.logins());
    let account = logins.and_then(|logins| logins.source().service_account());
    account.map_or(Value::Null, |account| {
        json!({ "Namespace": account.namespace, "Name": account.name, "UID": account.uid })
    })
}

/// A row of `Test_CacheKeyGeneration` in service-account mode.
pub(crate) fn key_of_answer(file: &Value, row: &Value) -> Result<(), String> {
    let groups = file["groups"].as_array().unwrap().iter();
    let group = groups.into_iter().find(|group| group["test"] == "Test_CacheKeyGeneration");
    let annotations = annotations(&group.unwrap()["annotations"]);
    let keys: Vec<&str> = annotations.keys().map(String::as_str).collect();
    let config = provider("", &["*.registry.io"]);
    let config = with_attributes(config, text(row, "sa_cache_type"), [&keys, &[]]);
    let auth = json!({ "*.registry.io": { "Username": "user", "Password": "password" } });
    let says = answer(text(row, "cacheKeyType"), &json!("1h"), &auth);
    let mut stage = Stage::new();
    let accounts = Accounts::new(&stage, "service-account-uid", annotations.clone());
    let scene = Scene::new(&mut stage, config, &accounts.token(Ok("token")), says);
    let who = || pod("namespace", "service-account-name", ["pod", "pod-uid"]);

    let first = scene.ask(text(row, "image"), who());
    let second = scene.ask(text(row, "image"), who());

    fact("keys", &cached(&scene.host), &vec![unhex(text(row, "expected_only_cache_key_hex"))])?;
    fact("second call", &answered(&second), &answered(&first))?;
    fact("its coordinates", &coordinates(&second), &coordinates(&first))?;
    fact("runs", &scene.stdins().len(), &1)
}

fn cached(host: &Host) -> Vec<Vec<u8>> {
    host.cached().iter().map(|cached| cached.key.as_bytes().to_vec()).collect()
}

fn account(row: &Value, uid: &str) -> ServiceAccountCoordinates {
    ServiceAccountCoordinates {
        uid: text(row, uid).into(),
        namespace: text(row, "namespace").into(),
        name: text(row, "sa_name").into(),
    }
}

fn key_bytes(_file: &Value, row: &Value) -> Result<(), String> {
    let token = (text(row, "cacheType") == "Token").then(|| text(row, "token_hash"));
    let annotations = annotations(&row["annotations"]);
    let key = ServiceAccountKey::new(&account(row, "sa_uid"), &annotations, token).unwrap();
    same(key.as_bytes(), &*unhex(text(row, "expected_hex")))
}

/// Against every row of its group.
fn distinct_keys(file: &Value, row: &Value) -> Result<(), String> {
    let groups = file["groups"].as_array().unwrap();
    let group = groups
        .iter()
        .find(|group| group["test"] == "TestGenerateServiceAccountCacheKey_Deterministic");
    let key = |row: &Value| {
        let annotations = annotations(&row["annotations"]);
        let key = ServiceAccountKey::new(&account(row, "uid"), &annotations, None).unwrap();
        (CacheKey::new("registry.io/image", key.as_bytes()).unwrap(), key)
    };
    group.unwrap()["cases"].as_array().unwrap().iter().try_for_each(|other| {
        let is_same = (key(row).0 == key(other).0, key(row).1 == key(other).1);
        fact(text(other, "name"), &is_same, &(row == other, row == other))
    })
}

fn kind_of_error(_file: &Value, row: &Value) -> Result<(), String> {
    let mut stage = Stage::new();
    let accounts = match text(row, "error") {
        typed if typed.ends_with("(typed)") => Accounts::new(&stage, "uid", BTreeMap::new()),
        other => {
            Accounts::failing(&stage, IdentityError::Unavailable(ServiceAccountsError::new(other)))
        }
    };
    let config = with_attributes(provider("", &["r.io"]), "", [&["something"], &[]]);
    let scene = Scene::new(&mut stage, config, &accounts, Vec::new());
    let given = scene.ask("r.io/app", pod("ns", "sa", ["pod", "uid"]));
    let skipped = matches!(
        given.reports[0].outcome,
        ProviderOutcome::Skipped(Skipped::MissingAnnotation { .. })
    );
    same(&Some(skipped), &row["expected"].as_bool())
}

/// How the rows of the derived group set the scene: what the name of a row says.
fn staged(row: &Value, values: &[usize]) -> (Stage, ProviderConfig, Accounts, Vec<u8>) {
    let name = text(row, "name");
    let stage = Stage::new();
    let is_by_token =
        row["expected_cache_key_hex"].as_str().is_some_and(|key| key.contains("0005746f6b656e"));
    let mut given = annotations(&row["request_annotations"]);
    for (key, length) in ["a", "b"].into_iter().zip(values) {
        given.insert(key.into(), "x".repeat(*length));
    }
    let mut keys: Vec<&str> = given.keys().map(String::as_str).collect();
    if name == "required annotation absent" {
        keys.push("absent");
    }
    let cache_type = if is_by_token { "Token" } else { "ServiceAccount" };
    let config = with_attributes(provider("", &["r.io"]), cache_type, [&keys, &["optional"]]);
    let accounts = match name {
        "SA lookup fails (404, 403, network, standalone)" => {
            Accounts::failing(&stage, IdentityError::Standalone)
        }
        "token request fails" => {
            Accounts::new(&stage, "sa-uid", given).token(Err("forbidden audience"))
        }
        _ => Accounts::new(&stage, "sa-uid", given),
    };
    let login = |[user, password]: [&str; 2]| json!({ "Username": user, "Password": password });
    let auth = match name {
        _ if name.starts_with("plugin returns the token as password") => {
            json!({ "r.io": login(["u", "tok"]) })
        }
        _ if name.starts_with("plugin returns the token as username") => {
            json!({ "r.io": login(["tok", "p"]) })
        }
        _ if name.starts_with("plugin returns the token for an unrelated") => {
            json!({ "r.io": login(["u", "p"]), "elsewhere.io": login(["u", "tok"]) })
        }
        _ => json!({ "r.io": login(["u", "p"]) }),
    };
    (stage, config, accounts, answer("Registry", &json!("1h"), &auth))
}

fn mode(_file: &Value, row: &Value) -> Result<(), String> {
    match row["cases"].as_array() {
        None => mode_with(row, row, &[]),
        Some(cases) => cases.iter().try_for_each(|case| match text(case, "annotations") {
            "two values of 40000 bytes" => mode_with(row, case, &[40_000, 40_000]),
            "one value of 70000 bytes" => mode_with(row, case, &[70_000]),
            _ => Err("no such annotations".into()),
        }),
    }
}

fn mode_with(row: &Value, case: &Value, values: &[usize]) -> Result<(), String> {
    let (mut stage, mut config, accounts, says) = staged(row, values);
    require(&mut config, !text(row, "name").contains("requireServiceAccount=false"));
    let scene = Scene::new(&mut stage, config, &accounts, says);
    let name = if text(row, "name").starts_with("no SA name") { "" } else { "sa" };
    let ask = || scene.ask("r.io/app", pod("ns", name, ["pod", "pod-uid"]));
    if text(row, "name") == "cached credentials present" {
        ask();
    }
    let (before, runs) = (scene.accounts.asked(), scene.stdins().len());

    let given = ask();

    let [gets, tokens] = scene.accounts.asked();
    fact("gets", &json!(gets - before[0]), &row["sa_gets_per_call"])?;
    fact("tokens", &json!(tokens - before[1]), &row["token_gets_per_call"])?;
    fact("exec", &json!(scene.stdins().len() > runs), &row["exec"])?;
    fact("error", &json!(error(&given)), &case["expected_error_exact"])?;
    fact("stdin", &json!(scene.stdins().first()), &row["expected_stdin"])?;
    let keys = row["expected_cache_key_hex"].as_str().map(unhex);
    fact("keys", &cached(&scene.host), &keys.into_iter().collect::<Vec<_>>())
}

/// The rows about service accounts among the executed extras.
pub(crate) fn executed(row: &Value) -> Result<(), String> {
    let mut stage = Stage::new();
    let mut config = with_attributes(provider("", &["r.io"]), "ServiceAccount", [&[], &[]]);
    let accounts = match text(row, "name") {
        "SA lookup fails although requireServiceAccount=false" => {
            require(&mut config, false);
            Accounts::failing(&stage, IdentityError::Unavailable(ServiceAccountsError::new("boom")))
        }
        _ => Accounts::new(&stage, "sa-uid", BTreeMap::new()).token(Ok("")),
    };
    let auth = json!({ "r.io": { "Username": "u", "Password": "" } });
    let scene = Scene::new(&mut stage, config, &accounts, answer("Registry", &json!("1h"), &auth));

    let given = scene.ask("r.io/app", pod("ns", "sa", ["pod", "pod-uid"]));

    fact("ok", &json!(error(&given).is_none()), &row["expected_ok"])?;
    fact("error", &json!(error(&given)), &row["expected_error_exact"])?;
    fact("stdin", &json!(scene.stdins().first()), &row["expected_stdin"])
}

/// What a provider is told about the pod. Without the gate nobody may want to know.
pub(crate) fn told_about_pod(row: &Value) -> Result<(), String> {
    let mut stage = Stage::new();
    let accounts = Accounts::new(&stage, "uid", BTreeMap::new());
    let config = with_attributes(provider("", &["r.io"]), "", [&[], &[]]);
    if row["featureGateEnabled"] == false {
        let mut gates = FeatureGates::default();
        gates.service_account_token = false;
        return same(&Config::new([config]).validate(gates).is_err(), &true);
    }
    let says = answer("Image", &Value::Null, &json!({}));
    let scene = Scene::new(&mut stage, config, &accounts, says);
    scene.ask("r.io/app", pod("test-namespace", "test-sa", ["test-pod", "test-uid"]));
    let request = &accounts.requests()[0];
    let bound = request.pod.clone().unwrap();
    let expected = |field: &str| text(row, field);
    fact("namespace", &*request.namespace, expected("expectedPodNamespace"))?;
    fact("account", &*request.service_account, expected("expectedServiceAccountName"))?;
    fact("pod", &*bound.name, expected("expectedPodName"))?;
    fact("uid", &*bound.uid, expected("expectedPodUID"))
}
