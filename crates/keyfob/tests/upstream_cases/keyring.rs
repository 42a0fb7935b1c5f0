//! Rows about keyrings: which credentials an image gets, and in which order.
//!
//! `TestProvidersDockerKeyring` is not judged here: nothing in a keyring of ours calls a provider.

use std::sync::Arc;

use keyfob_api::MatchTarget;
use keyfob_keyring::{
    Credential, DockerConfig, Login, Logins, PullSecret, SecretCoordinates, Source, select,
};
use serde_json::{Value, json};

use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/keyring.json", "TestDockerKeyringForGlob", one_entry),
    ("kubelet/keyring.json", "TestKeyringMiss", one_entry),
    ("kubelet/keyring.json", "DockerHub defaults", docker_hub),
    ("kubelet/keyring.json", "TestIsDefaultRegistryMatch", default_registry),
    ("kubelet/keyring.json", "TestDockerKeyringLookup", hashed_lookup),
    ("kubelet/keyring.json", "TestIssue3797", hashed_lookup),
    ("kubelet/secrets_keyring.json", "Test_MakeDockerKeyring", secrets),
    ("kubelet/derived_matching.json", "derived keyring lookup", providers),
    ("kubelet/go_verified_extra.json", "random keyrings", providers),
    ("kubelet/go_verified_extra.json", "chosen keyrings", providers),
];

fn one_entry(_: &Value, row: &Value) -> Result<(), String> {
    let found = in_dockercfg(text(row, "dockercfg_key"), text(row, "lookup_image"));
    fact("found", &Value::from(!found.is_empty()), &row["expected_found"])?;
    let Some(expected) = row.get("expected_first") else { return Ok(()) };
    fact("first", &found.first().map(|first| shown(first.login())), &Some(expected.clone()))
}

fn docker_hub(_: &Value, row: &Value) -> Result<(), String> {
    let found = in_dockercfg("https://index.docker.io/v1/", text(row, "lookup_image"));
    fact("found", &Value::from(!found.is_empty()), &row["expected_found"])?;
    let max = row.get("expected_count_max").and_then(Value::as_u64).unwrap_or(u64::MAX);
    fact("not too many", &(found.len() as u64 <= max), &true)
}

/// Upstream's fixture: one entry of a `.dockercfg` under the key.
fn in_dockercfg(key: &str, image: &str) -> Vec<Credential> {
    let entry = json!({key: {"email": "foo@bar.baz", "auth": "Zm9vOmJhcg=="}});
    let config = DockerConfig::read_legacy(entry.to_string().as_bytes()).unwrap();
    look_up(image, &[Arc::new(config.into_logins(Source::provider("a")))])
}

/// Only such an image finds Docker Hub's key when nothing matches, and nothing does without a target.
fn default_registry(_: &Value, row: &Value) -> Result<(), String> {
    let hub = Logins::new(Source::provider("a"), [("index.docker.io", Login::default())]);
    let found = !select(text(row, "image"), None, &[hub.into()]).is_empty();
    fact("default registry", &Value::from(found), &row["expected"])
}

/// The keys of these two groups stand in prose only: in their `harness`, as `"key"->name`.
fn hashed_lookup(file: &Value, row: &Value) -> Result<(), String> {
    let groups = file["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["cases"].as_array().unwrap().contains(row));
    let group = group.unwrap();
    let entries = arrows(text(group, "harness")).into_iter().map(|(key, name)| {
        let credential = &group["credentials"][&name];
        (key, login(credential))
    });
    let logins = Logins::new(Source::provider("a"), entries);
    let found = look_up(text(row, "image"), &[logins.into()]);
    fact("found", &Value::from(!found.is_empty()), &row["expected_ok"])?;
    let names = row["expected_creds_in_order"].as_array().unwrap();
    let expected: Vec<Value> =
        names.iter().map(|name| group["credentials"][name.as_str().unwrap()].clone()).collect();
    let ours: Vec<Value> = found
        .iter()
        .map(|credential| {
            let mut shown = shown(credential.login());
            shown["hash"] = credential.hash().into();
            shown
        })
        .collect();
    fact("credentials", &ours, &expected)
}

fn arrows(harness: &str) -> Vec<(String, String)> {
    let pairs = harness.match_indices("\"->").map(|(at, arrow)| {
        let key = harness[..at].rsplit('"').next().unwrap();
        let rest = &harness[at + arrow.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        (key.to_owned(), rest[..end].to_owned())
    });
    pairs.collect()
}

fn secrets(_: &Value, row: &Value) -> Result<(), String> {
    let secrets: Vec<PullSecret> =
        row["pull_secrets"].as_array().unwrap().iter().map(pull_secret).collect();
    let logins = match PullSecret::all_logins(&secrets) {
        Ok(logins) => logins,
        Err(_) if row.get("expected_error").is_some() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let found = look_up(text(row, "image"), &logins);
    let mut ours: Vec<Value> = found.iter().map(tracked).collect();
    // The other keyring of the union is a fake of upstream's test; its answer comes after ours.
    let default = &row["default_keyring"];
    for credential in default.get("returns").and_then(Value::as_array).into_iter().flatten() {
        let mut credential = credential.clone();
        credential["hash"] = "".into();
        credential["secret_source"] = Value::Null;
        ours.push(credential);
    }
    let is_found = match logins.as_slice() {
        [] => default.get("ok").cloned().unwrap_or_default(),
        _ => Value::from(!ours.is_empty()),
    };
    fact("credentials", &Value::from(ours), &row["expected"])?;
    fact("found", &is_found, &row["expected_found"])
}

fn pull_secret(row: &Value) -> PullSecret {
    let data = row["data"].as_object().unwrap().iter();
    PullSecret {
        coordinates: SecretCoordinates {
            uid: text(row, "uid").to_owned(),
            namespace: text(row, "namespace").to_owned(),
            name: text(row, "name").to_owned(),
        },
        secret_type: text(row, "type").to_owned(),
        data: data
            .map(|(key, value)| (key.clone(), value.as_str().unwrap().as_bytes().to_vec().into()))
            .collect(),
    }
}

fn tracked(credential: &Credential) -> Value {
    let Source::PullSecret(secret) = credential.source() else {
        panic!("not from a secret: {credential:?}")
    };
    json!({
        "username": credential.username(),
        "password": credential.password().expose(),
        "hash": credential.hash(),
        "secret_source": {"Name": secret.name, "Namespace": secret.namespace, "UID": secret.uid},
    })
}

/// Each provider is a source; a credential is its user name.
fn providers(_: &Value, row: &Value) -> Result<(), String> {
    let providers = row["providers_in_order"].as_array().unwrap().iter();
    let sources: Vec<Arc<Logins>> = providers
        .map(|provider| {
            let entries = provider.as_object().unwrap().iter().map(|(key, name)| {
                (key, Login { username: name.as_str().unwrap().into(), ..Login::default() })
            });
            Arc::new(Logins::new(Source::provider("a"), entries))
        })
        .collect();
    let found = look_up(text(row, "image"), &sources);
    let mut ours: Vec<&str> = found.iter().map(Credential::username).collect();
    let expected = row["expected_creds_in_order"].as_array().unwrap();
    let mut expected: Vec<&str> = expected.iter().map(|name| name.as_str().unwrap()).collect();
    if row["order_is_deterministic_upstream"] == false {
        ours.sort_unstable();
        expected.sort_unstable();
    }
    fact("credentials", &ours, &expected)?;
    fact("found", &Value::from(!found.is_empty()), &row["expected_ok"])
}

fn look_up(image: &str, sources: &[Arc<Logins>]) -> Vec<Credential> {
    select(image, MatchTarget::parse(image).ok().as_ref(), sources)
}

fn login(row: &Value) -> Login {
    Login {
        username: text(row, "username").into(),
        password: text(row, "password").into(),
        email: text(row, "email").into(),
    }
}

fn shown(login: &Login) -> Value {
    let Login { username, password, email } = login;
    json!({"username": username, "password": password.expose(), "email": email})
}
