//! Rows about the messages between a client and an exec plugin.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_api::{
    ClientIdentity, ExecAnswerError, ExecCluster, ExecCredentialSpec, ExecCredentialStatus,
    ExecVersion, RawJson, Timestamp,
};
use serde_json::{Value, json};

use crate::same;

const V1: &str = "client.authentication.k8s.io/v1";

pub(crate) fn decode_stdout(_file: &Value, row: &Value) -> Result<(), String> {
    let stdout = match (&row["stdout"], row["stdout_b64"].as_str()) {
        (_, Some(encoded)) => BASE64_STANDARD.decode(encoded).unwrap(),
        (Value::String(text), None) => text.clone().into_bytes(),
        (object, None) => object.to_string().into_bytes(),
    };
    let configured = row["configured"].as_str().unwrap_or(V1).parse().unwrap();
    let decoded = ExecCredentialStatus::decode(&stdout, configured);
    if let Some(text) = row["want_error"].as_str().or(row["want_error_prefix"].as_str()) {
        return refused(&decoded, &stdout, text);
    }
    let status = decoded.map_err(|error| error.to_string())?;
    let want = &row["want"];
    let token = want["token"].as_str().or(row["want_token"].as_str());
    same(&status.token.as_ref().map(|token| token.expose().as_str()), &token)?;
    same(
        &status.expiration,
        &want["expiry_utc"].as_str().map(|text| Timestamp::parse(text).unwrap()),
    )?;
    same(&status.identity.is_some(), &want.get("cert_leaf_cn").is_some())
}

/// Fixed sentences must be the same; decoding errors must be decoding errors. Whether a certificate fits its key is
/// decided later, so there the texts must have come through unchanged.
fn refused(
    decoded: &Result<ExecCredentialStatus, ExecAnswerError>,
    stdout: &[u8],
    text: &str,
) -> Result<(), String> {
    match decoded {
        Err(error @ ExecAnswerError::Decoding(_)) if text.starts_with("decoding stdout: ") => {
            same(&error.to_string().starts_with("decoding stdout: "), &true)
        }
        Err(error) => same(error.to_string().as_str(), text),
        Ok(status) if text.starts_with("failed parsing client key/certificate: ") => {
            let identity = status.identity.as_ref().ok_or("no certificate")?;
            match serde_json::from_slice::<Value>(stdout) {
                Ok(json) => same_pair(
                    identity,
                    &json["status"]["clientCertificateData"],
                    &json["status"]["clientKeyData"],
                ),
                Err(_) => Ok(()),
            }
        }
        Ok(_) => Err("accepted".to_owned()),
    }
}

fn same_pair(identity: &ClientIdentity, certificate: &Value, key: &Value) -> Result<(), String> {
    same(&Some(identity.certificate_pem.expose().as_str()), &certificate.as_str())?;
    same(&Some(identity.key_pem.expose().as_str()), &key.as_str())
}

pub(crate) fn expiry(_file: &Value, row: &Value) -> Result<(), String> {
    let Some(text) = row.get("expirationTimestamp") else {
        return Ok(()); // about the clock, which is not here
    };
    let stdout =
        json!({ "apiVersion": V1, "status": { "token": "t", "expirationTimestamp": text } })
            .to_string();
    let decoded = ExecCredentialStatus::decode(stdout.as_bytes(), ExecVersion::V1);
    if let Some(prefix) = row["want_error_prefix"].as_str() {
        return refused(&decoded, stdout.as_bytes(), prefix);
    }
    let wanted = row["want_expiry_utc"].as_str().map(|text| Timestamp::parse(text).unwrap());
    same(&decoded.map_err(|error| error.to_string())?.expiration, &wanted)
}

pub(crate) fn exec_info_encoding(_file: &Value, row: &Value) -> Result<(), String> {
    let Some(example) = row["example"].as_str() else {
        return Ok(()); // a rule in words; the rows of `exec_info` show it
    };
    let (version, mut spec) =
        ExecCredentialSpec::decode(example.as_bytes()).map_err(|error| error.to_string())?;
    // The example's configuration came from a program, which passes it on as it is.
    let config = r#"{ "k": "<>&\u2028\u2029\u0041é", "n": 1.0e2 }"#;
    spec.cluster.as_mut().unwrap().config = Some(RawJson::parse(config).unwrap());
    same(text(&spec, version).as_str(), &example.replace("\\ufffd", "\u{fffd}"))
}

pub(crate) fn v1alpha1(_file: &Value, row: &Value) -> Result<(), String> {
    let version: ExecVersion = row["config"]["apiVersion"].as_str().unwrap().parse().unwrap();
    let spec = ExecCredentialSpec {
        interactive: row["stdin_is_terminal"] == true,
        cluster: row.get("cluster").map(|_| ExecCluster::default()),
        response: None,
    };
    let info: Value = serde_json::from_str(&text(&spec, version)).unwrap();
    same(&info, &row["want_KUBERNETES_EXEC_INFO"])?;
    let stdout = row["plugin_stdout"].to_string();
    let decoded = ExecCredentialStatus::decode(stdout.as_bytes(), version);
    match (decoded, row["want_error"] == true) {
        (Err(_), true) => Ok(()),
        // Only the pair itself is bad, which is found out later.
        (Ok(status), true) => same(&status.identity.is_some(), &true),
        (Ok(status), false) => same(
            &status.token.as_ref().map(|token| token.expose().as_str()),
            &row["want_credentials"]["token"].as_str(),
        ),
        (Err(error), false) => Err(error.to_string()),
    }
}

fn text(spec: &ExecCredentialSpec, version: ExecVersion) -> String {
    String::from_utf8(spec.encode(version).expose().clone()).unwrap()
}
