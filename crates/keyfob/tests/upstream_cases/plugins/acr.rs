//! `acr-credential-provider`.

use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};

use super::{Plugin, Spoken};
use crate::{Check, fact, same, text};

pub(super) const CHECKS: &[(&str, &str, Check)] = &[
    ("providers/acr-challenge.json", "assignment_cases", assignment),
    ("providers/acr-challenge.json", "cases", challenge),
    ("providers/acr-credential-selection.json", "cases", selection),
    ("providers/acr-credential-selection.json", "response_cases", response),
    ("providers/acr-exchange.json", "cases", exchange),
    ("providers/acr-identity-bindings-flags.json", "cases", bindings_flags),
    ("providers/acr-login-server.json", "cases", login_server),
    ("providers/acr-login-server.json", "with_public_cloud_suffix", login_server_of_public_cloud),
    ("providers/acr-mirror.json", "cases", mirror),
];

const MANAGED: &str = r#"{"useManagedIdentityExtension":true,"tenantId":"tenant"}"#;

/// The metadata service, the directory, and a registry under every other name.
fn azure(request: &Request) -> Response {
    match (request.host.as_str(), request.path()) {
        (_, "/metadata/identity/oauth2/token") => aad_token("of-the-node"),
        (_, path) if path.ends_with("/oauth2/v2.0/token") => aad_token("of-the-directory"),
        (host, "/v2/") => {
            challenged(&format!(r#"Bearer realm="https://{host}/oauth2/token",service="{host}""#))
        }
        (_, "/oauth2/exchange") => Response::json(r#"{"refresh_token":"refresh"}"#),
        _ => Response::status(404),
    }
}

fn aad_token(token: &str) -> Response {
    let body = json!({
        "access_token": token, "expires_in": "3600", "expires_on": "4102444800",
        "token_type": "Bearer", "resource": "https://containerregistry.azure.net",
    });
    let of_the_directory =
        json!({"access_token": token, "expires_in": 3600, "token_type": "Bearer"});
    let body = if token == "of-the-node" { body } else { of_the_directory };
    Response::json(body.to_string())
}

fn challenged(header: &str) -> Response {
    Response::status(401).header("Www-Authenticate", header)
}

fn plugin(internet: &Internet, azure_json: &str) -> Plugin {
    Plugin::new("acr")
        .through(internet)
        .env("AZURE_IMDS_ENDPOINT", &internet.url())
        .file("azure.json", azure_json)
}

/// The registries that were asked, in order, each once.
fn registries(internet: &Internet) -> Vec<String> {
    let asked = internet.requests().into_iter();
    asked.filter(|request| request.path() == "/v2/").map(|request| request.host).collect()
}

fn is_nothing(internet: &Internet, spoken: &Spoken) -> Result<(), String> {
    fact("keys", &spoken.keys()?, &Vec::<String>::new())?;
    fact("cacheDuration", &spoken.answer()?["cacheDuration"], "0s")?;
    fact("asked", &internet.requests().len(), &0)
}

fn login_server(file: &Value, row: &Value) -> Result<(), String> {
    let suffix = text(file, "custom_suffix_in_these_cases").trim_start_matches('.');
    let environment = json!({
        "managementEndpoint": "https://management.my.cloud", "activeDirectoryEndpoint": "https://login.my.cloud/",
        "containerRegistryDNSSuffix": suffix, "resourceManagerEndpoint": "https://arm.my.cloud",
    });
    let internet = Internet::start(azure);
    let config = json!({"cloud": "AZURESTACKCLOUD", "useManagedIdentityExtension": true, "tenantId": "tenant"});
    let plugin = plugin(&internet, &config.to_string());
    let path = plugin.directory.path().join("environment.json");
    std::fs::write(&path, environment.to_string()).unwrap();
    let plugin = plugin.env("AZURE_ENVIRONMENT_FILEPATH", path.to_str().unwrap());
    let spoken = plugin.ask(text(row, "image"), row);
    let expected = text(row, "login_server");
    if expected.is_empty() {
        return is_nothing(&internet, &spoken);
    }
    fact("asked", &registries(&internet), &vec![expected.to_owned()])?;
    fact("keys", &spoken.keys()?, &vec![expected.to_owned()])
}

/// What the peer takes for its own by mistake is none of ours.
fn login_server_of_public_cloud(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = Internet::start(azure);
    let spoken = plugin(&internet, MANAGED).ask(text(row, "image"), row);
    if text(row, "login_server_upstream") != "foo.azurecr.io" {
        return is_nothing(&internet, &spoken);
    }
    fact("keys", &spoken.keys()?, &vec!["foo.azurecr.io".to_owned()])
}

fn challenge(_file: &Value, row: &Value) -> Result<(), String> {
    let answered = row.clone();
    let internet = Internet::start(move |request| match request.path() {
        "/v2/" => {
            let status = u16::try_from(answered["status"].as_u64().unwrap()).unwrap();
            let headers = answered["headers"].as_array().into_iter().flatten();
            headers.fold(Response::status(status), |response, header| {
                response.header("Www-Authenticate", header.as_str().unwrap())
            })
        }
        _ => azure(request),
    });
    let image = match row["service"].as_str() {
        Some(service) => format!("{service}/app"),
        None => "test.azurecr.io/app".to_owned(),
    };
    let spoken = plugin(&internet, MANAGED).ask(&image, row);
    if let Some(error) = row["error"].as_str() {
        return spoken.fails_with(error);
    }
    if row.get("upstream").is_some() {
        // The peer falls over, or reads something else; ours says what is wrong.
        return spoken.fails_with("test.azurecr.io");
    }
    let exchanged =
        internet.requests().into_iter().find(|request| request.path() == "/oauth2/exchange");
    let exchanged = exchanged.ok_or("no exchange")?;
    fact("host", &exchanged.host, "test.azurecr.io")?;
    let service = format!("service={}", text(row, "service"));
    fact("service", &exchanged.body.split('&').any(|field| field == service), &true)
}

/// The list of assignments is read inside a challenge that has the rest.
fn assignment(_file: &Value, row: &Value) -> Result<(), String> {
    let list = text(row, "in").to_owned();
    let empty = list.is_empty();
    let internet = Internet::start(move |request| match request.path() {
        "/v2/" if list.is_empty() => challenged("Bearer "),
        "/v2/" => challenged(&format!(
            r#"Bearer {list},realm="https://test.azurecr.io/oauth2/token",service="test.azurecr.io""#
        )),
        _ => azure(request),
    });
    let spoken = plugin(&internet, MANAGED).ask("test.azurecr.io/app", row);
    if empty { spoken.fails_with("test.azurecr.io") } else { spoken.answer().map(|_| ()) }
}

fn exchange(_file: &Value, row: &Value) -> Result<(), String> {
    let (status, body) = (row["status"].as_u64().unwrap(), row["body"].to_string());
    let internet = Internet::start(move |request| match request.path() {
        "/oauth2/exchange" => {
            Response::json(body.clone()).with_status(u16::try_from(status).unwrap())
        }
        _ => azure(request),
    });
    let spoken = plugin(&internet, MANAGED).ask("test.azurecr.io/app", row);
    if let Some(error) = row["error_contains"].as_str() {
        return spoken.fails_with(error);
    }
    match text(row, "result") {
        "" => spoken.fails_with("refresh"),
        token => same(&spoken.login("test.azurecr.io")?[1], token),
    }
}

fn selection(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = Internet::start(azure);
    let config = row["azure_json"].as_str().map_or(row["azure_json"].to_string(), str::to_owned);
    let mut plugin = plugin(&internet, &config);
    if !text(row, "registry_mirror").is_empty() {
        plugin = plugin.arg("--registry-mirror").arg(text(row, "registry_mirror"));
    }
    if let Some(sni) = row["identity_bindings"]["sni"].as_str() {
        plugin = plugin.arg("--ib-sni-name").arg(sni).arg("--ib-apiserver-ip").arg("127.0.0.1");
    }
    let image = text(row, "image");
    let spoken = plugin.ask(image, row);
    let is_acr = image.contains("azurecr.io") || image.starts_with("mcr.microsoft.com");
    if let Some(error) = row["error_contains"].as_str() {
        // An image of someone else needs no credential at all.
        let broken = row["name"] == "broken json";
        return if is_acr || broken {
            spoken.fails_with(error)
        } else {
            is_nothing(&internet, &spoken)
        };
    }
    if !is_acr {
        return is_nothing(&internet, &spoken);
    }
    spoken.answer()?;
    let by_node =
        internet.requests().iter().any(|request| request.path().starts_with("/metadata/"));
    fact("managed identity", &by_node, &(row["credential"] == "managed-identity"))
}

/// The peer hands out the service principal itself; ours does with a flag, and without the entry for nobody.
fn response(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = Internet::start(azure);
    let config = row["azure_json"].as_str().map_or(row["azure_json"].to_string(), str::to_owned);
    let image = row["image"].as_str().unwrap_or("foo.azurecr.io/nginx:v1");
    let spoken = plugin(&internet, &config).arg("--legacy-service-principal").ask(image, row);
    if row["error"] == true {
        return spoken.fails_with("failed to load config");
    }
    let field = if row["auth"].is_object() { "auth" } else { "auth_extra" };
    for (key, login) in row[field].as_object().unwrap() {
        if login == &json!(["", ""]) {
            continue;
        }
        fact(key, &json!(spoken.login(key)?), login)?;
    }
    for field in ["cacheDuration", "cacheKeyType"] {
        if row[field].is_string() {
            fact(field, &spoken.answer()?[field], &row[field])?;
        }
    }
    Ok(())
}

fn bindings_flags(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = Internet::start(azure);
    let mut plugin = plugin(&internet, MANAGED);
    let flags = [
        ("sni", "--ib-sni-name"),
        ("ip", "--ib-apiserver-ip"),
        ("client", "--ib-default-client-id"),
    ];
    for (field, flag) in flags {
        if let Some(value) = row["in"][field].as_str() {
            plugin = plugin.arg(flag).arg(value);
        }
    }
    // Not its image: the flags are looked at all the same, and nothing is asked.
    let spoken = plugin.ask("quay.io/app", row);
    match row["error"].as_str() {
        Some(error) => spoken.fails_with(error),
        None => is_nothing(&internet, &spoken),
    }
}

fn mirror(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = Internet::start(azure);
    let plugin = plugin(&internet, MANAGED).arg("--registry-mirror").arg(text(row, "flag"));
    let Some(image) = row["image"].as_str() else { return mirror_map(plugin, row) };
    let spoken = plugin.ask(image, row);
    let login_server = text(row, "login_server").to_owned();
    fact("asked", &registries(&internet), &vec![login_server.clone()])?;
    let mut keys = vec![login_server, text(row, "source_registry").to_owned()];
    keys.retain(|key| !key.is_empty());
    fact("keys", &spoken.keys()?, &keys)
}

/// A flag that says nothing, or nothing of use.
fn mirror_map(plugin: Plugin, row: &Value) -> Result<(), String> {
    let spoken = plugin.ask("quay.io/app", row);
    let skipped = row["map"].as_object().unwrap().is_empty() && !text(row, "flag").is_empty();
    if skipped && spoken.code != 0 {
        // The peer drops such an entry with a line in a log; ours says so, where it is seen.
        return spoken.fails_with("registry-mirror");
    }
    spoken.answer().map(|_| ())
}
