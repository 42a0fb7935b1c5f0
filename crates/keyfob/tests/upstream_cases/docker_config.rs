//! Rows about docker's configuration files.

use std::{fs, sync::Arc, time::Duration};

use keyfob_keyring::{DockerConfig, DockerConfigError, Login, Logins, NodeDockerConfig};
use keyfob_testkit::{ManualClock, MapEnvironment};
use serde_json::{Value, json};

use crate::{Check, fact, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/docker_config.json", "TestDockerConfigEntryJSONDecode", entry),
    ("kubelet/docker_config.json", "TestDecodeDockerConfigFieldAuth", auth),
    ("kubelet/docker_config.json", "TestDockerConfigEntryJSONCompatibleEncode", encode),
    ("kubelet/docker_config.json", "TestReadDockerConfigFileFromBytes", legacy),
    ("kubelet/docker_config.json", "TestReadDockerConfigJSONFileFromBytes", json_form),
    (
        "kubelet/docker_config.json",
        "TestDockerConfigJsonJSONDecode / TestDockerConfigJSONDecode",
        either,
    ),
    ("kubelet/docker_config.json", "TestReadDockerConfigFile", search),
    ("kubelet/docker_config.json", "TestCachingProvider", caching),
];

/// What upstream leaves in a half-read entry nobody sees: only that it fails is compared.
fn entry(_: &Value, row: &Value) -> Result<(), String> {
    let config = DockerConfig::read_legacy(format!(r#"{{"r":{}}}"#, text(row, "input")).as_bytes());
    fact("fails", &Value::from(config.is_err()), &row["fail"])?;
    let Ok(config) = config else { return Ok(()) };
    fact("entry", &shown(&config)["r"], &row["expect"])
}

fn auth(_: &Value, row: &Value) -> Result<(), String> {
    let login = Login::from_auth(text(row, "input"));
    fact("fails", &Value::from(login.is_none()), &row["fail"])?;
    let login = login.unwrap_or_default();
    fact("user name", &*login.username, text(row, "username"))?;
    fact("password", login.password.expose().as_str(), text(row, "password"))
}

fn encode(_: &Value, row: &Value) -> Result<(), String> {
    let field = |name: &str| text(&row["input"], name);
    let login = Login {
        username: field("Username").into(),
        password: field("Password").into(),
        email: field("Email").into(),
    };
    let text_of_all = [("r", login)].into_iter().collect::<DockerConfig>().encode();
    let expected = format!(r#"{{"auths":{{"r":{}}}}}"#, text(row, "expect"));
    fact("text", text_of_all.expose(), &expected)
}

fn legacy(_: &Value, row: &Value) -> Result<(), String> {
    read(row, DockerConfig::read_legacy)
}

fn json_form(_: &Value, row: &Value) -> Result<(), String> {
    read(row, DockerConfig::read_json)
}

fn read(
    row: &Value,
    read: fn(&[u8]) -> Result<DockerConfig, DockerConfigError>,
) -> Result<(), String> {
    match read(text(row, "input").as_bytes()) {
        Ok(config) => fact("configuration", &shown(&config), &row["expectedCfg"]),
        Err(error) => fact("error", error.to_string().as_str(), text(row, "expectedErrorMsg")),
    }
}

/// The row's name says which form; ours must tell them apart by itself as well.
fn either(_: &Value, row: &Value) -> Result<(), String> {
    let input = text(row, "input").as_bytes();
    let by_name = match text(row, "name") {
        "dockercfg form" => DockerConfig::read_legacy,
        _ => DockerConfig::read_json,
    };
    for read in [by_name, DockerConfig::read] {
        let config = read(input).map_err(|error| error.to_string())?;
        let short = |(key, login): (&str, &Login)| {
            let Login { username, password, email } = login;
            (key.to_owned(), json!([username, password.expose(), email]))
        };
        let ours: Value = config.entries().map(short).collect::<serde_json::Map<_, _>>().into();
        fact("configuration", &ours, &row["expected"])?;
    }
    Ok(())
}

fn search(_: &Value, row: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let preferred = folder.path().join("preferred");
    fs::create_dir(&preferred).unwrap();
    fs::write(preferred.join(text(row, "file")), text(row, "content")).unwrap();
    let environment = MapEnvironment::from_iter([("HOME", folder.path())]);
    let clock = Arc::new(ManualClock::default());
    let config = NodeDockerConfig::search(&preferred, folder.path(), &environment, clock);
    let found = config.logins().map_err(|error| error.to_string())?;
    fact("error", &Value::from(found.is_none()), &row["expected_error"])
}

/// Bursts of four calls, a lifetime apart; each reading makes a new value.
fn caching(_: &Value, row: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, r#"{"auths":{"r":{}}}"#).unwrap();
    let (clock, lifetime) = (ManualClock::default(), Duration::from_secs(1));
    let config = NodeDockerConfig::file(path, Arc::new(clock.clone())).with_lifetime(lifetime);
    let mut readings: Vec<Arc<Logins>> = Vec::new();
    for expected in row["expected_inner_calls_after_each_burst"].as_array().unwrap() {
        for _ in 0..4 {
            let logins = config.logins().unwrap().unwrap();
            if !readings.iter().any(|seen| Arc::ptr_eq(seen, &logins)) {
                readings.push(logins);
            }
        }
        fact("readings", &Value::from(readings.len()), expected)?;
        clock.advance(lifetime);
    }
    Ok(())
}

fn shown(config: &DockerConfig) -> Value {
    let long = |(key, login): (&str, &Login)| {
        let Login { username, password, email } = login;
        let entry = json!({"Username": username, "Password": password.expose(), "Email": email});
        (key.to_owned(), entry)
    };
    config.entries().map(long).collect::<serde_json::Map<_, _>>().into()
}
