//! Rows about what a plugin prints, through a real process and an authenticator.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_api::{ExecCluster, RawJson, Timestamp};
use keyfob_client::{AuthError, Credential, ExecConfig};
use keyfob_exec::Clock as _;
use serde_json::{Value, json};

use super::theatre::{Theatre, V1, answer};
use crate::{Check, exec_wire, fact, same, stage::block_on};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/derived_edge_cases.json", "decode_stdout", decode_stdout),
    ("client/derived_edge_cases.json", "expiry", expiry),
    ("client/derived_edge_cases.json", "exec_info_encoding", exec_info_encoding),
    ("client/go_verified_extra.json", "decode_stdout", decode_stdout),
];

fn decode_stdout(file: &Value, row: &Value) -> Result<(), String> {
    exec_wire::decode_stdout(file, row)?;
    let stdout = match (&row["stdout"], row["stdout_b64"].as_str()) {
        (_, Some(encoded)) => BASE64_STANDARD.decode(encoded).unwrap(),
        (Value::String(text), None) => text.clone().into_bytes(),
        (object, None) => object.to_string().into_bytes(),
    };
    let given = ask(row["configured"].as_str().unwrap_or(V1), &stdout);
    if let Some(text) = row["want_error"].as_str().or(row["want_error_prefix"].as_str()) {
        return refused(given, text);
    }
    let credential = given.map_err(|error| error.to_string())?;
    let want = &row["want"];
    let token = want["token"].as_str().or(row["want_token"].as_str());
    fact("token", &credential.token().map(|token| token.expose().as_str()), &token)?;
    let expiry = want["expiry_utc"].as_str().map(|text| Timestamp::parse(text).unwrap());
    fact("expiry", &credential.expiration(), &expiry)?;
    let name = credential.identity().and_then(|identity| identity.common_name());
    fact("leaf", &name, &want["cert_leaf_cn"].as_str())
}

/// Upstream's own sentences must be the same; what its decoders say begins alike.
fn refused(given: Result<Credential, AuthError>, text: &str) -> Result<(), String> {
    let Err(error) = given else { return Err("accepted".to_owned()) };
    match error.to_string() {
        ours if text.starts_with("decoding stdout: ") => {
            same(&ours.starts_with("decoding stdout: "), &true)
        }
        ours => same(ours.as_str(), text),
    }
}

/// What an authenticator makes of an output.
fn ask(version: &str, stdout: &[u8]) -> Result<Credential, AuthError> {
    let theatre = Theatre::new();
    let config = ExecConfig { api_version: version.into(), ..theatre.plug() };
    // Not the plugin that looks at what it prints.
    theatre.script("plug", "exec cat \"$0.out\"");
    theatre.prints(stdout);
    block_on(theatre.authenticator(&config, None).credential()).map(|found| (*found).clone())
}

fn expiry(file: &Value, row: &Value) -> Result<(), String> {
    exec_wire::expiry(file, row)?;
    let theatre = Theatre::new();
    let end = Timestamp::from(theatre.clock.now()).to_string();
    let end = row.get("expirationTimestamp").cloned().unwrap_or(json!(end));
    let config = theatre.plug();
    theatre.prints(answer(&json!({ "token": "t", "expirationTimestamp": end })));
    let authenticator = theatre.authenticator(&config, None);
    let first = block_on(authenticator.credential());
    if let Some(prefix) = row["want_error_prefix"].as_str() {
        return refused(first.map(|found| (*found).clone()), prefix);
    }
    if row["now_equals_expiry"] == true {
        fact("at the end", &authenticator.ready().is_some(), &true)?;
        theatre.clock.advance(std::time::Duration::from_nanos(1));
        fact("after the end", &authenticator.ready().is_some(), &false)?;
        block_on(authenticator.credential()).map_err(|error| error.to_string())?;
        return fact("runs", &theatre.runs(), &2);
    }
    let wanted = row["want_expiry_utc"].as_str().map(|text| Timestamp::parse(text).unwrap());
    fact("expiry", &first.map_err(|error| error.to_string())?.expiration(), &wanted)?;
    theatre.clock.advance(std::time::Duration::from_hours(24 * 365 * 100));
    fact("a century later", &authenticator.ready().is_some(), &wanted.is_none())
}

/// The rules that a process can feel: what it is given, and how much of it Linux takes.
fn exec_info_encoding(file: &Value, row: &Value) -> Result<(), String> {
    exec_wire::exec_info_encoding(file, row)?;
    for (length, starts) in [(131_050, true), (131_051, false)] {
        let theatre = Theatre::new();
        let config = ExecConfig { provide_cluster_info: true, ..theatre.plug() };
        theatre.script(
            "plug",
            "printf %s \"$KUBERNETES_EXEC_INFO\" > \"$0.info\"\nexec cat \"$0.out\"",
        );
        theatre.prints(answer(&json!({ "token": "t" })));
        let asked = block_on(theatre.authenticator(&config, Some(&cluster(length))).credential());
        match asked {
            Ok(_) => {
                let info =
                    std::fs::read_to_string(theatre.folder.path().join("plug.info")).unwrap();
                fact("length", &info.len(), &length)?;
                fact(
                    "line breaks",
                    &(info.matches('\n').count(), info.ends_with('\n')),
                    &(1, true),
                )?;
            }
            Err(error) => {
                let wanted = theatre.here("exec: fork/exec <DIR>/plug: argument list too long");
                same(error.to_string().as_str(), wanted.as_str())?;
            }
        }
        fact("accepted", &theatre.folder.path().join("plug.info").exists(), &starts)?;
    }
    Ok(())
}

/// A cluster whose information has so many bytes.
fn cluster(length: usize) -> ExecCluster {
    let empty = concat!(
        r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","#,
        r#""spec":{"cluster":{"server":"","config":""},"interactive":false}}"#,
        "\n"
    );
    let filler = "x".repeat(length - empty.len());
    let config = Some(RawJson::parse(&format!("\"{filler}\"")).unwrap());
    ExecCluster { config, ..ExecCluster::default() }
}
