//! Rows about what a plugin's author reads of a client's request.

use keyfob_plugin::{ExecInfo, LoadError};
use serde_json::{Value, json};

use crate::{Check, same};

pub(crate) const CHECKS: &[(&str, &str, Check)] =
    &[("client/load_exec_credential.json", "cases", load_exec_credential)];

fn load_exec_credential(_file: &Value, row: &Value) -> Result<(), String> {
    // The historic row has no text: v1alpha1 never has a cluster.
    let v1alpha1 = json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1alpha1", "spec": {},
    });
    let data = row.get("data").unwrap_or(&v1alpha1);
    let loaded = load(data);
    let (info, config) = match (loaded, row["want_error_prefix"].as_str()) {
        (Err(error), Some(prefix)) if error.to_string().starts_with(prefix) => return Ok(()),
        (Err(error), _) => return Err(error.to_string()),
        (Ok(_), Some(prefix)) => return Err(format!("taken, upstream: {prefix}")),
        (Ok(loaded), None) => loaded,
    };
    same(&config, &row["want_config"])?;
    let again: Value = serde_json::from_slice(info.encode().expose()).unwrap();
    same(&again, data)
}

/// The object and the configuration, as a row writes it.
fn load(data: &Value) -> Result<(ExecInfo, Value), LoadError> {
    let info = ExecInfo::read(data.to_string().as_bytes())?;
    let config = info.anonymous_config()?;
    let told = json!({
        "host": config.server,
        "insecure": config.insecure_skip_tls_verify,
        "serverName": config.tls_server_name,
        "caData_utf8": String::from_utf8_lossy(&config.certificate_authority_data),
        "proxyURL": config.proxy_url.map(|url| url.expose().clone()),
    });
    Ok((info, told))
}
