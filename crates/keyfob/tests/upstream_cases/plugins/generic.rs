//! The plugins that know no cloud, and what all plugins share.

use std::time::Duration;

use keyfob_plugin::Margin;
use serde_json::{Value, json};

use super::Plugin;
use crate::{Check, fact, same, text};

pub(super) const CHECKS: &[(&str, &str, Check)] = &[
    ("providers/cache-margin.json", "cases", cache_margin),
    ("providers/docker-credential-helper.json", "cases", docker_helper),
    ("providers/docker-credential-helper.json", "server_url_forms", server_url_form),
    ("providers/echo-token.json", "cases", echo),
    ("providers/registry-host-of-image.json", "cases", registry_host),
    ("providers/registry-host-of-image.json", "ocir_parse", registry_host),
];

fn cache_margin(_file: &Value, row: &Value) -> Result<(), String> {
    let life = u64::try_from(row["expires_in"].as_i64().unwrap()).unwrap_or(0);
    let margin = match row["margin_ms"].as_u64() {
        Some(margin) => Margin::Fixed(Duration::from_millis(margin)),
        None => Margin::Tenth,
    };
    same(&Some(margin.of(Duration::from_secs(life)).as_secs()), &row["expect_s"].as_u64())
}

fn echo(_file: &Value, row: &Value) -> Result<(), String> {
    let spoken = Plugin::new("echo").say(row["stdin"].to_string().as_bytes());
    if let Some(error) = row["error_contains"].as_str() {
        return spoken.fails_with(error);
    }
    let answer = spoken.answer()?;
    let Some(expect) = row["expect"].as_object() else {
        // A field that is not known yet: the kubelet may grow one tomorrow.
        return fact("logins", &answer["auth"].as_object().map(serde_json::Map::len), &Some(1));
    };
    fact("cacheKeyType", &answer["cacheKeyType"], &expect["cacheKeyType"])?;
    fact("cacheDuration", &answer["cacheDuration"], &expect["cacheDuration"])?;
    for (key, login) in expect["auth"].as_object().unwrap() {
        fact("login", &json!(spoken.login(key)?), login)?;
    }
    Ok(())
}

/// Echo answers under the registry of the image.
fn registry_host(_file: &Value, row: &Value) -> Result<(), String> {
    let (image, host) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
    let request = json!({
        "kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": image, "serviceAccountToken": "token",
    });
    let spoken = Plugin::new("echo").say(request.to_string().as_bytes());
    if host == "ERROR" {
        spoken.fails_with("image")
    } else {
        same(&spoken.keys()?, &vec![host.to_owned()])
    }
}

fn docker_helper(_file: &Value, row: &Value) -> Result<(), String> {
    let mut plugin = Plugin::new("docker-config");
    let config = json!({"auths": {"registry.example.com": {"auth": "ZGF2aWQ6cGFzc3cwcmQx"}}});
    std::fs::write(plugin.directory.path().join("config.json"), config.to_string()).unwrap();
    let directory = plugin.directory.path().to_str().unwrap().to_owned();
    plugin = plugin.env("DOCKER_CONFIG", &directory);
    for argument in row["argv"].as_array().unwrap() {
        plugin = plugin.arg(argument.as_str().unwrap());
    }
    let stdin = match &row["stdin"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        object => object.to_string(),
    };
    let spoken = plugin.say(stdin.as_bytes());
    fact("code", &Some(i64::from(spoken.code)), &row["exit"].as_i64())?;
    if let Some(stdout) = row["stdout"].as_str() {
        fact("stdout", spoken.stdout.trim(), stdout)?;
    }
    if let Some(part) = row["stdout_contains"].as_str() {
        fact("stdout", &spoken.stdout.contains(part), &true)?;
    }
    if row["stdout_regex"].is_string() {
        let words: Vec<_> = spoken.stdout.split_whitespace().collect();
        let bracketed =
            words.get(1).is_some_and(|word| word.starts_with('(') && word.ends_with(')'));
        fact("name (package) version", &(words.len(), bracketed), &(3, true))?;
    }
    if row["stdout_json"].is_object() {
        let said: Value =
            serde_json::from_str(&spoken.stdout).map_err(|_| format!("{spoken:?}"))?;
        if row["argv"][0] == "get" {
            return fact(
                "a login",
                &(said["Username"].is_string(), said["Secret"].is_string()),
                &(true, true),
            );
        }
        return fact("an object", &said.is_object(), &true);
    }
    Ok(())
}

/// A login is found however a client spells its server.
fn server_url_form(_file: &Value, row: &Value) -> Result<(), String> {
    let config = json!({"auths": {
        "registry.example.com": {"auth": "ZGF2aWQ6cGFzc3cwcmQx"},
        "registry.example.com:5000": {"auth": "ZGF2aWQ6cGFzc3cwcmQx"},
        "https://index.docker.io/v1/": {"auth": "ZGF2aWQ6cGFzc3cwcmQx"},
    }});
    let spellings = [
        ("", "registry.example.com"),
        ("port", "registry.example.com:5000"),
        ("index.docker.io", "https://index.docker.io/v1/"),
        ("repository", "registry.example.com/team/app"),
        ("https:// prefix", "https://registry.example.com"),
    ];
    let form = text(row, "form");
    for (_, spelling) in spellings.iter().filter(|(mark, _)| form.contains(mark)) {
        let plugin =
            Plugin::new("docker-config").arg("--path").file("config.json", &config.to_string());
        let spoken = plugin.arg("get").say(spelling.as_bytes());
        fact(spelling, &spoken.stdout.contains("passw0rd1"), &true)?;
    }
    Ok(())
}
