//! `auth-provider-gcp`.

use keyfob_testkit::{Internet, Response};
use serde_json::{Value, json};

use super::Plugin;
use crate::{Check, fact, same, text};

pub(super) const CHECKS: &[(&str, &str, Check)] = &[
    ("providers/dockerconfig-auth-decode.json", "cases", auth_decode),
    ("providers/dockerconfig-auth-decode.json", "entry_cases", entry_decode),
    ("providers/gcp-flags.json", "cases", flags),
    ("providers/gcp-metadata.json", "cache_env", cache_env),
    ("providers/gcp-metadata.json", "cases", metadata),
    ("providers/gcp-workload-identity.json", "cases", workload_identity),
];

const TOKEN: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const DOCKERCFG: &str = "/computeMetadata/v1/instance/attributes/google-dockercfg";
const DOCKERCFG_URL: &str = "/computeMetadata/v1/instance/attributes/google-dockercfg-url";

fn token(value: &str) -> Response {
    let body = json!({"access_token": value, "expires_in": 3600, "token_type": "Bearer"});
    Response::json(body.to_string())
}

/// The node's metadata service and the rest of Google.
fn plugin(internet: &Internet) -> Plugin {
    Plugin::new("gcp")
        .arg("get-credentials")
        .through(internet)
        .env("HTTP_PROXY", &internet.url())
        .env("GCE_METADATA_HOST", &internet.address().to_string())
}

fn flags(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = Internet::start(|request| match request.path() {
        TOKEN => token("node"),
        DOCKERCFG_URL => Response::text("https://cfg.example.com/"),
        _ => Response::json(r#"{"gcr.io":{"auth":"Zm9vOmJhcg=="}}"#),
    });
    let mut plugin = plugin(&internet).arg("--authFlow").arg(text(row, "authFlow"));
    for (flag, field) in
        [("--identity-provider", "identity_provider"), ("--project-id", "project_id")]
    {
        if let Some(value) = row[field].as_str() {
            plugin = plugin.arg(flag).arg(value);
        }
    }
    let spoken = plugin.ask("gcr.io/app", row);
    match row["ok"] == true {
        true => spoken.answer().map(|_| ()),
        false if row["error"] == "project-id required" => spoken.fails_with("project-id"),
        false => spoken.fails_with("authFlow"),
    }
}

fn metadata(_file: &Value, row: &Value) -> Result<(), String> {
    let issued = row["token"].as_str().unwrap_or("ya29.token").to_owned();
    let (body, second) = (row["metadata_body"].clone(), row["second_fetch"].clone());
    let internet = Internet::start(move |request| match request.path() {
        TOKEN => token(&issued),
        DOCKERCFG => Response::json(body.to_string()),
        DOCKERCFG_URL => Response::text(body.as_str().unwrap_or_default()),
        "/my/value" => Response::json(second.to_string()),
        _ => Response::status(404),
    });
    let image = row["image"].as_str().unwrap_or("hello.kubernetes.io/app");
    let mut plugin = plugin(&internet).arg("--authFlow").arg(text(row, "flow"));
    if row["note"].as_str().is_some_and(|note| note.contains("non-Google host")) {
        // Ours offers a token to a host that is not Google's only when it is named.
        plugin = plugin.arg("--registry").arg("registry.k8s.io");
    }
    let spoken = plugin.ask(image, row);
    let (answer, expect) = (spoken.answer()?, &row["expect"]);
    let auth = answer["auth"].as_object().cloned().unwrap_or_default();
    for key in expect["auth_keys_include"].as_array().into_iter().flatten() {
        fact("key", &auth.contains_key(key.as_str().unwrap()), &true)?;
    }
    if let Some(keys) = expect["auth_keys"].as_array() {
        let mut keys: Vec<_> = keys.iter().filter_map(Value::as_str).collect();
        keys.sort_unstable();
        fact("keys", &auth.keys().map(String::as_str).collect::<Vec<_>>(), &keys)?;
    }
    for part in ["username", "password"] {
        if !expect[part].is_null() {
            let given: Vec<_> = auth.values().map(|login| &login[part]).collect();
            fact(part, &given.iter().all(|given| **given == expect[part]), &true)?;
            fact("logins", &given.is_empty(), &false)?;
        }
    }
    if row.get("email_status").is_some() {
        // The e-mail is of no use, so ours does not ask for it: there is a login.
        return fact("logins", &auth.is_empty(), &false);
    }
    if expect["cacheKeyType"].is_string() {
        fact("cacheKeyType", &answer["cacheKeyType"], &expect["cacheKeyType"])?;
    }
    Ok(())
}

fn cache_env(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = Internet::start(|_| token("node"));
    let (name, value) =
        row.as_object().unwrap().iter().find(|(name, _)| name.starts_with("KUBE")).unwrap();
    let spoken = plugin(&internet).env(name, value.as_str().unwrap()).ask("gcr.io/app", row);
    let expected = text(row, "expect");
    if expected.starts_with("error") {
        return spoken.fails_with(name);
    }
    let answer = spoken.answer()?;
    match name.as_str() {
        "KUBE_SIDECAR_CACHE_TYPE" => same(&answer["cacheKeyType"], expected),
        // The peer keeps nothing unless told; ours goes by the token's own life, and is told here of less.
        _ if value == "" => fact("kept", &(answer["cacheDuration"] != "0s"), &true),
        _ => {
            let near = ["1h0m0s", "59m59s", "60m0s"];
            fact("near an hour", &near.iter().any(|near| answer["cacheDuration"] == *near), &true)
        }
    }
}

fn workload_identity(file: &Value, row: &Value) -> Result<(), String> {
    let sts = text(row, "sts").to_owned();
    let internet = Internet::start(move |request| match (request.host.as_str(), request.path()) {
        ("sts.googleapis.com", "/v1/token") if sts.starts_with("200") => {
            token(sts.trim_start_matches("200 ").trim_start_matches("access_token="))
        }
        ("sts.googleapis.com", _) => {
            Response::json(r#"{"error":"invalid_grant"}"#).with_status(400)
        }
        (_, TOKEN) => token("node-sa-token"),
        _ => Response::status(404),
    });
    let mut plugin = plugin(&internet);
    for (flag, field) in
        [("--identity-provider", "identity_provider"), ("--project-id", "project_id")]
    {
        if !text(row, field).is_empty() {
            plugin = plugin.arg(flag).arg(text(row, field));
        }
    }
    let image = text(file, "image");
    let spoken = plugin.ask(image, row);
    let asked = internet.requests();
    let exchange = asked.iter().find(|request| request.host == "sts.googleapis.com");
    if let Some(audience) = row["want_audience"].as_str() {
        let body = exchange.map(|request| request.body.clone()).unwrap_or_default();
        let body: Value = serde_json::from_str(&body).map_err(|_| "STS was not asked")?;
        fact("audience", &body["audience"], audience)?;
    }
    if row["sts"] == "must-not-be-called" {
        fact("STS asked", &exchange.is_some(), &false)?;
    }
    let Some(password) = row["expected_password"].as_str() else {
        // No credentials, and no silence either.
        return spoken.fails_with("");
    };
    let mut keys: Vec<_> = file["auth_keys_on_success"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key.as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    fact("keys", &spoken.keys()?, &keys)?;
    same(
        &spoken.login(image.split('/').next().unwrap())?,
        &[text(file, "username").to_owned(), password.to_owned()],
    )
}

fn auth_decode(_file: &Value, row: &Value) -> Result<(), String> {
    decoded(&json!({"auth": row["auth"]}), row)
}

fn entry_decode(_file: &Value, row: &Value) -> Result<(), String> {
    decoded(&row["entry"], row)
}

fn decoded(entry: &Value, row: &Value) -> Result<(), String> {
    let config = json!({"https://hello.kubernetes.io": entry}).to_string();
    let internet = Internet::start(move |_| Response::json(config.clone()));
    let spoken =
        plugin(&internet).arg("--authFlow").arg("dockercfg").ask("hello.kubernetes.io/app", row);
    if row["error"] == true {
        return spoken.fails_with("");
    }
    let answer = spoken.answer()?;
    let login =
        answer["auth"].as_object().and_then(|auth| auth.values().next()).ok_or("no login")?;
    fact("username", &login["username"], &row["username"])?;
    fact("password", &login["password"], &row["password"])
}
