//! Rows about one refresh: what a plugin is told, and what its answer becomes.

use std::sync::atomic::Ordering;

use keyfob_api::{ExecCluster, ExecVersion, RawJson, Timestamp};
use keyfob_client::ExecConfig;
use serde_json::Value;

use super::theatre::{Pair, Theatre};
use crate::{Check, exec_wire, fact, same, stage::block_on, text};

pub(crate) const CHECKS: &[(&str, &str, Check)] = &[
    ("client/refresh_creds.json", "cases", refresh),
    ("client/refresh_creds_v1alpha1_historic.json", "cases", v1alpha1),
];

/// A modern client refuses it, unless it is told not to.
fn v1alpha1(file: &Value, row: &Value) -> Result<(), String> {
    exec_wire::v1alpha1(file, row)?;
    let theatre = Theatre::new();
    let api_version = text(&row["config"], "apiVersion").to_owned();
    let config = ExecConfig { api_version, ..theatre.plug() };
    let refused = theatre.authenticators().get(&config, None).unwrap_err().to_string();
    let wanted = text(&file["wire_facts"], "modern_client");
    fact(
        "modern client",
        &wanted.starts_with(&format!("{refused} at client construction")),
        &true,
    )?;
    let mut theatre = Theatre::new();
    theatre.behaviour.v1alpha1 = true;
    refreshed(&theatre, row)
}

fn refresh(_file: &Value, row: &Value) -> Result<(), String> {
    refreshed(&Theatre::new(), row)
}

fn refreshed(theatre: &Theatre, row: &Value) -> Result<(), String> {
    let given = &row["config"];
    let version: ExecVersion = text(given, "apiVersion").parse().unwrap();
    let unavailable = given["stdinUnavailable"] == true;
    let message = given["stdinUnavailableMessage"].as_str().unwrap_or_default();
    let provide = &given["provideClusterInfo"];
    let config = ExecConfig {
        api_version: version.api_version().into(),
        interactive_mode: text(given, "interactiveMode").into(),
        stdin_unavailable: unavailable.then(|| message.to_owned()),
        provide_cluster_info: *provide == true || provide.is_string(),
        ..theatre.plug()
    };
    let code = row["plugin_exit_code"].as_i64().unwrap_or_default();
    theatre.script(
        "plug",
        &format!("printf %s \"$KUBERNETES_EXEC_INFO\" > \"$0.info\"\ncat \"$0.out\"\nexit {code}"),
    );
    let pair = Pair::new("ada");
    theatre.prints(printed(row, &pair, version));
    theatre.terminal.0.store(row["stdin_is_terminal"] == true, Ordering::SeqCst);
    let cluster = row.get("cluster").map(cluster);
    let asked = block_on(theatre.authenticator(&config, cluster.as_ref()).credential());
    if let Some(wanted) = row.get("want_KUBERNETES_EXEC_INFO") {
        let info = std::fs::read(theatre.folder.path().join("plug.info")).unwrap();
        same(&serde_json::from_slice::<Value>(&info).unwrap(), wanted)?;
    }
    match (asked, row["want_error"] == true) {
        (Err(error), true) => {
            let part = row["want_error_contains"].as_str().unwrap_or_default();
            if error.to_string().contains(part) { Ok(()) } else { Err(error.to_string()) }
        }
        (Err(error), false) => Err(error.to_string()),
        (Ok(_), true) => Err("accepted".to_owned()),
        (Ok(credential), false) => {
            let wanted = &row["want_credentials"];
            let token = credential.token().map(|token| token.expose().as_str());
            fact("token", &token, &wanted["token"].as_str())?;
            fact("certificate", &credential.identity().is_some(), &wanted.get("cert").is_some())?;
            let expiry = row["want_expiry"].as_str().map(|text| Timestamp::parse(text).unwrap());
            fact("expiry", &credential.expiration(), &expiry)
        }
    }
}

/// What the plugin prints, with a pair of ours in the places of the rows'.
fn printed(row: &Value, pair: &Pair, version: ExecVersion) -> String {
    let status = &row["plugin_stdout"]["status"];
    if status["clientKeyData"] == "<VALID_KEY_PEM>" {
        return pair.answer(version);
    }
    let mut stdout = row["plugin_stdout"].clone();
    if status["clientCertificateData"] == "<VALID_CERT_PEM>" {
        stdout["status"]["clientCertificateData"] = pair.certificate.as_str().into();
    }
    if stdout.is_null() { String::new() } else { stdout.to_string() }
}

fn cluster(row: &Value) -> ExecCluster {
    let config = row["config_raw_json"].to_string();
    ExecCluster {
        server: text(row, "server").into(),
        tls_server_name: text(row, "tlsServerName").into(),
        certificate_authority_data: text(row, "certificateAuthorityData_utf8").into(),
        config: Some(RawJson::parse(&config).unwrap()),
        ..ExecCluster::default()
    }
}
