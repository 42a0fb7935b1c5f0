//! Rows about the messages between the kubelet and a provider plugin.

use keyfob_api::{
    AuthConfig, CredentialProviderRequest, CredentialProviderResponse, GoDuration, ProviderVersion,
    RequestError, ResponseError,
};
use serde_json::{Value, json};

use crate::{Check, same};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("kubelet/exec_wire.json", "Test_encodeRequest", encode_request),
    ("kubelet/exec_wire.json", "Test_decodeResponse", decode_response),
    ("providers/plugin-stdio.json", "cases", plugin_stdio),
];

fn encode_request(_file: &Value, row: &Value) -> Result<(), String> {
    let version = row["apiVersion"].as_str().unwrap().parse().unwrap();
    let request = &row["request"];
    let annotations = request["ServiceAccountAnnotations"].as_object().cloned().unwrap_or_default();
    let request = CredentialProviderRequest {
        image: request["Image"].as_str().unwrap_or_default().to_owned(),
        service_account_token: request["ServiceAccountToken"].as_str().map(Into::into),
        service_account_annotations: annotations
            .into_iter()
            .map(|(key, value)| (key, value.as_str().unwrap().to_owned()))
            .collect(),
    };
    let bytes = request.encode(version);
    same(
        String::from_utf8_lossy(bytes.expose()).as_ref(),
        row["expected_bytes"].as_str().unwrap(),
    )?;
    let decoded =
        CredentialProviderRequest::decode(bytes.expose()).map_err(|error| error.to_string())?;
    same(&decoded.0, &version)
}

fn decode_response(_file: &Value, row: &Value) -> Result<(), String> {
    let data = row["data"].as_str().unwrap();
    let said: Value = serde_json::from_str(data).unwrap();
    let version = said["apiVersion"].as_str().unwrap().parse().unwrap_or(ProviderVersion::V1);
    let decoded = CredentialProviderResponse::decode(data.as_bytes(), version);
    match (decoded, row["expected_error"].as_bool().unwrap()) {
        (Err(_), true) => Ok(()),
        (Ok(response), false) => same(&as_go(&response), &row["expected_response"]),
        (Ok(_), true) => Err("accepted".to_owned()),
        (Err(error), false) => Err(error.to_string()),
    }
}

/// A response in the notation of the rows.
fn as_go(response: &CredentialProviderResponse) -> Value {
    let auth = response.auth.iter().map(|(key, auth)| {
        (key.clone(), json!({ "Username": auth.username, "Password": auth.password.expose() }))
    });
    json!({
        "CacheKeyType": response.cache_key_type.as_str(),
        "CacheDuration": response.cache_duration.map(|duration| duration.to_string()),
        "Auth": Value::Object(auth.collect()),
    })
}

/// What the decoder decides of a provider's call: whether there is an answer, which, and what its lifetime says.
pub(crate) fn plugin_stdout(_file: &Value, row: &Value) -> Result<(), String> {
    let decoded = CredentialProviderResponse::decode(
        row["stdout"].as_str().unwrap().as_bytes(),
        ProviderVersion::V1,
    );
    match (decoded, row["expected_error_exact"].as_str()) {
        (Err(error), Some(text)) => error_is(&error, text),
        (Ok(response), None) => {
            credentials_are(&response, row["expected"].as_str().unwrap())?;
            lifetime_is(response.cache_duration, row)
        }
        (Ok(_), Some(_)) => Err("accepted".to_owned()),
        (Err(error), None) => Err(error.to_string()),
    }
}

fn error_is(error: &ResponseError, text: &str) -> Result<(), String> {
    let text = text
        .strip_prefix("failed to get credential from external registry credential provider: ")
        .unwrap_or(text);
    let fits = match error {
        ResponseError::Version { .. } => same_versions(&error.to_string(), text),
        ResponseError::CacheKeyType(_) => {
            text.starts_with("credential provider plugin did not return a valid cacheKeyType: ")
        }
        ResponseError::Json(_) => text.starts_with("error reading GVK from response: "),
        ResponseError::Field(_) => text.starts_with("error "),
        _ => text == "error decoding credential provider plugin response from stdout",
    };
    if fits { Ok(()) } else { Err(format!("ours: {error}")) }
}

/// Ours puts a word where upstream shows nothing, or something that does not look like a version.
fn same_versions(ours: &str, upstream: &str) -> bool {
    const ACTUAL: &str = "actual apiVersion:";
    let parts = (ours.split_once(ACTUAL), upstream.split_once(ACTUAL));
    let (Some((ours, actual)), Some((upstream, shown))) = parts else { return false };
    ours == upstream
        && (actual == shown || actual == "something else" || (actual, shown) == ("none", ""))
}

fn credentials_are(response: &CredentialProviderResponse, expected: &str) -> Result<(), String> {
    let auth = |username: &str, password: &str| AuthConfig {
        username: username.into(),
        password: password.into(),
    };
    let wanted = match expected {
        "credentials used" => Some(auth("u", "p")),
        "credential with empty username and password" => Some(auth("", "")),
        "credential with empty username" => Some(auth("", "p")),
        _ => None,
    };
    let for_image = response.auth.iter().find(|(key, _)| key == "r.io");
    same(&for_image.map(|(_, auth)| auth.clone()), &wanted)
}

fn lifetime_is(duration: Option<GoDuration>, row: &Value) -> Result<(), String> {
    let wanted = match (&row["cached"], row["cache_for"].as_str()) {
        (Value::Bool(false), _) => duration == Some(GoDuration::ZERO),
        (Value::String(_), _) => duration.is_some_and(GoDuration::is_negative),
        (_, Some("10m (default)") | None) => duration.is_none(),
        (_, Some(text)) => duration == Some(text.parse().unwrap()),
    };
    if wanted { Ok(()) } else { Err(format!("cacheDuration is {duration:?}")) }
}

fn plugin_stdio(_file: &Value, row: &Value) -> Result<(), String> {
    let request = CredentialProviderRequest::decode(row["stdin"].to_string().as_bytes());
    if let Some(stdout) = row.get("stdout") {
        let (version, _) = request.map_err(|error| error.to_string())?;
        return answer_is(&row["plugin_answer"], version, stdout);
    }
    if let Some(text) = row["error_contains"].as_str() {
        // Which versions a plugin supports is its own rule; the decoder knows all three and has the sentence.
        let version = row["stdin"]["apiVersion"].as_str().unwrap();
        same(&request.map(|request| request.0.to_string()).ok().as_deref(), &Some(version))?;
        return same(&unsupported("x.k8s.io/v1"), &text.replace(version, "x.k8s.io/v1"));
    }
    // Likewise an empty image: it can be decoded, and one plugin refuses it.
    let decodable = row.get("plugin").is_some();
    if request.is_ok() == decodable { Ok(()) } else { Err(format!("{request:?}")) }
}

fn unsupported(version: &str) -> String {
    let stdin = json!({ "kind": "CredentialProviderRequest", "apiVersion": version }).to_string();
    match CredentialProviderRequest::decode(stdin.as_bytes()) {
        Err(error @ RequestError::Version(_)) => error.to_string(),
        other => format!("{other:?}"),
    }
}

fn answer_is(answer: &Value, version: ProviderVersion, stdout: &Value) -> Result<(), String> {
    let auth = answer["auth"].as_object().unwrap().iter().map(|(key, pair)| {
        let text = |index: usize| pair[index].as_str().unwrap();
        (key.clone(), AuthConfig { username: text(0).into(), password: text(1).into() })
    });
    let response = CredentialProviderResponse {
        cache_key_type: answer["cacheKeyType"].as_str().unwrap().parse().unwrap(),
        cache_duration: answer["cacheDuration"].as_str().map(|text| text.parse().unwrap()),
        auth: auth.collect(),
    };
    let bytes = response.encode(version);
    let line = bytes.expose().strip_suffix(b"\n").ok_or("no line break at the end")?;
    same(&serde_json::from_slice::<Value>(line).unwrap(), stdout)
}
